"""The static table: what never changes about an instruction, stored once for each (pc, upc,
text)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit import _core, schema
from tracekit.errors import FormatError

MAX_SRC, MAX_DST = 8, 6
NO_REG = 255

#: Stored arrays: name -> (dtype, width), width 0 for one value.  These differ from place to place,
PLACED: dict[str, tuple[str, int]] = {
    "pc": ("<u8", 0),
    "upc": ("<u2", 0),
    "count": ("<u8", 0),
    "fall": ("u1", 2),
}
#: and these, with the disassembly and the machine code, are the instruction's form: the same
#: instruction stands at many places, and each form is stored once.
FORM: dict[str, tuple[str, int]] = {
    "op": ("u1", 0),
    "branch": ("u1", 0),
    "access_size": ("<u2", 0),
    "flags": ("<u8", 0),
    "inferred": ("u1", 0),
    "operands_lost": ("u1", 0),
    "src_class": ("u1", MAX_SRC),
    "src_index": ("<u2", MAX_SRC),
    "dst_class": ("u1", MAX_DST),
    "dst_index": ("<u2", MAX_DST),
    "hot_bits": ("u1", 0),
}
ARRAYS = {**PLACED, **FORM}


@dataclass(frozen=True)
class StaticInst:
    """One static instruction, for people and scripts; the arrays of StaticTable are for
    programs."""

    pc: int
    upc: int
    op: str
    branch: str
    access_size: int
    flags: tuple[str, ...]
    src: tuple[tuple[int, int], ...]
    dst: tuple[tuple[int, int], ...]
    disassembly: str
    bytes: bytes
    count: int


class StaticTable:
    """The static instructions of a file, as arrays of one row an instruction.

    ``arrays`` has pc, upc, op (index into schema.OP_CLASSES), branch (schema.BRANCH_KINDS),
    access_size (bytes), flags (bits of schema.FLAGS), src_class and src_index (n x 8), dst_class
    and dst_index (n x 6; class 255 = none), count (dynamic executions).  Attribute access works
    too: ``t.pc``.
    """

    def __init__(
        self,
        arrays: Mapping[str, npt.NDArray[Any]],
        disassembly: list[str],
        code: list[bytes],
        op_names: Mapping[int, str] | None = None,
    ) -> None:
        self.arrays = {k: np.ascontiguousarray(v) for k, v in arrays.items()}
        for a in self.arrays.values():
            a.flags.writeable = False
        self.disassembly, self.bytes = disassembly, code
        self.op_names = dict(op_names or {})

    def __len__(self) -> int:
        return len(self.disassembly)

    def __getattr__(self, name: str) -> npt.NDArray[Any]:
        try:
            return self.__dict__["arrays"][name]  # type: ignore[no-any-return]
        except KeyError:
            raise AttributeError(name) from None

    def op_name(self, i: int) -> str:
        """gem5's name of the op class; the trace's own where tracekit has none for it."""
        return self.op_names.get(i) or schema.OP_CLASSES[int(self.op[i])]

    def __getitem__(self, i: int) -> StaticInst:
        if not 0 <= i < len(self):
            raise IndexError(i)
        flags = int(self.flags[i])

        def regs(kind: str) -> tuple[tuple[int, int], ...]:
            classes, numbers = self.arrays[f"{kind}_class"][i], self.arrays[f"{kind}_index"][i]
            return tuple(
                (int(c), int(n)) for c, n in zip(classes, numbers, strict=True) if c != NO_REG
            )

        return StaticInst(
            pc=int(self.pc[i]),
            upc=int(self.upc[i]),
            op=self.op_name(i),
            branch=schema.BRANCH_KINDS[int(self.branch[i])],
            access_size=int(self.access_size[i]),
            flags=tuple(n for k, n in enumerate(schema.FLAGS) if flags >> k & 1),
            src=regs("src"),
            dst=regs("dst"),
            disassembly=self.disassembly[i],
            bytes=self.bytes[i],
            count=int(self.count[i]),
        )

    def __iter__(self) -> Iterator[StaticInst]:
        return (self[i] for i in range(len(self)))

    def ends(self) -> npt.NDArray[np.bool_]:
        """Which instructions' rows end one: a macro-op's last micro-op, or no micro-op at all."""
        return self.has("IsLastMicroop") | ~self.has("IsMicroop")

    def has(self, flag: str) -> npt.NDArray[np.bool_]:
        """Which instructions have gem5's flag of that name."""
        bit = schema.FLAGS.index(flag)
        out: npt.NDArray[np.bool_] = (self.flags >> np.uint64(bit) & np.uint64(1)).astype(bool)
        return out


