# ruff: noqa: F403, F405, RUF012 -- the idiom of gem5's SimObject files
"""The plug-in's SimObjects; tracekit_run.py attaches them to the CPUs of any configuration."""

from m5.objects.InstTracer import InstTracer
from m5.objects.Probe import ProbeListenerObject
from m5.params import *
from m5.util.pybind import PyBindMethod


class TracekitTracer(InstTracer):
    type = "TracekitTracer"
    cxx_header = "tracekit_tracer.hh"
    cxx_class = "gem5::tracekit_plugin::Tracer"
    cxx_exports = [PyBindMethod(n) for n in ("start", "stop", "configuration")]

    output = Param.String(
        "trace.tkt",
        "File in gem5's output folder, or an absolute path: .tkt, .tkt.gz, .tkt.zst or a FIFO",
    )
    start_inst = Param.UInt64(0, "Instructions to commit before the first traced one")
    max_insts = Param.UInt64(0, "Instructions to trace; 0 = to the end")
    start_tick = Param.Tick(0, "Tick at which tracing begins; 0 = at once")
    stop_tick = Param.Tick(0, "Tick at which tracing ends; 0 = never")
    roi = Param.Bool(False, "Wait for start(), as m5 work items call it")
    exit_when_done = Param.Bool(False, "End the simulation when the limit is reached")


class TracekitO3Probe(ProbeListenerObject):
    type = "TracekitO3Probe"
    cxx_header = "tracekit_o3.hh"
    cxx_class = "gem5::tracekit_plugin::O3Probe"

    tracer = Param.TracekitTracer("The tracer of the same CPU")
    stages = Param.Bool(True, "The ticks of all stages, not only fetch and retire")
