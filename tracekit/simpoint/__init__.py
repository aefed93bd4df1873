"""Phases of a program: vectors of code and memory, clusters of them, and SimPoint's files."""

from tracekit.simpoint.clusters import SimulationPoint, choose
from tracekit.simpoint.files import (
    read_points,
    read_vectors,
    read_weights,
    write_points,
    write_vectors,
)
from tracekit.simpoint.memory import memory_vectors
from tracekit.simpoint.simulator_arguments import arguments, opened, regions
from tracekit.simpoint.vectors import BlockVectors, block_vectors

__all__ = [
    "BlockVectors",
    "SimulationPoint",
    "arguments",
    "block_vectors",
    "choose",
    "memory_vectors",
    "opened",
    "read_points",
    "read_vectors",
    "read_weights",
    "regions",
    "write_points",
    "write_vectors",
]
