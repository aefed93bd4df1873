"""A user's objective: arithmetic over named numbers, parsed and walked here; nothing is executed as
Python.

    expression = term {("+" | "-") term};  term = factor {("*" | "/") factor}
    factor = ["-"] power;  power = atom ["**" factor]
    atom = number | name | name "(" expression {"," expression} ")" | "(" expression ")"

Functions: min, max, log, log2, exp, sqrt.  Names are those of the parameters and results that are
given.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Set
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.errors import UsageError

__all__ = ["Expression"]

F64 = npt.NDArray[np.float64]
MAX_LENGTH, MAX_DEPTH = 2000, 60
_TOKEN = re.compile(
    r"\s*(?:(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)|([A-Za-z_]\w*)|(\*\*|[-+*/(),]))"
)
_FUNCTIONS: dict[str, tuple[int | None, Callable[..., Any]]] = {
    "min": (None, lambda *a: np.minimum.reduce(np.broadcast_arrays(*a))),
    "max": (None, lambda *a: np.maximum.reduce(np.broadcast_arrays(*a))),
    "log": (1, np.log),
    "log2": (1, np.log2),
    "exp": (1, np.exp),
    "sqrt": (1, np.sqrt),
}
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}
Node = Callable[[Mapping[str, F64]], Any]


class Expression:
    """A parsed expression; call it with the values of its ``names`` (arrays of one shape)."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            raise UsageError(f"an expression of more than {MAX_LENGTH} characters")
        self.text = text
        self.names: set[str] = set()
        self._tokens: list[tuple[str, str, int]] = []
        at = 0
        while text[at:].strip():
            found = _TOKEN.match(text, at)
            if not found:
                raise self._error(at, "a number, a name or an operator is needed")
            kind = ("number", "name", "sign")[found.lastindex - 1]  # type: ignore[operator]
            self._tokens.append(
                (kind, found[found.lastindex or 0], found.start(found.lastindex or 0))
            )
            at = found.end()
        self._at = self._depth = 0
        self._root = self._sum()
        if self._at < len(self._tokens):
            raise self._error(self._tokens[self._at][2], "an operator is needed")

    def check_names(self, known: Set[str]) -> None:
        """Raises UsageError where it has a name that is not ``known``."""
        if missing := sorted(self.names - known):
            raise UsageError(
                f"{self.text!r}: {', '.join(missing)} is not known",
                hint=f"known: {', '.join(sorted(known))}",
            )

    def __call__(self, values: Mapping[str, Any]) -> F64:
        """The value; UsageError where a name is not given or the result is not finite."""
        self.check_names(values.keys())
        given = {k: np.asarray(values[k], np.float64) for k in self.names}
        with np.errstate(all="ignore"):
            out = np.asarray(self._root(given), np.float64)
        if not np.isfinite(out).all():
            raise UsageError(f"{self.text!r} is not a finite number for every design")
        return out

    def _error(self, at: int, why: str) -> UsageError:
        return UsageError(f"{self.text!r}, character {at + 1}: {why}")

    def _next(self, *signs: str) -> str | None:
        if self._at < len(self._tokens):
            kind, text, _ = self._tokens[self._at]
            if kind == "sign" and text in signs:
                self._at += 1
                return text
        return None

    def _sum(self) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise UsageError(f"{self.text[:40]!r}…: nested deeper than {MAX_DEPTH}")
        out = self._chain(self._product, "+", "-")
        self._depth -= 1
        return out

    def _product(self) -> Node:
        return self._chain(self._factor, "*", "/")

    def _chain(self, part: Callable[[], Node], *signs: str) -> Node:
        """Parts from left to right: one node for all of them, however many there are."""
        first, rest = part(), []
        while sign := self._next(*signs):
            rest.append((_OPERATORS[sign], part()))
        if not rest:
            return first

        def value(v: Mapping[str, F64]) -> Any:
            out = first(v)
            for apply, node in rest:
                out = apply(out, node(v))
            return out

        return value

    def _factor(self) -> Node:
        minus = 0
        while self._next("-"):
            minus += 1
        inner = self._atom()
        if self._next("**"):
            self._depth += 1
            if self._depth > MAX_DEPTH:
                raise UsageError(f"{self.text[:40]!r}…: nested deeper than {MAX_DEPTH}")
            base, exponent = inner, self._factor()
            self._depth -= 1

            def inner(v: Mapping[str, F64]) -> Any:
                return np.power(np.asarray(base(v), np.float64), exponent(v))

        return (lambda v: -inner(v)) if minus % 2 else inner

    def _atom(self) -> Node:
        if self._next("("):
            out = self._sum()
            self._close()
            return out
        if self._at == len(self._tokens):
            raise self._error(len(self.text), "the expression ends too early")
        kind, text, at = self._tokens[self._at]
        self._at += 1
        if kind == "number":
            value = np.float64(text)
            return lambda _: value
        if kind == "sign":
            raise self._error(at, f"{text!r} is not expected here")
        if self._next("("):
            if text not in _FUNCTIONS:
                raise self._error(at, f"no function {text}; there are {', '.join(_FUNCTIONS)}")
            count, function = _FUNCTIONS[text]
            arguments = [self._sum()]
            while self._next(","):
                arguments.append(self._sum())
            self._close()
            if count is not None and len(arguments) != count:
                raise self._error(at, f"{text} takes {count} argument")
            return lambda v: function(*(a(v) for a in arguments))
        self.names.add(text)
        return lambda v: v[text]

    def _close(self) -> None:
        if not self._next(")"):
            at = self._tokens[self._at][2] if self._at < len(self._tokens) else len(self.text)
            raise self._error(at, "')' is needed")
