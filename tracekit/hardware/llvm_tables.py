"""Makes the instruction tables from LLVM's scheduling models.

    python -m tracekit.hardware.llvm_tables [--samples ELF ...] [--table NAME ...]

One encoding of each instruction form is known (``tables/samples_x86.json``, ``…_arm.json``);
``--samples`` adds the forms that the code of ELF files has.  llvm-mc disassembles them, llvm-mca
prints µops, latency and occupied units of each under every model (`tracekit.hardware.llvm_models`),
and what becomes of that is written to ``tables/NAME.json``.  Only this command needs LLVM (19).

LLVM's numbers are under Apache-2.0 with LLVM's exceptions, which each file says.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from tracekit.errors import TracekitError
from tracekit.hardware.entries import Entry
from tracekit.hardware.forms import INVALID, decode_form, sweep
from tracekit.hardware.llvm_models import MODELS, LlvmModel, Memory
from tracekit.io.files import read_json
from tracekit.io.output import write_bytes

TABLES: Final = Path(__file__).parent / "tables"
FORMAT: Final = 1
_TRIPLE: Final = {"x86": "x86_64", "arm": "aarch64"}
_LICENCE: Final = "Apache-2.0 WITH LLVM-exception"
#: Stands between samples, so that what a sample disassembles to is known: int 0x77 behind as many
#: int3 as bytes that are no instruction could swallow; hlt #0x77.
_MARK: Final = {
    "x86": ("cc" * 16 + "cd77", re.compile(r"int\s+119")),
    "arm": ("e00e40d4", re.compile(r"hlt\s+#0x77")),
}
_BRANCH: Final = {
    "x86": re.compile(r"^(j\w+|call|loop\w*|xbegin)(\s+)-?\d+$"),
    "arm": re.compile(
        r"^((?:b|bl|b\.\w+|cbn?z|tbn?z|adrp?|ldr|ldrsw|prfm)\s+(?:[^\[]*,\s*)?)#-?\d+$"
    ),
}
_PREFIXES: Final = frozenset(("lock", "rep", "repne", "data16"))
#: LLVM's answer for what its model does not have.
_UNKNOWN_LATENCY: Final = 100
_DIVISION: Final = re.compile(r"v?(?:i?div|sqrt|f?[us]?div|fsqrt|fi?div|fsqrt)")
_ARM_ACCESS: Final = re.compile(r"(?:ldu?r|ldp|ldnp|stu?r|stp|stnp)(?:s?[bhw])? ")
_TINY: Final = 1e-3


class _Row(NamedTuple):
    """llvm-mca's answer for a form."""

    uops: int
    latency: int
    units: dict[str, float]
    loads: bool
    stores: bool


def _tool(name: str) -> str:
    for candidate in (f"{name}-19", name):
        if found := shutil.which(candidate):
            return found
    raise TracekitError(f"{name} (LLVM 19) is not installed", hint="apt-get install llvm-19")


def _run(command: Sequence[str], text: str) -> str:
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode or not done.stdout:
        said = (done.stderr.strip().splitlines() or ["no output"])[0]
        raise TracekitError(f"{command[0]}: {said}")
    return done.stdout


def assembler_texts(samples: Mapping[str, str], isa: str) -> dict[str, str]:
    """LLVM's text of each sample (form -> hexadecimal bytes); those it takes apart otherwise than
    capstone are left out."""
    mark, marked = _MARK[isa]
    lines = (
        " ".join(f"0x{b:02x}" for b in bytes.fromhex(c))
        for s in samples.values()
        for c in (s, mark)
    )
    text = _run(
        [
            _tool("llvm-mc"),
            "--disassemble",
            f"--triple={_TRIPLE[isa]}",
            "--output-asm-variant=1" if isa == "x86" else "--output-asm-variant=0",
            "--mattr=+all" if isa == "arm" else "--mattr=",
        ],
        "\n".join(lines) + "\n",
    )
    found: dict[str, str] = {}
    forms = iter(samples)
    group: list[str] = []
    for line in map(str.strip, text.splitlines()):
        if not line or line.startswith(".") or line == "int3":
            continue
        if not marked.search(line):
            group.append(line)
            continue
        name = next(forms)
        if len(group) == 1 or (len(group) == 2 and group[0] in _PREFIXES):
            found[name] = re.sub(r"\s*#.*", "", " ".join(group)) if isa == "x86" else group[0]
        group = []
    return found


