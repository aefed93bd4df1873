"""Addresses to functions, source lines and inlined frames, for programs and their libraries."""

from tracekit.symbols.address_map import (
    UNKNOWN,
    AddressMap,
    ObjectFile,
    Place,
    build_id,
)
from tracekit.symbols.maps import Frame, Mapped, maps_as_lists, parse_maps

__all__ = [
    "UNKNOWN",
    "AddressMap",
    "Frame",
    "Mapped",
    "ObjectFile",
    "Place",
    "build_id",
    "maps_as_lists",
    "parse_maps",
]
