"""card.json and the files beside it: written with hashes, read with every claim checked."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import FormatError, UsageError
from tracekit.io.files import read_json
from tracekit.io.output import kept_folder, replacing, write_json
from tracekit.model.spec import ModelSpec
from tracekit.model.tensors import read_safetensors, safetensors_bytes
from tracekit.old_names import current_card

__all__ = ["Card", "folder_digest", "load_card", "load_tensors", "save_card", "save_model"]

FORMAT, VERSION = "tracekit-model", 1
MAX_COLUMNS = 4096
MAX_LOOKAHEAD = 1 << 16
CARD, WEIGHTS, GOLDEN = "card.json", "model.safetensors", "golden.safetensors"
NEW = "tracekit-new"
Tensors = dict[str, NDArray[np.float32]]


@dataclass
class Card:
    """What a model is.  ``extra`` holds the card's further keys, kept as they are."""

    name: str
    spec: ModelSpec
    columns: tuple[str, ...]
    feature_set: str = ""
    level: str = ""
    preset: str = ""
    unit: str = "cycles"
    microarchitectures: list[dict[str, Any]] = field(default_factory=list)
    training: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(set(self.columns)) != len(self.columns) or not self.columns:
            raise FormatError("features.columns is empty or names a column twice")
        for entry in self.spec.inputs:
            if entry.column not in self.columns:
                raise FormatError(f"spec.inputs: column {entry.column!r} is not in features")
        for head in self.spec.heads:
            if head.targets and head.width_out != len(self.microarchitectures):
                raise FormatError(
                    f"head {head.name!r} has {head.width_out} outputs for "
                    f"{len(self.microarchitectures)} microarchitectures"
                )

    @property
    def target_names(self) -> list[str]:
        """The machines of the targets' outputs, in their order; none where no head has targets."""
        targets = any(head.targets for head in self.spec.heads)
        return [str(m.get("name")) for m in self.microarchitectures] if targets else []

    def check_features(self, features: NDArray[Any]) -> None:
        """Raise UsageError unless these are float32 [rows, the card's columns]."""
        count = len(self.columns)
        if not isinstance(features, np.ndarray) or features.dtype != np.float32:
            raise UsageError("features is not a float32 array")
        if features.ndim != 2 or features.shape[1] != count:
            raise UsageError(f"features is {features.shape}; the model has {count} columns")

    def check_finite(self, features: NDArray[np.float32], first: int = 0) -> None:
        """Raise UsageError, with row and column, where a value is NaN or infinite.

        features: [rows, the card's columns]; first: the trace's row that they begin with.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(features.sum()):  # nearly always, and much cheaper than each value
                return
        bad = np.argwhere(~np.isfinite(features))
        if len(bad):
            row, column = bad[0].tolist()
            value, name = features[row, column], self.columns[column]
            raise UsageError(f"features: column {name} of row {first + row:,} is {value}")

    def check_outputs(self, outputs: Sequence[str]) -> None:
        """Raise UsageError for a string in place of a list of names: its letters are none."""
        if isinstance(outputs, str):
            raise UsageError(f"outputs is {outputs!r}; a list of names", hint=f"[{outputs!r}]")

    def lookahead(self, asked: int | None = None) -> int:
        """Rows behind one that its result may depend on, 0 but for bidirectional models: those that
        were asked for, or the card's own number; raises FormatError, UsageError."""
        if not self.spec.bidirectional:
            if asked:
                raise UsageError("lookahead is for bidirectional models")
            return 0
        if asked is not None and not 1 <= asked <= MAX_LOOKAHEAD:
            raise UsageError(f"lookahead is {asked}; from 1 to {MAX_LOOKAHEAD}")
        rows = self.extra.get("lookahead") if asked is None else asked
        if isinstance(rows, bool) or not isinstance(rows, int) or not 1 <= rows <= MAX_LOOKAHEAD:
            raise FormatError(
                f"lookahead is {rows!r}: a bidirectional model needs a number from 1 to "
                f"{MAX_LOOKAHEAD}"
            )
        return rows

    def to_dict(self) -> dict[str, Any]:
        """The JSON object."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "name": self.name,
            "preset": self.preset,
            "features": {
                "set": self.feature_set,
                "level": self.level,
                "columns": list(self.columns),
            },
            "spec": self.spec.to_dict(),
            "unit": self.unit,
            "microarchitectures": self.microarchitectures,
            **({"target_names": self.target_names} if self.target_names else {}),
            "training": self.training,
            "files": dict(sorted(self.files.items())),
            **self.extra,
        }


KNOWN = {"format", "version", "name", "preset", "features", "spec", "unit"}
KNOWN |= {"microarchitectures", "target_names", "training", "files"}


def folder_digest(folder: str | Path) -> str:
    """SHA-256 of the names and bytes of a model's files: 64 hexadecimal digits."""
    digest = hashlib.sha256()
    for file in sorted(Path(folder).iterdir()):
        if file.is_file():
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def load_card(folder: str | Path) -> Card:
    """Read and check ``folder/card.json``; raises FormatError."""
    path = Path(folder) / CARD
    try:
        data = read_json(path)
    except FormatError as error:
        hint = None if "JSON" in error.message else "a model is a folder with card.json"
        raise FormatError(error.message, path=str(path), hint=hint) from None
    try:
        return _parse(data, str(path))
    except FormatError as error:
        raise FormatError(error.message, path=str(path), hint=error.hint) from error


