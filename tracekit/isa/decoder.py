"""The memoised decoder behind `tracekit.isa.decode` and `decode_many`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from tracekit.errors import TracekitError, UsageError
from tracekit.extras import install_command
from tracekit.isa.types import Arch, DecodedInst, invalid

_MODULES: Final = {"arm": "CS_ARCH_ARM64", "x86": "CS_ARCH_X86", "riscv": "CS_ARCH_RISCV"}
_MEMO_LIMIT: Final = 1 << 20
"""Encodings kept; a program has 10^4 to 10^5.  Beyond it (random bytes) the memo starts anew."""

_decoders: dict[str, Decoder] = {}


class Decoder:
    """Decodes one architecture.  Nothing in a `DecodedInst` depends on the pc, so the bytes are the
    key.

    Not thread-safe; a forked child may go on using its copy.
    """

    def __init__(self, arch: str) -> None:
        if arch not in _MODULES:
            raise UsageError(f"unknown architecture {arch!r}", hint="one of arm, x86, riscv")
        try:
            import capstone
        except ImportError:
            raise TracekitError(
                "decoding machine code needs capstone", hint=install_command("binary")
            ) from None
        module = importlib.import_module(f"tracekit.isa.{arch}")
        self.arch = arch
        self.max_length: int = module.MAX_LENGTH
        self._convert: Callable[[Any], DecodedInst] = module.decode
        self._engine = capstone.Cs(getattr(capstone, _MODULES[arch]), module.MODE)
        self._engine.detail = True
        self._error: type[Exception] = capstone.CsError
        self._memo: dict[bytes, DecodedInst] = {}

    def decode(self, code: bytes) -> DecodedInst:
        """The instruction that starts ``code``; more bytes behind it do no harm."""
        found = self._memo.get(code)
        return self._add(code) if found is None else found

    def decode_many(self, codes: Iterable[bytes]) -> list[DecodedInst]:
        """One for each; whatever does not decode is `invalid`."""
        get, add = self._memo.get, self._add
        return [get(c) or add(c) for c in codes]

    def _add(self, code: bytes) -> DecodedInst:
        code = bytes(code)
        short = code[: self.max_length]
        result = self._memo.get(short)
        if result is None:
            result = self._decode(short)
            self._keep(short[: result.length] if result.valid else short, result)
            result = self._memo[short[: result.length] if result.valid else short]
        self._keep(code, result)
        return result

    def _keep(self, code: bytes, result: DecodedInst) -> None:
        if len(self._memo) >= _MEMO_LIMIT:
            self._memo.clear()
        self._memo.setdefault(code, result)

    def _decode(self, code: bytes) -> DecodedInst:
        try:
            for insn in self._engine.disasm(code, 0, 1):
                return self._convert(insn)
        except self._error:  # capstone without details for this instruction
            pass
        return invalid(self._length(code))

    def _length(self, code: bytes) -> int:
        if self.arch == "arm":
            return 4 if len(code) >= 4 else 0
        if self.arch == "riscv":
            size = 2 if code and code[0] & 3 != 3 else 4
            return size if len(code) >= size else 0
        return 0


def decoder(arch: str) -> Decoder:
    """The process's decoder of ``arch``.  Raises `UsageError` for an unknown name, `TracekitError`
    where capstone is missing."""
    found = _decoders.get(arch)
    if found is None:
        found = _decoders[arch] = Decoder(arch)
    return found


def decode(arch: Arch, code: bytes, pc: int = 0) -> DecodedInst:
    """Decode the instruction that starts ``code``.

    ``code`` may be longer than the instruction (give 15 bytes for x86, 4 for the others, where they
    are to be had).  ``pc`` changes nothing in the result: no field depends on it.  Bytes that are
    no instruction give `DecodedInst.valid` = False, never an exception.
    """
    return decoder(arch).decode(code)


def decode_many(
    arch: Arch, codes: Sequence[bytes], pcs: Sequence[int] | None = None
) -> list[DecodedInst]:
    """Decode one instruction for each element of ``codes``.

    Memoised by encoding: a repeated encoding costs a dictionary's look-up and returns the same
    object, so that callers may intern results by identity.  ``pcs`` is accepted for symmetry with
    `decode`.
    """
    return decoder(arch).decode_many(codes)
