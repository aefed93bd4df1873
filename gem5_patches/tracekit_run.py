"""Run any gem5 configuration with tracekit's tracer attached, without an edit to it.

    gem5.opt [gem5's options] tracekit_run.py [options] their_config.py [its options]

The configuration runs as it always does; when it instantiates its system, a tracer is attached to
every CPU (``--cpu`` picks some), and the regions that the options name are traced.
"""

import argparse
import io
import re
import sys
import zlib
from pathlib import Path

import m5
import m5.objects


def parse_arguments(argv):
    parser = argparse.ArgumentParser(
        prog="tracekit_run.py",
        description=__doc__.splitlines()[0],
        usage="gem5.opt tracekit_run.py [options] CONFIG.py [arguments of the configuration]",
    )
    parser.add_argument(
        "--out",
        default="trace.tkt",
        help="file in gem5's output folder, or an absolute path; .gz and .zst compress, a FIFO is "
        "a pipe. With several CPUs the CPU's name comes before the ending",
    )
    parser.add_argument(
        "--cpu", default="", help="only CPUs whose name this regular expression finds"
    )
    parser.add_argument("--start-inst", type=int, default=0, help="instructions to commit first")
    parser.add_argument("--insts", type=int, default=0, help="instructions to trace; 0 = all")
    parser.add_argument("--start-tick", type=int, default=0, help="begin at this tick")
    parser.add_argument("--stop-tick", type=int, default=0, help="end at this tick")
    parser.add_argument(
        "--roi", action="store_true", help="trace between the guest's m5 work-begin and work-end"
    )
    parser.add_argument("--exit", action="store_true", help="end the simulation with the trace")
    parser.add_argument(
        "--no-stages", action="store_true", help="O3: only the fetch and retire ticks"
    )
    parser.add_argument("config", help="the gem5 configuration script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    return parser.parse_args(argv)


def path_of(out, cpu_name, alone):
    if alone or not out:
        return out
    stem, dot, ending = Path(out).name.partition(".tkt")
    return str(Path(out).with_name(f"{stem}.{cpu_name}{dot}{ending}"))


def attach(cpus, options):
    """Give each of these BaseCPU objects a tracer (before m5.instantiate); return the tracers."""
    is_o3 = getattr(m5.objects, "BaseO3CPU", None) or getattr(m5.objects, "DerivO3CPU", None)
    kvm = getattr(m5.objects, "BaseKvmCPU", None)
    cpus = [c for c in cpus if not (kvm and isinstance(c, kvm))]
    chosen = [c for c in cpus if re.search(options.cpu, c.path())]
    if not chosen:
        sys.exit(f"tracekit_run.py: no CPU's name matches {options.cpu!r}")
    tracers = []
    for cpu in cpus:
        traced = any(cpu is c for c in chosen)
        o3 = bool(is_o3 and isinstance(cpu, is_o3))
        if not traced and not o3:
            continue
        tracer = m5.objects.TracekitTracer(
            output=path_of(options.out, cpu.path(), len(chosen) == 1) if traced else "",
            start_inst=options.start_inst,
            max_insts=options.insts,
            start_tick=options.start_tick,
            stop_tick=options.stop_tick,
            roi=options.roi,
            exit_when_done=options.exit,
        )
        cpu.tracer = tracer
        if o3:
            # Also on an O3 CPU that is not traced: the flag that makes gem5 keep its stages' ticks
            # is one for all of them, and the listener keeps it from printing.
            cpu.tracekit = m5.objects.TracekitO3Probe(
                manager=cpu, tracer=tracer, stages=not options.no_stages
            )
        if traced:
            tracers.append(tracer)
    return tracers


def configuration(root):
    """What gem5 writes to config.ini, by zlib; after m5.instantiate has put all values in."""
    text = io.StringIO()
    for thing in sorted(root.descendants(), key=lambda o: o.path()):
        thing.print_ini(text)
    return zlib.compress(text.getvalue().encode("utf-8"), 9)


def follow_work_items(systems, tracers):
    """Start and stop the tracers where the guest's work items begin and end."""
    wanted = any(bool(s.exit_on_work_items) for s in systems)  # by the configuration itself
    for system in systems:
        system.exit_on_work_items = True
    simulate = m5.simulate

    def simulate_regions(*args, **kwargs):
        while True:
            event = simulate(*args, **kwargs)
            cause = event.getCause()
            if cause == "workbegin":
                for tracer in tracers:
                    tracer.getCCObject().start()
            elif cause == "workend":
                for tracer in tracers:
                    tracer.getCCObject().stop()
            else:
                return event
            if wanted:
                return event

    m5.simulate = simulate_regions


def main():
    options = parse_arguments(sys.argv[1:])
    instantiate = m5.instantiate

    def instantiate_traced(*args, **kwargs):
        root = m5.objects.Root.getInstance()
        everything = list(root.descendants())
        cpus = [o for o in everything if isinstance(o, m5.objects.BaseCPU)]
        tracers = attach(cpus, options)
        if options.roi:
            follow_work_items([o for o in everything if isinstance(o, m5.objects.System)], tracers)
        m5.instantiate = instantiate
        done = instantiate(*args, **kwargs)
        told = configuration(root)
        for tracer in tracers:
            tracer.getCCObject().configuration(told)
        return done

    m5.instantiate = instantiate_traced
    sys.argv = [options.config, *options.arguments]
    config = Path(options.config)
    sys.path[0:0] = [str(config.resolve().parent)]
    code = compile(config.read_text(encoding="utf-8"), options.config, "exec")
    exec(code, {"__name__": "__m5_main__", "__file__": options.config})


if __name__ == "__m5_main__":
    main()
