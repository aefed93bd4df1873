"""The report's HTML: data, script and style in one file.

The script draws with SVG, which prints, scales and takes its colours from the style; text from
traces reaches the page as JSON in a script element that is not executed, and from there as text
nodes.  A policy in the page allows this script and this style by their hashes, and nothing else:
no network, no code from strings.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final

from tracekit.errors import UsageError

__all__ = ["PARTS", "Report", "page"]

#: The page's parts, in their order.
PARTS: Final = (
    *("answer", "machines", "phases", "functions", "pipeline", "limits", "misses", "notes", "how"),
)


def _hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


@dataclass(frozen=True)
class Report:
    """What `collect` found, for notebooks: shown as the page's own parts, in a frame that may run
    the page's script and nothing else."""

    data: dict[str, Any]
    parts: tuple[str, ...] = PARTS
    height: int = 640

    def only(self, *parts: str, height: int = 640) -> Report:
        """Some of `PARTS`; ``height`` of the frame in pixels."""
        if unknown := [p for p in parts if p not in PARTS]:
            raise UsageError(f"{unknown[0]} is no part", hint=f"some of {', '.join(PARTS)}")
        return Report(self.data, parts or PARTS, height)

    def __repr__(self) -> str:
        machines = self.data["machines"]
        return f"{ascii(self.data['title'])[1:-1]}: {machines[0]['paragraph']}"

    def _repr_html_(self) -> str:
        whole = html.escape(page(self.data, self.parts), quote=True)
        return (
            f'<iframe title="tracekit report" sandbox="allow-scripts" srcdoc="{whole}" '
            f'style="width:100%;height:{int(self.height)}px;border:0"></iframe>'
        )


def page(data: dict[str, Any], parts: Iterable[str] = PARTS) -> str:
    """The whole file, or one with some of `PARTS`."""
    if tuple(parts) != PARTS:
        data = {**data, "parts": list(parts)}
    files = resources.files("tracekit.report")
    style = files.joinpath("page.css").read_text(encoding="utf-8")
    script = files.joinpath("page.js").read_text(encoding="utf-8")
    # Within a script element only "<" can end it, or begin a comment.
    values = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    policy = f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>tracekit report</title><style>{style}</style></head><body>"
        "<main><noscript>This report is drawn by its own script.</noscript></main>"
        f'<script type="application/json" id="data">{values}</script>'
        f"<script>{script}</script></body></html>\n"
    )