def _parse(data: Any, path: str) -> Card:
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise FormatError(f'not a model card: "format" is not "{FORMAT}"')
    if data.get("version") != VERSION:
        raise FormatError(f"version {data.get('version')!r}; this tracekit reads {VERSION}")
    data = current_card(data, path)
    features = data.get("features")
    if not isinstance(features, dict):
        raise FormatError("features is not an object")
    columns = features.get("columns")
    if not isinstance(columns, list) or not 0 < len(columns) <= MAX_COLUMNS:
        raise FormatError(f"features.columns is not a list of 1 to {MAX_COLUMNS} names")
    if not all(isinstance(c, str) and c.isprintable() for c in columns):
        raise FormatError("features.columns: a name is not a printable string")
    machines = data.get("microarchitectures", [])
    if not isinstance(machines, list) or not all(isinstance(m, dict) for m in machines):
        raise FormatError("microarchitectures is not a list of objects")
    names = [m.get("name") for m in machines]
    if not all(isinstance(n, str) for n in names):
        raise FormatError("microarchitectures: a name is missing, or no string")
    if twice := sorted({n for n in names if names.count(n) > 1}):
        raise FormatError(f"microarchitectures: {', '.join(twice)} is there twice")
    if not all(isinstance(m.get("parameters") or {}, dict) for m in machines):
        raise FormatError("microarchitectures: parameters is not an object")
    files, training = data.get("files", {}), data.get("training", {})
    if not isinstance(files, dict) or not all(_is_hash(h) for h in files.values()):
        raise FormatError("files is not an object of SHA-256 hashes")
    if not isinstance(training, dict):
        raise FormatError("training is not an object")
    texts = [data.get("name", ""), data.get("preset", ""), data.get("unit", "cycles")]
    texts += [features.get("set", ""), features.get("level", "")]
    if not all(isinstance(t, str) for t in texts):
        raise FormatError("name, preset, unit, features.set and features.level are strings")
    if not all(str(t).isprintable() for t in (*texts, *names)):
        raise FormatError("a name has characters that cannot be printed")
    card = Card(
        name=texts[0],
        spec=ModelSpec.parse(data.get("spec")),
        columns=tuple(columns),
        feature_set=texts[3],
        level=texts[4],
        preset=texts[1],
        unit=texts[2],
        microarchitectures=machines,
        training=training,
        files=files,
        extra={k: v for k, v in data.items() if k not in KNOWN},
    )
    if data.get("target_names", card.target_names) != card.target_names:
        raise FormatError("microarchitectures are not target_names, in their order")
    return card


def _is_hash(value: Any) -> bool:
    return isinstance(value, str) and len(value) == 64 and set(value) <= set("0123456789abcdef")


def load_file(folder: str | Path, card: Card, name: str) -> dict[str, NDArray[Any]]:
    """The tensors of one of the card's files, its hash checked; raises FormatError."""
    path = Path(folder) / name
    if name not in card.files:
        raise FormatError(f"{name} is not among the card's files", path=str(path))
    waiting = beside(path, card.files[name])  # its writer was killed behind the card
    if waiting.exists():
        try:
            return read_safetensors(waiting, sha256=card.files[name])
        except FormatError:
            if waiting.exists():
                raise
    return read_safetensors(path, sha256=card.files[name])


