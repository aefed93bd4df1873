"""A stand-in for gem5.opt: takes gem5's command line, lets the package's own scripts parse theirs,
and writes a trace through the plug-in's own writer.

The instructions follow from the program's bytes and arguments alone, the ticks from the machine,
too.  ``install`` makes it a program.  Words in the program's arguments make it fail:
``fatal:MACHINE``, ``other-way:MACHINE``, ``killed:MACHINE`` (``atomic``: the functional run),
``ends:N`` (after N instructions) and ``slow`` (waits until the file ``go`` is beside the program).
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import signal
import sys
import time
import types
import zlib
from pathlib import Path
from typing import Any


def install(folder: Path) -> Path:
    """The stand-in as a program in ``folder``."""
    import tracekit

    place = folder / "gem5.opt"
    source = Path(tracekit.__file__).resolve().parent.parent
    place.write_text(
        f'#!/bin/sh\nexec "{sys.executable}" "{Path(__file__).resolve()}" "{source}" "$@"\n'
    )
    place.chmod(0o755)
    return place


def program(folder: Path, name: str, arch: str = "riscv", text: str = "") -> Path:
    """A file that begins like a static program of ``arch``."""
    number = {"x86": 62, "arm": 183, "riscv": 243}[arch]
    head = b"\x7fELF\x02\x01\x01" + bytes(9) + (2).to_bytes(2, "little")
    place = folder / name
    place.write_bytes(head + number.to_bytes(2, "little") + f"{name} {text}".encode())
    return place


class Anything(types.ModuleType):
    """A module with every name."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


def arguments_of(script: Path, argv: list[str]) -> Any:
    """What a script of gem5_patches makes of its arguments."""
    m5 = Anything("m5")
    m5.objects = sys.modules["m5.objects"] = Anything("m5.objects")
    sys.modules["m5"] = m5
    spec = importlib.util.spec_from_file_location(script.stem, script)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.parse_arguments(argv)


def words(arguments: list[str], machine: str) -> dict[str, str]:
    """What is to happen on this machine."""
    out = {}
    for a in arguments:
        name, _, value = a.partition(":")
        if name in ("ends", "slow") or value == machine:
            out[name] = value
    return out


def trace(machine: dict[str, Any], count: int, seed: int, other_way: bool) -> bytes:
    """So many instructions: a walk over sixteen, loads among them."""
    from tracekit import _core

    draw = random.Random(seed)
    period = round(1000 / machine.get("clock_ghz", 1.0))
    writer = _core.TktWriter(
        {
            "isa": "riscv",
            "tick_frequency": 10**12,
            "tick_unit": period,
            "stages": 0xFF if machine else 0,
            "op_classes": ["No_OpClass", "IntAlu", "MemRead"],
            "flags": ["IsInteger", "IsLoad", "IsControl"],
            "reg_classes": ["integer", "floating_point", "vector"],
            "configuration": zlib.compress(b"[root]\ntype=Root\n"),
        }
    )
    for i in range(16):
        load = i % 4 == 3
        text = f"ld a{i % 8}, 0(sp)" if load else f"add a{i % 8}, a1, a2"
        writer.add_static(0x10000 + 4 * i, op=2 if load else 1, flags=3 if load else 1,
                          disassembly=text)  # fmt: skip
    cycle = 10.0
    for i in range(count):
        sid = draw.randrange(16)
        if other_way and i == 5:
            sid = (sid + 1) % 16
        load = sid % 4 == 3
        cycle += 1 / machine.get("width", 1) + load * machine.get("l1d_lat", 1)
        tick = int(cycle) * period
        address = 0x8000 + 64 * draw.randrange(99) if load else 0
        if machine:
            writer.add_row(sid, 16 if load else 0, address, 8 if load else 0, [tick] * 7 + [0])
        else:
            writer.add_row(sid, 48 if load else 32, address, 8 if load else 0, [])
    writer.finish()
    return bytes(writer.take())


def main(argv: list[str]) -> None:
    """Does as gem5 would."""
    outdir = Path(argv[0].removeprefix("--outdir="))
    runner = arguments_of(Path(argv[1]), argv[2:])
    o = arguments_of(Path(runner.config), runner.arguments)
    machine = {} if o.functional else json.loads(Path(o.machine).read_text())
    name, args = Path(o.command[0]), o.command[1:]
    todo = words(args, machine.get("name", "atomic"))
    outdir.mkdir()
    while "slow" in todo and not (name.resolve().parent / "go").exists():
        time.sleep(0.02)
    if "fatal" in todo:
        sys.exit("src/sim/x.cc:7: fatal: out of everything\nMemory Usage: 1 KBytes")
    if "asserts" in todo:
        print(
            "gem5.opt: src/x.hh:5: void f(): Assertion `x' failed.\nProgram aborted\nFor more info"
        )
        sys.stdout.flush()
        os.abort()
    if "killed" in todo:
        os.kill(os.getpid(), signal.SIGKILL)
    said = f"the program {name.name} says: \xe9 tracekit_machine.py: no"
    print(said)
    count = runner.insts
    if "ends" in todo:
        count = max(0, min(count, int(todo["ends"]) - o.skip - runner.start_inst))
        if not count and not o.functional:
            print("tracekit_machine.py: ended while skipping: exiting")
            sys.exit(3)
    files = [Path(a).read_bytes() for a in args if Path(a).is_file()]
    files += [Path(o.stdin).read_bytes()] if o.stdin else []
    first = o.skip + runner.start_inst
    text = repr((name.read_bytes(), args, files, first)).encode()
    data = trace(machine, count, zlib.crc32(text), "other-way" in todo)
    (outdir / runner.out).write_bytes(data)
    ended = "ends" in todo and count < runner.insts
    cause = "exiting with last active thread context" if ended else None
    print(f"tracekit_machine.py: {cause or 'tracekit: the traced region is complete'}")


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    main(sys.argv[2:])
