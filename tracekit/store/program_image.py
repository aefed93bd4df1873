"""Where the program's file lies in the memory of a trace that begins with the program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tracekit.errors import FormatError

if TYPE_CHECKING:
    from tracekit.store.reader import TraceFile

UNKNOWN = (0, 0)


def parse_image(image: Any, path: str) -> tuple[int, int] | None:
    """[begin, end] of a program's file in its memory, or null, checked."""
    if image is None:
        return None
    ok = (
        isinstance(image, list)
        and len(image) == 2
        and all(isinstance(v, int) for v in image)
        and 0 <= image[0] < image[1] < 1 << 64
    )
    if not ok:
        raise FormatError("where it says that the program's file lies is damaged", path=path)
    return image[0], image[1]


def program_image(trace: TraceFile) -> tuple[int, int]:
    """Its first address, and the one behind its last: cores number the frames of all other pages in
    the order in which they are touched (csrc/sim/page_frames.hpp).  `UNKNOWN` where the trace does
    not know, or begins later than what it was extracted from.  FormatError for a damaged one."""
    image = parse_image(trace.index.get("source", {}).get("image"), trace.path)
    return UNKNOWN if image is None or trace.index["options"].get("start") else image