def llvm_rows(texts: Mapping[str, str], model: LlvmModel) -> dict[str, _Row]:
    """llvm-mca's rows of the forms that ``model`` knows."""
    names = list(texts)
    syntax = [".intel_syntax noprefix"] if model.isa == "x86" else []
    lines = list(syntax)
    for i, name in enumerate(names):
        text = _BRANCH[model.isa].sub(r"\1 .Lhere", texts[name])
        lines += [f"# LLVM-MCA-BEGIN {i}", text, "# LLVM-MCA-END"]
    options = ["-json", "-instruction-tables", "-skip-unsupported-instructions=any"]
    target = [f"-mtriple={_TRIPLE[model.isa]}", f"-mcpu={model.cpu}"]
    text = _run([_tool("llvm-mca"), *target, *options, "-"], "\n".join(lines) + "\n.Lhere:\n")
    answer = json.loads(text[text.index("{") :])
    units = [
        u.replace("\0", "0").replace("\1", "1").replace("\2", "2")
        for u in answer["TargetInfo"]["Resources"]
    ]
    rows: dict[str, _Row] = {}
    for region in answer["CodeRegions"]:
        if not region["Name"].isdigit() or len(region["Instructions"]) != 1:
            continue
        info = region["InstructionInfoView"]["InstructionList"][0]
        pressure = region["ResourcePressureView"]["ResourcePressureInfo"]
        rows[names[int(region["Name"])]] = _Row(
            int(info["NumMicroOpcodes"]),
            int(info["Latency"]),
            {
                units[p["ResourceIndex"]]: float(p["ResourceUsage"])
                for p in pressure
                if p["InstructionIndex"] == 0
            },
            bool(info["mayLoad"]),
            bool(info["mayStore"]),
        )
    return rows


def groups(pressure: Mapping[str, float]) -> list[tuple[frozenset[str], float]]:
    """Sets of ports, one of which is occupied for so many cycles, from the shares that all of them
    together give each port: the smallest share is what all ports have in common, and so on."""
    left = {p: c for p, c in pressure.items() if c > _TINY}
    out = []
    while left:
        least = min(left.values())
        out.append((frozenset(left), round(least * len(left), 3)))
        left = {p: c - least for p, c in left.items() if c - least > _TINY}
    return out


def _operation_uses(form: str, row: _Row, model: LlvmModel) -> list[tuple[frozenset[str], float]]:
    pressure: dict[str, float] = {}
    for unit, cycles in row.units.items():
        if (row.loads or row.stores) and unit in model.transfer_units:
            continue
        if unit in model.units:
            port = model.units[unit]
            pressure[port] = pressure.get(port, 0.0) + cycles
        elif unit not in model.memory_units:
            raise TracekitError(f"{model.name}: unit {unit!r} has no port")
    uses = groups(pressure)
    if not _DIVISION.match(form) or any(g & {"div", "fpdiv"} for g, _ in uses):
        return uses
    # A divider occupies itself, not the port that feeds it.
    divider = (
        "div" if "div r" in form or "div m" in form or re.match(r"[us]div [wx]", form) else "fpdiv"
    )
    slow = [(g, c) for g, c in uses if c >= 3 * len(g)]
    fast = [(g, c) for g, c in uses if c < 3 * len(g)]
    return [
        *fast,
        *(x for g, c in slow for x in ((g, 1.0), (frozenset((divider,)), round(c / len(g), 3)))),
    ]


def _entry(form: str, rows: Mapping[str, _Row], model: LlvmModel) -> Entry:
    row = rows[form]
    if model.isa == "arm" and _ARM_ACCESS.match(form):
        return _arm_access(form, model)
    uses = _operation_uses(form, row, model)
    latency = float(row.latency)
    if row.loads and not uses:
        latency = float(max(0, row.latency - _load_latency(form, rows, model)))
    elif row.loads:
        latency = _without_load(form, rows, model)
    elif row.stores:
        latency = min(latency, 1.0)
    bits = {p: 1 << i for i, p in enumerate(model.ports)}
    masks = tuple((sum(bits[p] for p in g), c) for g, c in uses)
    return Entry(_slots(row, uses, model), latency, masks)


