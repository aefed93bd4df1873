"""Options that mean nothing in a mode are usage errors; what is not there is said."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest
import synthetic

import tracekit
from tracekit import isa, schema
from tracekit.cli.commands import COMMANDS
from tracekit.cli.common_options import check_once
from tracekit.cli.main import create_parser, main
from tracekit.errors import UsageError
from tracekit.isa.types import BRANCH_FLAGS

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def feats(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("options")
    (folder / "t").write_text(synthetic.text(11, 900))
    tracekit.extract(folder / "t", folder / "f.zst")
    return folder / "f.zst"


@pytest.mark.parametrize(
    "line",
    [
        *("predict F --plot x.png", "predict F --record r.tks", "predict F --seconds 3"),
        *("predict F --full", "predict F --here x", "predict F --device cuda", "predict F --top 3"),
        *(
            "predict F --phases 3",
            "predict F --binary x",
            "predict F --leave",
            "predict F --seed 1",
        ),
        *("predict --pid 1 --phases 3", "predict --pid 1 --leave", "predict --pid 1 --device cpu"),
        *("predict --full --seconds 3 -- true", "predict --full --count 3 -- true"),
        "cross-validate m.json --ablate --plot p.png",
        *("tune F -o x --name y --parameters p.json --seed 3",),
        *("dse s.json F --cost rob", "dse s.json F --top -1"),
        *("train perfvec m.json -o x --hidden 8", "train perfvec m.json -o x --device cuda"),
        "train perfvec m.json -o x --preset paper --machines a",
        "train neuroscalar m.json -o x --preset paper --no-history",
        *("extract T -o x --cold", "extract T -o x --isa x86"),
        *("extract T -o x --gem5-operands", "extract T -o x --threads interleaved"),
        *("record --seed 3 -- true", "record --full --period 3 -- true"),
        *("record --full --duration 3 -- true", "record --full --threads main -- true"),
        *("record --in-place --copy-seconds 3 -- true", "record --pid 1 --no-aslr"),
        *(
            "compare model F --split families",
            "compare model F --cache c",
            "compare model F --force",
        ),
        *("compare model F --without a b", "compare model --manifest m.json --sample 3"),
        "compare model --manifest m.json --force",
        *(
            "export F -o x.parquet --features perfvec --disassembly",
            "export F -o x.npy --disassembly",
        ),
        *("mrc F --force", "quantize model F --rows 0"),
        *("dump F --rows 999999:1000000", "dump F --rows 5:5", "dump F --rows 7:3"),
    ],
)
def test_what_means_nothing_is_refused(line, feats, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    if line.startswith("dse"):
        from test_sim import MACHINE

        text = json.dumps({"base": MACHINE, "vary": {"rob": [32, 64]}})
        Path("s.json").write_text(text)
    (tmp_path / "model").mkdir()
    before = sorted(tmp_path.iterdir())
    places = {"F": str(feats), "T": str(feats.with_name("t"))}
    args = [places.get(a, a) for a in line.split()]
    assert main(args) == 2
    out = capsys.readouterr()
    assert out.err.count("\n") == 1 and out.out == ""
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    "line",
    [
        *("evaluate m --model x --rows 0", "evaluate m --model x --sample 0"),
        *("cross-validate m --rows 0", "cross-validate m --rows -4"),
        *("cross-validate m --folds 1", "cross-validate m --tuning 0"),
        *("train perfvec m -o x --rows 0", "train perfvec m -o x --rows -4"),
        *(
            f"train perfvec m -o x --preset paper --{o}"
            for o in ("epochs 0", "minutes -1", "hidden 0", "streams 0", "step 0", "patience 0")
        ),
        "compare x --manifest m --split families --sample -3",
    ],
)
def test_numbers_that_are_too_small_are_told_by_their_option(line, capsys):
    *_, option, value = line.split()
    with pytest.raises(SystemExit) as e:
        main(line.split())
    assert e.value.code == 2
    assert f"{option}: {value}: a " in capsys.readouterr().err


@pytest.mark.parametrize(
    "line",
    [
        "simulate F -q -m u007 o3_small",
        "simulate -m u007 o3_small F -q",
        "simulate -q -m u007 -m o3_small F",
        "simulate -m u007 F o3_small -q",
        "simulate -q --machine o3_small u007 -- F",
        "simulate -qm u007 F o3_small",
    ],
)
def test_traces_stand_before_or_behind_machines(line, feats, capsys):
    args = [str(feats) if a == "F" else a for a in line.split()]
    assert main([*args[:1], "--json", *args[1:]]) == 0, capsys.readouterr().err
    (found,) = json.loads(capsys.readouterr().out)
    assert found["path"] == str(feats)
    assert sorted(m["name"] for m in found["machines"]) == ["o3_small", "u007"]


def test_options_stand_between_traces(feats, tmp_path, capsys):
    other = tmp_path / "other.zst"
    other.write_bytes(feats.read_bytes())
    lines = ("-m u007 F -q G", "F -m u007 G -q", "F -q G -m u007", "-q -m u007 F G")
    for line in (*lines, "-q F -m u007 G", "-m u007 -m o3_small F G", "-m u007 F -q -m o3_small G"):
        places = {"F": str(feats), "G": str(other)}
        assert main(["simulate", "--json", *(places.get(a, a) for a in line.split())]) == 0
        found = json.loads(capsys.readouterr().out)
        assert [r["path"] for r in found] == [str(feats), str(other)], line
    assert main(["predict", "-q", "--uarch", "u007", "o3_small", str(feats)]) == 0
    assert capsys.readouterr().out.count("o3_small") == 1
    assert main(["explain", "-m", "u007", "o3_small", str(feats), "--top", "1"]) == 0
    capsys.readouterr()
    assert main(["explain", str(feats), "-m", "u007", str(other), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [found[k]["name"] for k in "ab"] == [f"{path} on u007" for path in (feats, other)]
    page = ["report", "-o", str(tmp_path / "r.html"), "-q", "-m", "u007", "o3_small"]
    assert main([*page, str(feats)]) == 0
    capsys.readouterr()
    assert main(["simulate", "-m", "u007", str(tmp_path / "missing.zst")]) == 1
    assert "missing.zst: cannot open" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["simulate", "-m", str(feats)])
    assert "-m/--machine: expected at least one argument" in capsys.readouterr().err
    with pytest.raises(SystemExit):  # -o without a name takes no trace for one
        main(["simulate", str(feats), "--force", "-o", "-m", "u007", str(other)])
    assert "-o/--output: expected one argument" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["info", "mrc", "verify"])
def test_options_stand_between_files_of_every_command(command, feats, tmp_path, capsys):
    other = tmp_path / "other.zst"
    other.write_bytes(feats.read_bytes())
    assert main([command, str(feats), "--json", str(other)]) == 0
    assert str(other) in capsys.readouterr().out


@pytest.mark.parametrize(
    "line",
    [
        "evaluate --model a b M.json",
        "evaluate M.json --model a b",
        "train perfvec -o out --machines u001 u002 M.json",
        "train neuroscalar M.TOML -o out --machines u001",
    ],
)
def test_a_manifest_stands_before_or_behind_names(line):
    args = create_parser(line.split()[0]).parse_args(line.split())
    assert args.manifest.startswith("M.")
    names = args.model if line.startswith("evaluate") else args.machines
    assert names and not any(n.startswith("M.") for n in names)


def test_all_that_is_required_is_told(capsys):
    with pytest.raises(SystemExit):
        main(["extract"])
    assert "required: input, -o/--output" in capsys.readouterr().err


def test_a_machine_s_name_is_no_trace_s(feats, tmp_path, monkeypatch, capsys):
    """Whatever lies in the present folder."""
    monkeypatch.chdir(tmp_path)
    Path("u007").write_bytes(feats.read_bytes())
    assert main(["simulate", "-q", "--json", "-m", "u007", str(feats)]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["path"] == str(feats) and [m["name"] for m in found["machines"]] == ["u007"]


def test_a_program_s_own_options_are_left_alone(tmp_path, capsys):
    """Whatever stands behind --, and be it named as a trace is."""
    assert main(["predict", "-m", "m.json", "--", "no program", "-m", "x.zst"]) == 2
    assert "no program: no such file" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["simulate", "predict"])
def test_a_machine_is_given_once(command, feats, capsys):
    assert main([command, str(feats), "-m", "m.json", "-m", "m.json"]) == 2
    assert capsys.readouterr().err == "tracekit: m.json is given twice\n"


def test_many_names_are_looked_through_at_once():
    check_once([str(k) for k in range(300_000)])
    with pytest.raises(UsageError, match="7 is given twice"):
        check_once([*map(str, range(300_000)), "7"])


def test_rows_that_are_there(feats, capsys):
    assert main(["dump", str(feats), "--rows", "898:999999"]) == 0
    assert capsys.readouterr().out.count("\n") >= 2


def test_hardly_the_same_program(tmp_path, capsys):
    def trace(name: str, pcs: list[int]) -> str:
        text = "".join(
            f"{500 * k:7d}: system.cpu: {pc:#x}    :   add   x1, x1, x2 : IntAlu :   "
            "flags=(IsInteger)\n"
            for k, pc in enumerate(pcs)
        )
        (tmp_path / name).write_text(text)
        tracekit.extract(tmp_path / name, tmp_path / f"{name}.zst")
        return str(tmp_path / f"{name}.zst")

    a = trace("a", [0x400000 + 4 * k for k in range(100)])
    b = trace("b", [0x400000 + 4 * k for k in range(10)] + [0x900000 + 4 * k for k in range(90)])
    assert main(["diff", a, a]) == 0
    assert not capsys.readouterr().out.startswith("hardly")
    assert main(["diff", a, b]) == 0
    out = capsys.readouterr().out
    assert out.startswith("hardly the same program: 10.0% of the shorter one's rows are matched\n")


def test_branch_kinds_are_one_set():
    assert isa.BRANCH_KINDS is schema.BRANCH_KINDS
    assert set(BRANCH_FLAGS) == set(schema.BRANCH_KINDS) - {"none"}
    pytest.importorskip("capstone")
    for arch, code in (("x86", "c3"), ("arm", "c0035fd6"), ("riscv", "67800000")):
        assert isa.decode(arch, bytes.fromhex(code)).branch == "return"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("info F --json-file F", "F: is the input, too"),
        ("simulate F -m M --json-file M", "M: is the input, too"),
        ("view F -o F --force", "F: is the input, too"),
        ("why F --machine M --folded F --force", "F: is the input, too"),
        ("simulate F -m M -o x.npy --json-file x.npy", "x.npy: is to be written twice"),
    ],
)
def test_no_input_is_replaced(feats, tmp_path, capsys, monkeypatch, line, told):
    monkeypatch.chdir(tmp_path)
    places = {"F": tmp_path / "f.zst", "M": tmp_path / "m.json"}
    places["F"].write_bytes(feats.read_bytes())
    places["M"].write_text(json.dumps(tracekit.machines()["ns_8w"].to_dict()))
    before = {p: p.read_bytes() for p in tmp_path.iterdir()}
    assert main([str(places.get(a, a)) for a in line.split()]) == 1
    name, _, what = told.partition(": ")
    assert f"{places.get(name, name)}: {what}" in capsys.readouterr().err
    assert {p: p.read_bytes() for p in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    "line",
    [
        "tune no.zst --name here -o OUT",
        "calibrate -o OUT",
        "measure no.json --name here -o OUT",
        "simulate no.zst -m ns_8w --json-file OUT",
        "dse no.json no.zst --plot OUT",
    ],
)
def test_outputs_without_room_are_told_before_the_work(tmp_path, capsys, monkeypatch, line):
    monkeypatch.chdir(tmp_path)
    assert main(line.replace("OUT", "none/x").split()) == 1
    assert "none/x: cannot write: No such file or directory" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("simulate F -m ns_8w --threads -1", "--threads: -1: a whole number, 1 or more"),
        ("train perfvec m.json -o x --seed -1", "--seed: -1: a whole number, 0 or more"),
        ("hot F --top x", "--top: x: a whole number, 0 or more"),
        ("record --period nan -- true", "--period: nan: a number of seconds, 0 or more"),
        ("predict --seconds 0 -- true", "--seconds: 0: a number of seconds above 0"),
    ],
)
def test_numbers_that_are_none_are_told_with_their_option(feats, capsys, line, told):
    with pytest.raises(SystemExit) as e:
        main([str(feats) if a == "F" else a for a in line.split()])
    assert e.value.code == 2 and told in capsys.readouterr().err


@pytest.mark.parametrize(("clock", "odd"), [(333, True), (1000, True), (500, False), (250, False)])
def test_a_clock_that_does_not_divide_the_ticks_is_told(tmp_path, capsys, clock, odd):
    text, out = Path(__file__).parent / "golden" / "lua.x86.trace.xz", tmp_path / "f.zst"
    line = ["extract", str(text), "-o", str(out), "--clock-ps", str(clock)]
    assert main(line) == 0
    assert ("--clock-ps: the ticks are multiples of 500 ps" in capsys.readouterr().err) == odd
    with tracekit.open(out) as trace:
        assert trace.index["source"].get("tick_unit") == (500 if odd else None)


@pytest.mark.parametrize("what", ["u007", Path("f.zst"), None])
def test_a_machine_is_that_of_an_open_trace(what):
    with pytest.raises(UsageError, match=r"is no open trace \(Machine\.load"):
        tracekit.Machine.of(what)


def test_pipeline_blocks_alone_have_as_many_instructions_as_pcs(tmp_path):
    (tmp_path / "t").write_text(synthetic.text(5, 900, exec_lines=False))
    for level in ("micro", "macro"):
        tracekit.extract(tmp_path / "t", tmp_path / f"{level}.zst", level=level)
    with tracekit.open(tmp_path / "micro.zst") as micro, tracekit.open(tmp_path / "macro.zst") as m:
        found = tracekit.simulate(micro, ["ns_8w"])
        assert found.instructions == len(m) < len(micro)


@pytest.mark.parametrize("name", ["ns_8w", "io_1w"])
def test_all_machines_are_known_by_name(feats, capsys, name):
    """Also those that the shipped model of the trace's architecture does not have."""
    assert main(["what-if", str(feats), "--machine", name, "l1d_lat=5"]) == 0
    assert name in capsys.readouterr().out