def load_tensors(folder: str | Path, card: Card) -> Tensors:
    """The weights as float32, each with the shape that the architecture asks for."""
    return check_tensors(card.spec, load_file(folder, card, WEIGHTS), str(Path(folder) / WEIGHTS))


def check_tensors(spec: ModelSpec, tensors: Mapping[str, NDArray[Any]], path: str) -> Tensors:
    """Those tensors that the architecture asks for, as float32; raises FormatError."""
    out: Tensors = {}
    for name, shape in spec.tensors().items():
        if name not in tensors:
            raise FormatError(f"tensor {name!r} is missing", path=path)
        if tensors[name].shape != shape:
            raise FormatError(
                f"tensor {name!r} is {tensors[name].shape}, the card's architecture asks for "
                f"{shape}",
                path=path,
            )
        if tensors[name].dtype.kind != "f":
            raise FormatError(f"tensor {name!r} is not of floating point", path=path)
        with np.errstate(over="ignore"):
            out[name] = np.ascontiguousarray(tensors[name], np.float32)
        if not np.isfinite(out[name]).all():
            raise FormatError(f"tensor {name!r} has values that are not finite", path=path)
    return out


def save_model(
    folder: str | Path,
    card: Card,
    tensors: Mapping[str, NDArray[Any]],
    golden: Mapping[str, NDArray[Any]] | None = None,
    more: Mapping[str, Mapping[str, NDArray[Any]]] | None = None,
) -> None:
    """Write the folder (made where missing): weights, golden rows, further files (``more``, by
    name), then the card with their hashes.

    Only the tensors that ``card.spec`` asks for are written.  Files of the model that was there
    before (quantised weights, tables) go, for they are not of this one.  Raises FormatError where a
    tensor is missing or has another shape.
    """
    folder = Path(folder)
    weights = check_tensors(card.spec, tensors, str(folder / WEIGHTS))
    if golden is not None and "input" not in golden:
        raise UsageError("golden has no tensor 'input'", path=str(folder))
    card.files = {}
    own = {WEIGHTS: weights, **({GOLDEN: golden} if golden is not None else {})}
    with kept_folder(folder):
        before = _tensor_files(folder)
        save_card(folder, card, {**own, **(more or {})})
        for name in before - set(card.files):
            (folder / name).unlink(missing_ok=True)


def _tensor_files(folder: Path) -> set[str]:
    """The tensors' files of the folder's card; none where it has no card that can be read."""
    try:
        files = load_card(folder).files
    except FormatError:
        return set()
    return {n for n in files if n.endswith(".safetensors") and Path(n).name == n}


def save_card(
    folder: str | Path, card: Card, changed: Mapping[str, Mapping[str, NDArray[Any]]]
) -> None:
    """Write the changed files (tensors by name) and the card with their hashes.

    A reader finds the old model or the new one, whole, at every moment: each file is written
    beside the old one, under a name with its hash (`beside`); the card, which says which hashes
    are the model's, takes its place in one step; then the files take theirs.  One writer at a time.
    """
    folder = Path(folder)
    with _alone(folder):
        _settle(folder)
        new = {}
        try:
            for name, tensors in changed.items():
                pieces = safetensors_bytes(tensors)
                digest = hashlib.sha256(b"".join(pieces)).hexdigest()
                new[name] = beside(folder / name, digest)
                with replacing(new[name], force=True) as out:
                    for piece in pieces:
                        out.write(piece)
                card.files[name] = digest
            write_json(folder / CARD, card.to_dict(), force=True)
        except BaseException:
            _settle(folder)
            raise
        for name, place in new.items():
            place.replace(folder / name)


def beside(path: Path, digest: str) -> Path:
    """Where a file of that SHA-256 stands until its card is written."""
    return path.with_name(f"{path.name}.{digest[:16]}.{NEW}")


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Waits until no other process writes the model."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _settle(folder: Path) -> None:
    """Ends what a killed writer began: files that the card names take their places, others go."""
    waiting = [p for p in folder.iterdir() if p.name.endswith(f".{NEW}")]
    if not waiting:
        return
    try:
        files = load_card(folder).files
    except FormatError:
        files = {}
    for name, digest in files.items():
        place = beside(folder / name, digest)
        if place in waiting:
            place.replace(folder / name)
    for place in waiting:
        place.unlink(missing_ok=True)