def _arm_access(form: str, model: LlvmModel) -> Entry:
    """A plain load or store: the access alone, and an addition where the base is written back."""
    back = form.endswith("!") or not form.endswith("]")
    names = [p for p in model.ports if re.match(r"(s|alu|i)\d", p)]
    mask = sum(1 << model.ports.index(p) for p in names)
    return Entry(1 + back, 0.0, ((mask, 1.0),) if back else ())


def _without_load(form: str, rows: Mapping[str, _Row], model: LlvmModel) -> float:
    """The latency from a register: of the form with a register in place of the memory operand, or
    less the latency of a plain load."""
    if model.isa == "x86":
        for register in (r"r\1", "xmm", "ymm", "zmm", "xmm", "mm"):
            size = re.sub(r"\bm(128|256|512|\d+)(\{1to\})?", register, form)
            known = rows.get(
                size.replace("r128", "xmm").replace("r256", "ymm").replace("r512", "zmm")
            )
            if known is not None and size != form and not known.loads:
                return float(known.latency)
    loading = _load_latency(form, rows, model)
    least = 1 if any(u in model.units for u in rows[form].units) else 0
    return float(max(least, rows[form].latency - loading))


def _load_latency(form: str, rows: Mapping[str, _Row], model: LlvmModel) -> int:
    load = _load_form(form, model.isa)
    return rows[load].latency if load in rows else 0


def _load_form(form: str, isa: str) -> str:
    if isa == "arm":
        return "ldr q, [x]" if re.search(r"\b[bhsdqv]\b|v\.", form) else "ldr x, [x]"
    return "movups xmm, m128" if re.search(r"[xyz]?mm\b", form) else "mov r64, m64"


def _slots(row: _Row, uses: Iterable[tuple[frozenset[str], float]], model: LlvmModel) -> int:
    """Allocation slots: LLVM counts unfused µops on Intel's cores, where a load goes with its
    operation and a store's address with its data."""
    if not model.family.startswith("intel"):
        return max(1, min(row.uops, 255))
    if row.uops > 8 or not (row.loads or row.stores):
        return max(1, min(row.uops, 255))
    work = round(sum(c for g, c in uses if not g & {"div", "fpdiv"}))
    return max(1, work + (1 if row.stores and work else 0))


def make_table(model: LlvmModel, texts: Mapping[str, str], version: str) -> dict[str, Any]:
    """The table of a model as JSON (see `tracekit.hardware.instruction_table`)."""
    rows = {f: r for f, r in llvm_rows(texts, model).items() if r.latency < _UNKNOWN_LATENCY}
    classes: dict[Entry, list[str]] = {}
    for form in sorted(rows):
        classes.setdefault(_entry(form, rows, model), []).append(form)
    memory = {k: list(v) if isinstance(v, tuple) else v for k, v in vars(model.memory).items()}
    return {
        "format": FORMAT,
        "name": model.name,
        "isa": model.isa,
        "family": model.family,
        "source": f"LLVM {version}, scheduling model of {model.cpu} (llvm-mca)",
        "licence": _LICENCE,
        "width": model.width,
        "ports": list(model.ports),
        "memory": memory,
        "classes": [
            [e.uops, e.latency, [list(u) for u in e.uses], "; ".join(f)] for e, f in classes.items()
        ],
    }


#: Zen 4's groups of ports on Zen 5, which has six ALUs, three of them with branches (AMD 58455).
_ZEN5_GROUPS: Final = {
    ("alu0", "alu1", "alu2", "alu3"): ("alu0", "alu1", "alu2", "alu3", "alu4", "alu5"),
    ("alu1", "alu2"): ("alu0", "alu1", "alu2"),
    ("alu0", "alu3"): ("alu0", "alu1", "alu2", "alu3", "alu4", "alu5"),
    ("alu1",): ("alu0", "alu1", "alu2"),
    ("alu0", "br1"): ("alu3", "alu4", "alu5"),
}
_ZEN5_MEMORY: Final = Memory(
    load=("agu0", "agu1", "agu2", "agu3"),
    store_address=("agu2", "agu3"),
    store_data=("st0", "st1"),
    load_vector=("agu0", "agu1"),
    store_data_vector=("fst0", "fst1"),
    load_bytes=64,
    store_bytes=32,
)


