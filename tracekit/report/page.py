"""The report's HTML: data, script and style in one file.

The script draws with SVG, which prints, scales and takes its colours from the style; text from
traces reaches the page as JSON in a script element that is not executed, and from there as text
nodes.  A policy in the page allows this script and this style by their hashes, and nothing else:
no network, no code from strings.
"""

from __future__ import annotations

import base64
import hashlib
import json
from importlib import resources
from typing import Any

__all__ = ["page"]


def _hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def page(data: dict[str, Any]) -> str:
    """The whole file."""
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