def _without_help(parser: argparse.ArgumentParser) -> list[str]:
    out = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            out += [w for p in action.choices.values() for w in _without_help(p)]
        elif not action.help:
            out.append(f"{parser.prog} {'/'.join(action.option_strings) or action.dest}")
    return out


def _parsers(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """It, and the parsers of all its commands."""
    inner = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    return [parser, *(q for a in inner for p in a.choices.values() for q in _parsers(p))]


def test_no_option_has_a_shortened_name(feats, capsys):
    assert [p.prog for p in _parsers(create_parser()) if p.allow_abbrev] == []
    for line in (
        ["why", str(feats), "-m", "ns_8w", "--no-ch"],
        ["predict", str(feats), "--quie"],
        ["hub", "ask", "fleet.db", "--js"],
    ):
        with pytest.raises(SystemExit, match="2"):
            main(line)
        assert f"unrecognized arguments: {line[-1]}" in capsys.readouterr().err


def test_an_option_is_spelled_alike_in_all_commands():
    """One short name, or none, for each long one; what means another thing is named here."""
    spellings = dict[str, set[str]]()
    for parser in _parsers(create_parser()):
        for action in parser._actions:
            for name in action.option_strings:
                if name.startswith("--"):
                    spellings.setdefault(name, set()).add("/".join(action.option_strings))
    several = {name for name, found in spellings.items() if len(found) > 1}
    # Where libraries lie, and how many keys sign; rows or epochs to stop at, and programs.
    assert several == {"--root", "--count"}


def test_every_command_that_shows_progress_can_be_quiet():
    """Those of many traces do."""
    for parser in _parsers(create_parser()):
        options = parser._option_string_actions
        if options.keys() & {"--cluster", "--run"}:
            assert options["-q"] is options["--quiet"], parser.prog
    loud = [p for p in (ROOT / "tracekit" / "cli").glob("cmd_*.py") if "Events(" in p.read_text()]
    assert loud and [p.name for p in loud if "quiet=args.quiet" not in p.read_text()] == []


def test_an_option_that_comes_twice_adds_to_the_first(feats, capsys):
    path = str(feats)
    for line in (["simulate", path, "-m", "ns_8w", "-m", "u007", "-q"],
                 ["predict", path, "--uarch", "ns_8w", "--uarch", "u007", "-q"]):  # fmt: skip
        assert main(line) == 0
        out = capsys.readouterr().out
        assert "\nns_8w" in out and "\nu007" in out


def test_every_option_says_what_it_does():
    assert [w for command in COMMANDS for w in _without_help(create_parser(command))] == []


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("extract T -o x --start 99999999999999999999", "at most 9223372036854775807"),
        ("why F --machine ns_8w --threads 99999999", "at most 65536"),
        ("record --wait nan -- true", "nan: a number of seconds, 0 or more"),
        ("record --copy-seconds nan -- true", "nan: a number of seconds, 0 or more"),
    ],
)
def test_numbers_that_are_none_are_refused(line, told, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(line.split())
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("rate", [0, -1, float("nan"), float("inf")])
def test_a_rate_that_is_none(rate):
    from tracekit.train.neuroscalar_options import Options

    with pytest.raises(tracekit.UsageError, match=r"rate is .*; a number above 0"):
        Options(rate=rate)