def zen5_table(zen4: Mapping[str, Any]) -> dict[str, Any]:
    """Zen 5's table from Zen 4's, since LLVM 19's znver5 is a copy of it: Zen 5's ports and 512-bit
    units; latencies and throughputs are calibration's to correct."""
    old: list[str] = zen4["ports"]
    ports = [p for p in old if p[:2] in ("fp", "fs", "di")]
    ports = (
        [f"alu{i}" for i in range(6)] + ports + list(_ZEN5_MEMORY.load + _ZEN5_MEMORY.store_data)
    )
    known = {f: c[:3] for c in zen4["classes"] for f in c[3].split("; ")}
    classes: dict[Entry, list[str]] = {}
    for form in known:
        # 512 bits take as long as 256: the units are as wide.
        narrow = form.replace("zmm", "ymm").replace("m512", "m256")
        uops, latency, uses = known.get(narrow, known[form])
        moved = []
        for mask, cycles in uses:
            group = tuple(p for i, p in enumerate(old) if mask >> i & 1)
            group = _ZEN5_GROUPS.get(group, tuple(p for p in group if p in ports) or ("alu3",))
            moved.append((sum(1 << ports.index(p) for p in group), cycles))
        classes.setdefault(Entry(uops, latency, tuple(moved)), []).append(form)
    memory = {k: list(v) if isinstance(v, tuple) else v for k, v in vars(_ZEN5_MEMORY).items()}
    return {
        **zen4,
        "name": "znver5",
        "family": "zen5",
        "source": f"{zen4['source']}, on the ports of Zen 5 (AMD 58455)",
        "width": 8,
        "ports": ports,
        "memory": memory,
        "classes": [
            [e.uops, e.latency, [list(u) for u in e.uses], "; ".join(f)] for e, f in classes.items()
        ],
    }


def write_table(table: Mapping[str, Any], path: Path) -> None:
    """One class a line, so that differences are readable."""
    head = {k: v for k, v in table.items() if k != "classes"}
    lines = [f"  {json.dumps(k)}: {json.dumps(v)}," for k, v in head.items()]
    rows = ",\n".join(f"    {json.dumps(c)}" for c in table["classes"])
    text = "\n".join(["{", *lines, '  "classes": [', rows, "  ]", "}", ""])
    write_bytes(path, text.encode(), force=True)


def _samples_path(isa: str) -> Path:
    return TABLES / f"samples_{isa}.json"


def add_samples(paths: Iterable[str]) -> None:
    """Adds the forms in the code of ELF files to the samples; the commonest encoding of a form with
    registers that differ stands for it (one register twice may be an idiom)."""
    counts: dict[str, Counter[bytes]] = {}
    for path in paths:
        isa, found = sweep(path)
        counts.setdefault(isa, Counter()).update(found)
    for isa, found in counts.items():
        target = _samples_path(isa)
        samples: dict[str, str] = read_json(target) if target.exists() else {}
        best: dict[str, tuple[bool, int, bytes]] = {}
        for code, n in found.items():
            d = decode_form(code, isa)
            rank = (len(set(d.operands)) == len(d.operands), n, code)
            if d.form != INVALID and rank > best.get(d.form, (False, 0, b"")):
                best[d.form] = rank
        for name, (_, _, code) in best.items():
            samples.setdefault(name, code.hex())
        text = json.dumps(dict(sorted(samples.items())), indent=0) + "\n"
        write_bytes(target, text.encode(), force=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m tracekit.hardware.llvm_tables",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--samples", nargs="+", default=[], metavar="ELF", help="add the forms in these files' code"
    )
    parser.add_argument("--table", nargs="+", choices=[m.name for m in MODELS], help="only these")
    options = parser.parse_args(arguments)
    add_samples(options.samples)
    version = re.search(r"LLVM version (\S+)", _run([_tool("llvm-mca"), "--version"], ""))
    texts = {isa: assembler_texts(read_json(_samples_path(isa)), isa) for isa in _TRIPLE}
    for model in MODELS:
        if not options.table or model.name in options.table:
            table = make_table(model, texts[model.isa], version[1] if version else "")
            made = [table, zen5_table(table)] if model.name == "znver4" else [table]
            for t in made:
                write_table(t, TABLES / f"{t['name']}.json")
                print(f"{t['name']}: {sum(c[3].count(';') + 1 for c in t['classes'])} forms")


if __name__ == "__main__":
    main()
