"""What is wrong with a machine's file beside its instruction table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from functools import cache

from tracekit.hardware.instruction_table import InstructionTable, sampled_forms, table_names
from tracekit.text import shown

__all__ = ["table_errors"]

_PREFIXES = frozenset(("lock", "rep", "repe", "repne", "repz", "repnz"))


def table_errors(
    name: str, isa: str, patterns: Sequence[str], measured: Iterable[str]
) -> list[str]:
    """A text for each: no such table, one of another instruction set, ports that no scheduler
    feeds, measured forms that are none of the instruction set.  None of a good machine.

    ``name``: of the table; ``patterns``: of the ports that schedulers feed; ``measured``: forms.
    """
    names = table_names()
    if name not in names:
        return [f"table is {shown(name)!r}; one of {', '.join(names)}"]
    table = InstructionTable.load(name)
    if table.isa != isa:
        return [f"table is {name}, which is of {table.isa}; the machine is of {isa}"]
    unfed = [p for p in table.ports if not any(fnmatchcase(p, pattern) for pattern in patterns)]
    errors = []
    if unfed:
        errors.append(f"schedulers: none feeds {', '.join(unfed)} of the table {name}")
    strange = [f for f in measured if f not in table and not _is_form(table, f)]
    errors += [f"measured[{f[:60]!r}]: no form of an instruction of {table.isa}" for f in strange]
    return errors


def _is_form(table: InstructionTable, form: str) -> bool:
    """Whether mnemonic and operands are such as forms have, in another combination perhaps."""
    mnemonics, operands = _vocabulary(table.name)
    name, own = _parts(form)
    return name in mnemonics and operands.issuperset(own)


@cache
def _vocabulary(table: str) -> tuple[frozenset[str], frozenset[str]]:
    """Mnemonics and kinds of operands of all forms that the table or the samples have."""
    loaded = InstructionTable.load(table)
    parts = [_parts(f) for f in (*loaded, *sampled_forms(loaded.isa))]
    return frozenset(n for n, _ in parts), frozenset(o for _, own in parts for o in own)


def _parts(form: str) -> tuple[str, tuple[str, ...]]:
    """The mnemonic with its prefixes, and the operands."""
    words = form.split(" ")
    n = 1
    while n < len(words) and words[n - 1] in _PREFIXES:
        n += 1
    rest = " ".join(words[n:])
    return " ".join(words[:n]), tuple(rest.split(", ")) if rest else ()
