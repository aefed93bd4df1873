"""``tracekit train perfvec|neuroscalar MANIFEST -o MODEL``: a model folder from a dataset."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tracekit.cli.common_options import add_threads
from tracekit.cli.events import echo
from tracekit.cli.intermixed import Manifest
from tracekit.cli.numbers import at_least, minutes_or_none
from tracekit.cli.unused import refuse
from tracekit.errors import FormatError, TracekitError

CARD, CHECKPOINT = "card.json", "checkpoint.pt"
_PAPER = ("epochs", "minutes", "patience", "streams", "step", "hidden", "bf16", "device")


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit train``."""
    p = sub.add_parser("train", help=help_text, description=__doc__)
    models = p.add_subparsers(dest="model", metavar="MODEL", required=True)
    q = models.add_parser("perfvec", help="program representations and a table of machines")
    _common(q, "docs/perfvec.md")
    q.add_argument("--rows", type=at_least(1), help="only the first N rows of each program")
    q.add_argument(
        "--machines", nargs="+", action="extend", metavar="NAME", help="default: only these"
    )
    paper = q.add_argument_group("preset paper")
    paper.add_argument("--epochs", type=at_least(1), default=50, help="passes over the data")
    paper.add_argument(
        "--minutes", type=minutes_or_none, help="stop then; the same command goes on"
    )
    paper.add_argument(
        "--patience",
        type=at_least(1),
        default=10,
        help="passes without gain on the validation families (10)",
    )
    paper.add_argument(
        "--streams", type=at_least(1), default=64, help="rows that are computed at once"
    )
    paper.add_argument(
        "--step", type=at_least(1), default=256, help="rows between updates of a stream"
    )
    paper.add_argument("--hidden", type=at_least(1), default=256, help="width of the LSTM")
    paper.add_argument("--bf16", action="store_true", help="the LSTM in bfloat16")
    paper.add_argument("--device", default="auto", help="cpu, cuda, cuda:1; a GPU unless given")
    q.set_defaults(func=run, parser=q)
    n = models.add_parser("neuroscalar", help="cycles of single instructions")
    _common(n, "docs/neuroscalar.md")
    n.add_argument(
        "--machines", nargs="+", action="extend", metavar="NAME", help="of the manifest (all)"
    )
    n.add_argument("--steps", type=int, help="batches")
    n.add_argument("--batch", type=int, help="chunks of a batch")
    n.add_argument("--window", type=int, metavar="L", help="rows of a chunk")
    n.add_argument("--target", type=int, metavar="T", help="of these the last, where the loss is")
    n.add_argument(
        "--bidirectional", action="store_true", help="paper: as its text, the target in the middle"
    )
    n.add_argument("--rate", type=float, help="of AdamW")
    n.add_argument("--width", type=int, help="of the layers (64; paper: 256)")
    n.add_argument(
        "--no-history", action="store_true", help="default: no tables of the training programs"
    )
    n.add_argument("--check", type=int, help="steps between validations")
    n.add_argument("--patience", type=int, help="validations without a better MAE")
    n.add_argument("--device", help="cpu unless given")
    n.add_argument("--float32", action="store_true", help="no bfloat16 in training")
    n.add_argument("--cache", help="folder of the programs' arrays (in the model's unless given)")
    n.set_defaults(func=run_neuroscalar, parser=n)


def _common(p: argparse.ArgumentParser, guide: str) -> None:
    p.__class__ = Manifest
    p.add_argument("manifest", help=f"JSON or TOML ({guide})")
    p.add_argument("-o", "--output", required=True, help="the model's folder")
    p.add_argument(
        "--preset",
        choices=("default", "paper"),
        default="default",
        help="tracekit's recipe, or the paper's (default)",
    )
    p.add_argument("--seed", type=at_least(0), default=0, help="of what is drawn (0)")
    add_threads(p)
    p.add_argument(
        "--force",
        action="store_true",
        help="replace the model there; the same run, cut short, goes on",
    )
    p.add_argument("-q", "--quiet", action="store_true", help="no events on standard error")


def _check(args: argparse.Namespace, feature_set: str | None = None) -> None:
    """Raises TracekitError where another model, or one that is done, would be replaced.

    feature_set: of the models whose checkpoints this training goes on from, None where it has none.
    """
    out = Path(args.output)
    if out.exists() and not out.is_dir():
        raise TracekitError("is a file", path=args.output, hint="a model is a folder")
    if args.force:
        return
    begun = (out / CHECKPOINT).exists()
    if (out / CARD).exists() and not (begun and _is_of(out, feature_set)):
        raise TracekitError("holds a model already", path=args.output, hint="--force replaces it")
    if begun and feature_set is None:
        raise TracekitError(
            "holds another preset's training", path=args.output, hint="--force replaces it"
        )


def _is_of(folder: Path, feature_set: str | None) -> bool:
    """Whether the folder's card can be read and is of that feature set."""
    from tracekit.model import load_card

    try:
        return load_card(folder).feature_set == feature_set
    except FormatError:
        return False


def _report(args: argparse.Namespace) -> Any:
    from tracekit.training_events import metrics

    return metrics(Path(args.output), None if args.quiet else echo)


def run(args: argparse.Namespace) -> int:
    """Run ``tracekit train``; returns the exit code."""
    from tracekit.dataset import load_manifest

    if args.preset == "paper":
        refuse(args, ("machines",), "with --preset paper, which takes all")
    else:
        refuse(args, _PAPER, "without --preset paper")
    from tracekit.perfvec import FEATURES

    out = Path(args.output)
    _check(args, FEATURES if args.preset == "paper" else None)
    manifest = load_manifest(args.manifest)
    report = _report(args)
    if args.preset == "paper":
        from tracekit.train.perfvec import PaperOptions, train_paper

        options = PaperOptions(
            epochs=args.epochs,
            rows=args.rows,
            minutes=args.minutes,
            patience=args.patience,
            seed=args.seed,
            streams=args.streams,
            step=args.step,
            hidden=args.hidden,
            bf16=args.bf16,
            device=args.device,
            threads=args.threads,
        )
        train_paper(manifest, out, options, report, force=args.force)
    else:
        from tracekit.mixture import train_default

        train_default(
            manifest,
            out,
            seed=args.seed,
            threads=args.threads,
            machines=args.machines,
            rows=args.rows,
            report=report,
        )
        (out / CHECKPOINT).unlink(missing_ok=True)  # of a model that --force has replaced
    return 0


def run_neuroscalar(args: argparse.Namespace) -> int:
    """Run ``tracekit train neuroscalar``; returns the exit code."""
    from tracekit.dataset import load_manifest
    from tracekit.neuroscalar import FEATURE_SET
    from tracekit.train.neuroscalar import train_neuroscalar
    from tracekit.train.neuroscalar_options import Options

    if args.preset == "paper":
        refuse(args, ("no_history",), "with --preset paper, which has no tables")
    names = ("steps", "batch", "window", "target", "rate", "width", "check", "patience", "device")
    given = {k: v for k in names if (v := getattr(args, k)) is not None}
    options = Options(
        preset=args.preset,
        machines=tuple(args.machines or ()),
        history=not args.no_history,
        bidirectional=args.bidirectional,
        half=not args.float32,
        seed=args.seed,
        threads=args.threads,
        **given,
    )
    _check(args, "neuroscalar" if args.preset == "paper" else FEATURE_SET)
    train_neuroscalar(
        load_manifest(args.manifest),
        Path(args.output),
        options,
        cache=Path(args.cache) if args.cache else None,
        report=_report(args),
        force=args.force,
    )
    return 0