def from_core(
    columns: dict[str, Any], hot: dict[str, Any], counts: npt.NDArray[Any]
) -> StaticTable:
    """The table as the extension exports it (csrc/bind/rows.cpp)."""
    names = {i: n for i, n in enumerate(columns["op_name"]) if n}
    # pc and upc are those of ``hot``, by which the rows were encoded.
    arrays = {k: v for k, v in {**columns, **hot, "count": counts}.items() if k in ARRAYS}
    return StaticTable(arrays, columns["disassembly"], columns["bytes"], names)


def _shuffle(a: npt.NDArray[Any]) -> bytes:
    """Byte planes, column by column: equal bytes come together, which is all zstd needs."""
    flat = np.ascontiguousarray(a.T).reshape(-1)
    return bytes(flat.view(np.uint8).reshape(-1, flat.itemsize).T.tobytes())


def _unshuffle(data: bytes, dtype: str, n: int, width: int) -> npt.NDArray[Any]:
    size = np.dtype(dtype).itemsize
    planes = np.frombuffer(data, np.uint8).reshape(size, -1)
    flat = np.ascontiguousarray(planes.T).reshape(-1).view(dtype)
    return flat if width == 0 else np.ascontiguousarray(flat.reshape(width, n).T)


def _forms(t: StaticTable) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32]]:
    """(an instruction of each form, sorted by text; the form of each instruction)."""
    n = len(t)
    packed = np.concatenate(
        [
            np.ascontiguousarray(t.arrays[k].astype(d)).view(np.uint8).reshape(n, -1)
            for k, (d, _) in FORM.items()
        ],
        axis=1,
    )
    return _core.static_forms(t.disassembly, t.bytes, packed)


def one_line(texts: list[str]) -> list[str]:
    """Texts as the file has them: a newline is what stands between two of them."""
    return [text.replace("\n", " ") for text in texts]


def encode(t: StaticTable) -> dict[str, bytes]:
    """The table's streams, before compression."""
    out: dict[str, bytes] = {}
    members, form = _forms(t) if len(t) else (np.zeros(0, np.int64), np.zeros(0, np.uint32))
    firsts = members.tolist()
    for name, (dtype, _) in PLACED.items():
        a = t.arrays[name].astype(dtype)
        if name == "pc":  # code is nearly consecutive
            a = np.diff(a, prepend=np.zeros(1, a.dtype))
        out[name] = _shuffle(a)
    out["form"] = _shuffle(form.astype("<u4"))
    for name, (dtype, _) in FORM.items():
        out[name] = _shuffle(t.arrays[name][members].astype(dtype))
    codes = [t.bytes[i] for i in firsts]
    out["disassembly"] = "\n".join(one_line([t.disassembly[i] for i in firsts])).encode()
    out["bytes_length"] = bytes([len(code) for code in codes])
    out["bytes"] = b"".join(codes)
    return out


def decode(
    read: Callable[[str], bytes], n: int, forms: int, op_names: dict[str, str], path: str
) -> StaticTable:
    """The inverse of encode; ``read`` gives a stream by name.  FormatError where they disagree."""

    def array(name: str, dtype: str, width: int, rows: int) -> npt.NDArray[Any]:
        data = read(name)
        if len(data) != rows * max(width, 1) * np.dtype(dtype).itemsize:
            raise FormatError(f"static column {name} has a wrong length", path=path)
        return _unshuffle(data, dtype, rows, width)

    arrays = {name: array(name, d, w, n) for name, (d, w) in PLACED.items()}
    arrays["pc"] = np.cumsum(arrays["pc"], dtype=np.uint64)
    form = array("form", "<u4", 0, n)
    text = read("disassembly").decode("utf-8", "replace").split("\n") if forms else []
    lengths = read("bytes_length")
    code = read("bytes")
    if len(text) != forms or len(lengths) != forms or sum(lengths) != len(code):
        raise FormatError("static table: text or machine code of a wrong length", path=path)
    if n and int(form.max()) >= forms:
        raise FormatError("static table: form out of range", path=path)
    for name, (dtype, width) in FORM.items():
        arrays[name] = array(name, dtype, width, forms)[form]
    if n and (
        int(arrays["op"].max()) >= len(schema.OP_CLASSES)
        or int(arrays["branch"].max()) >= len(schema.BRANCH_KINDS)
    ):
        raise FormatError("static table: op class or branch kind out of range", path=path)
    ends = np.cumsum(np.frombuffer(lengths, np.uint8), dtype=np.int64)
    pieces = [code[e - k : e] for e, k in zip(ends.tolist(), lengths, strict=True)]
    which = form.tolist()
    names = {int(k): v for k, v in op_names.items()}
    return StaticTable(arrays, [text[i] for i in which], [pieces[i] for i in which], names)
