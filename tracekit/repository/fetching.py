"""Where a client takes a repository's files from: a folder, or HTTPS (and a hub is one)."""

from __future__ import annotations

import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any, Final

from tuf.api.exceptions import DownloadError, DownloadHTTPError
from tuf.ngclient.fetcher import FetcherInterface

from tracekit.errors import TracekitError, UsageError
from tracekit.io.files import open_file
from tracekit.io.remote import is_this_computer

__all__ = ["Fetcher", "check_place"]

PIECE: Final = 1 << 16
WAIT: Final = 30.0
"""Seconds that a server has for its first byte …"""
LEAST: Final = 16_384
"""… and the bytes a second that it must bring on average after that."""


def check_place(place: str) -> str:
    """The URL of a repository: https, http of this computer, or a folder's absolute ``file:``.
    Raises UsageError for another one."""
    try:
        parts = urllib.parse.urlsplit(place)
        _ = parts.port
    except ValueError as e:
        raise UsageError(f"is no URL: {e}", path=place) from None
    local = is_this_computer(parts.hostname)
    if parts.scheme == "https" or (parts.scheme == "http" and local):
        if parts.hostname is None or parts.username or parts.query or parts.fragment:
            raise UsageError("a repository's URL has a host, a port and a path alone", path=place)
        return place.rstrip("/")
    if parts.scheme == "http":
        raise UsageError("a repository is read by https", path=place)
    if parts.scheme not in ("", "file"):
        raise UsageError("is neither https nor a folder", path=place)
    # what stands in a file: URL is encoded, which as_uri would do once more
    name = urllib.request.url2pathname(parts.path) if parts.scheme == "file" else place
    return Path(name).absolute().as_uri()


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """A redirect is an error with its own status."""
        return None


class Fetcher(FetcherInterface):
    """Reads files below ``place``, in pieces.  ``authority``: certificates that a server's is
    checked against instead of the system's."""

    def __init__(self, place: str, authority: str | None = None) -> None:
        self._folder: Path | None = None
        if place.startswith("file:"):
            self._folder = Path(urllib.request.url2pathname(urllib.parse.urlsplit(place).path))
            return
        try:
            context = ssl.create_default_context(cafile=authority)
        except (OSError, ssl.SSLError) as e:
            raise UsageError(f"no certificates: {e}", path=authority) from None
        self._opener = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=context), _NoRedirects
        )
        self._opener.addheaders = [("User-Agent", "tracekit")]

    def _fetch(self, url: str) -> Iterator[bytes]:
        if self._folder is not None:
            return self._from_folder(url)
        try:
            answer = self._opener.open(url, timeout=WAIT)
        except urllib.error.HTTPError as e:
            e.close()
            raise DownloadHTTPError(f"{url}: status {e.code}", e.code) from None
        except (OSError, HTTPException) as e:
            reason = getattr(e, "reason", None) or e
            raise DownloadError(f"{url}: not to be reached: {reason}") from None
        return self._pieces(answer, url)

    def _from_folder(self, url: str) -> Iterator[bytes]:
        assert self._folder is not None
        path = Path(urllib.request.url2pathname(urllib.parse.urlsplit(url).path))
        if self._folder not in path.parents or ".." in path.parts:
            raise DownloadHTTPError(f"{url}: outside the repository", 403)
        try:
            opened = open_file(path)
        except TracekitError as e:
            # That a file is not there ends the search for newer roots; any other error is one.
            if not path.exists():
                raise DownloadHTTPError(f"{path}: is not there", 404) from None
            raise DownloadError(str(e)) from None
        yield from self._pieces(opened, url)

    def _pieces(self, source: IO[bytes] | Any, url: str) -> Iterator[bytes]:
        began, count = time.monotonic(), 0
        with source:
            while True:
                try:
                    piece = source.read1(PIECE) if hasattr(source, "read1") else source.read(PIECE)
                except (OSError, HTTPException) as e:
                    raise DownloadError(f"{url}: {e or type(e).__name__}") from None
                if not piece:
                    return
                count += len(piece)
                if time.monotonic() - began > WAIT + count / LEAST:
                    raise DownloadError(f"{url}: slower than {LEAST} bytes a second")
                yield piece
