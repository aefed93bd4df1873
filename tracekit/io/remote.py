"""Files elsewhere: ``s3://``, ``gs://``, ``https://`` and whatever else fsspec knows (extra
cluster).

Reading goes by ranges, in blocks that are kept and fetched ahead.  Every request has a time limit
and is tried again where that may help; then one line says what was wrong.  Credentials are
fsspec's own business (its configuration, the environment); nothing here shows or stores them:
`public_name` is what messages and files have of an address.
"""

from __future__ import annotations

import io
import os
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Any, Final

from tracekit.errors import TracekitError, UsageError
from tracekit.extras import install_command

__all__ = [
    "OpenRemote",
    "RemoteFile",
    "check_remote",
    "expanded",
    "open_remote",
    "public_name",
    "redacted",
    "remote_stamp",
    "remote_url",
    "upload",
]

PATIENCE: Final = 30.0
"""Seconds that a request has, and those that a megabyte adds to an upload's."""
ATTEMPTS: Final = 4
"""How often a request is sent before its failure is told."""
PAUSE: Final = 0.5
"""Seconds before the second attempt; twice as many before each further one."""
BLOCK: Final = 1 << 20
"""Bytes of a block."""
KEPT: Final = 8
"""Blocks of a file that stay in memory."""
AHEAD: Final = 3
"""Blocks that are fetched before they are asked for, where reading goes from front to back."""

#: Protocols whose ``://`` is told where `Path` has made ``:/`` of it.
_KNOWN = (
    *("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "http", "https", "hf", "oss"),
    *("ftp", "sftp", "ssh", "hdfs", "webhdfs", "smb", "memory", "file", "github", "dbfs"),
)
_WHOLE = re.compile(r"(?:[a-z][a-z0-9+.-]+::)*[a-z][a-z0-9+.-]+://")
_COLLAPSED = re.compile(rf"((?:[a-z][a-z0-9+.-]+::)*(?:{'|'.join(_KNOWN)})):/(?=[^/])")
#: Stores whose objects appear whole or not at all.
_ATOMIC = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oss", "memory")
_STAMPS = ("ETag", "etag", "md5Hash", "content_md5", "generation", "LastModified", "mtime")

Address = str | os.PathLike[str]


def remote_url(path: Address) -> str | None:
    """The address where ``path`` is one; None of a local path."""
    text = os.fspath(path)
    if not isinstance(path, PurePath) and _WHOLE.match(text):
        return text
    found = _COLLAPSED.match(text)
    return f"{found[1]}://{text[found.end() :]}" if found else None


def public_name(path: Address) -> str:
    """A path or an address without what may be secret: user, password, query and fragment."""
    url = remote_url(path)
    return os.fspath(path) if url is None else redacted(url)


def redacted(text: str) -> str:
    """A text without what its addresses may hold that is secret."""
    text = re.sub(r"(://)[^/\s'\"]*@", r"\1", text)  # a password may have an @
    return re.sub(r"(://[^\s'\"?#]*)[?#][^\s'\")]*", r"\1?...", text)


# ---- requests


def _system(url: str) -> tuple[Any, str]:
    """fsspec's file system of an address, and the path in it."""
    try:
        import fsspec
    except ImportError:
        raise UsageError(
            "this address needs fsspec, which is not installed",
            path=public_name(url),
            hint=install_command("cluster"),
        ) from None
    try:
        fs, path = fsspec.core.url_to_fs(url)
    except ImportError as e:  # which names the package
        ours = url.startswith(("s3://", "s3a://", "http://", "https://"))
        raise UsageError(
            f"cannot open: {redacted(str(e))}",
            path=public_name(url),
            hint=install_command("cluster") if ours else None,
        ) from None
    except Exception as e:
        raise UsageError(f"cannot open: {_said(e)}", path=public_name(url)) from None
    return fs, path


def _said(e: BaseException) -> str:
    """What a library's exception says, in one line and without secrets."""
    if type(e).__name__ in ("FSTimeoutError", "TimeoutError"):
        return "no answer in time"
    first = next((line for line in str(e).splitlines() if line.strip()), "")
    return redacted(f"{type(e).__name__}: {first}" if first else type(e).__name__)[:300]


def _call(fs: Any, name: str, *args: Any, seconds: float, **kwargs: Any) -> Any:
    """One request; one that does not end in time is given up."""
    if not getattr(fs, "async_impl", False):
        return getattr(fs, name)(*args, **kwargs)
    from fsspec.asyn import sync

    return sync(fs.loop, getattr(fs, f"_{name}"), *args, timeout=seconds, **kwargs)


class _Short(Exception):
    """A body with fewer bytes than were asked for."""


def is_this_computer(host: str | None) -> bool:
    """Whether a URL's host is this computer, where nothing travels: http serves as https does."""
    return host in ("localhost", "127.0.0.1", "::1")


def _denied(doing: str, name: str) -> TracekitError:
    return TracekitError(
        f"cannot {doing}: access is denied",
        path=name,
        hint="credentials are fsspec's: the environment, or its configuration",
    )


def _tried(url: str, doing: str, call: Callable[[], Any], offset: int | None = None) -> Any:
    """``call()``, again where it fails in a way that may pass; `TracekitError` in the end."""
    name = public_name(url)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return call()
        except TracekitError:
            raise
        except FileNotFoundError as e:
            status = getattr(e.__cause__, "status", None)
            if status in (401, 403):
                raise _denied(doing, name) from None
            if e.__cause__ is None or status in (404, 410):
                raise TracekitError(f"cannot {doing}: no such file", path=name) from None
            # fsspec says so of whatever a server answers, and of one that does not answer.
            if attempt == ATTEMPTS:
                raise TracekitError(
                    f"cannot {doing}: {_said(e.__cause__)} ({ATTEMPTS} attempts)", path=name
                ) from None
        except PermissionError:
            raise _denied(doing, name) from None
        except (NotImplementedError, FileExistsError, IsADirectoryError, NotADirectoryError) as e:
            raise TracekitError(f"cannot {doing}: {_said(e)}", path=name) from None
        except Exception as e:
            if attempt == ATTEMPTS:
                raise TracekitError(
                    f"cannot {doing}: {_said(e)} ({ATTEMPTS} attempts)", path=name, offset=offset
                ) from None
        time.sleep(PAUSE * 2 ** (attempt - 1))
    raise AssertionError


def _info(url: str) -> dict[str, Any]:
    fs, path = _system(url)

    def ask() -> dict[str, Any]:
        fs.invalidate_cache()
        found: dict[str, Any] = _call(fs, "info", path, seconds=PATIENCE)
        return found

    found: dict[str, Any] = _tried(url, "open", ask)
    if found.get("type") == "directory":
        raise TracekitError("is a folder; a file is needed", path=public_name(url))
    return found


def _stamp(info: dict[str, Any]) -> list[Any]:
    told = next((str(info[k]) for k in _STAMPS if info.get(k)), "")
    return [info.get("size"), told]


def remote_stamp(url: str) -> list[Any]:
    """Size and the store's own mark of the content (ETag, hash, generation or time)."""
    return _stamp(_info(url))


# ---- reading


class RemoteFile:
    """A file elsewhere, read by ranges; threads may share it.

    ``name`` may be shown.  ``size`` is None, and ``ranges`` False, where its server tells no size
    or gives no ranges: then `open_remote` reads it from front to back.
    """

    def __init__(self, url: str) -> None:
        self.url, self.name = url, public_name(url)
        info = _info(url)
        self.size: int | None = info.get("size")
        # A server of the web that says nothing of ranges ignores them, and sends everything.
        untold = url.startswith(("http://", "https://"))
        self.ranges = self.size is not None and info.get("partial", not untold) is not False
        self.stamp = _stamp(info)
        self._blocks: OrderedDict[int, Future[bytes]] = OrderedDict()
        self._lock = threading.Lock()
        self._last = -1
        self._pool = ThreadPoolExecutor(AHEAD + 1, "tracekit-remote")

    def read_at(self, offset: int, size: int) -> bytes:
        """Up to ``size`` bytes; fewer at the end of the file.  `TracekitError` where they cannot be
        had."""
        assert self.size is not None
        end = min(offset + size, self.size)
        parts = []
        while offset < end:
            number = offset // BLOCK
            block = self._block(number)
            part = block[offset - number * BLOCK : end - number * BLOCK]
            parts.append(part)
            offset += len(part)
        return b"".join(parts)

    def _block(self, number: int) -> bytes:
        with self._lock:
            wanted = [number]
            if number == self._last + 1:
                wanted += range(number + 1, number + 1 + AHEAD)
            self._last = max(self._last, number) if number == self._last + 1 else number
            for k in wanted:
                if k not in self._blocks and k * BLOCK < (self.size or 0):
                    self._blocks[k] = self._pool.submit(self._fetch, k)
            self._blocks.move_to_end(number)
            while len(self._blocks) > KEPT:
                self._blocks.popitem(last=False)
            found = self._blocks[number]
        try:
            return found.result()
        except BaseException:
            with self._lock:
                self._blocks.pop(number, None)
            raise

    def _fetch(self, number: int) -> bytes:
        begin = number * BLOCK
        end = min(begin + BLOCK, self.size or 0)
        fs, path = _system(self.url)

        def ask() -> bytes:
            data: bytes = _call(fs, "cat_file", path, start=begin, end=end, seconds=PATIENCE)
            if len(data) != end - begin:
                raise _Short(f"{len(data)} of {end - begin} bytes came")
            return data

        found: bytes = _tried(self.url, "read", ask, begin)
        return found

    def check_unchanged(self) -> None:
        """`TracekitError` where the content is another one than when it was opened."""
        if remote_stamp(self.url) != self.stamp:
            raise TracekitError("changed while it was read", path=self.name, hint="read it again")

    def close(self) -> None:
        """Nothing more is fetched."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class _Ranges(io.RawIOBase):
    """A RemoteFile as Python's files are."""

    def __init__(self, file: RemoteFile) -> None:
        self._file, self._at = file, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        base = (0, self._at, self._file.size or 0)[whence]
        self._at = max(0, base + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        data = self._file.read_at(self._at, len(buffer))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


class _Stream(io.RawIOBase):
    """From front to back, of a server without ranges; opened again, and read up to where it was,
    after a failure."""

    def __init__(self, url: str) -> None:
        self._url, self._at = url, 0
        self._body: Any = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        if (offset, whence) not in ((0, 0), (self._at, 0), (0, 1)):
            raise TracekitError(
                "its server gives no ranges, which this format needs",
                path=public_name(self._url),
                hint="copy it first",
            )
        if (offset, whence) == (0, 0) and self._at:
            self._body, self._at = None, 0
        return self._at

    def readinto(self, buffer: Any) -> int:
        def ask() -> bytes:
            if self._body is None:
                fs, path = _system(self._url)
                self._body = fs.open(path, "rb", block_size=0)
                left = self._at
                while left:
                    left -= len(self._body.read(min(left, BLOCK))) or left
            try:
                data: bytes = self._body.read(min(len(buffer), BLOCK))
            except BaseException:
                self._body = None
                raise
            return data

        data = _tried(self._url, "read", ask, self._at)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


class OpenRemote(io.BufferedReader):
    """A file elsewhere, open for reading; ``size`` in bytes, None where nobody tells."""

    def __init__(self, file: RemoteFile) -> None:
        super().__init__(_Ranges(file) if file.ranges else _Stream(file.url), BLOCK)
        self.size = file.size
        self._file = file

    def check_unchanged(self) -> None:
        """As RemoteFile's."""
        self._file.check_unchanged()


def open_remote(url: str) -> OpenRemote:
    """A file elsewhere, for reading; `TracekitError` where it cannot be opened."""
    return OpenRemote(RemoteFile(url))


def expanded(pattern: str) -> list[str]:
    """The addresses that match a pattern with ``*``, ``?`` or ``[``, in order; itself where it has
    none."""
    if not any(c in pattern for c in "*?[") or ("?" in pattern and "*" not in pattern):
        return [pattern]
    fs, path = _system(pattern)
    found = _tried(pattern, "list", lambda: _call(fs, "glob", path, seconds=10 * PATIENCE))
    if not found:
        raise TracekitError("no file matches", path=public_name(pattern))
    return [fs.unstrip_protocol(f) for f in sorted(found)]


# ---- writing


def check_remote(url: str, force: bool) -> None:
    """Raises TracekitError where the address must not be written."""
    fs, path = _system(url)
    if not force and _tried(url, "open", lambda: _call(fs, "exists", path, seconds=PATIENCE)):
        raise _exists(url)


def _exists(url: str) -> TracekitError:
    return TracekitError("exists already", path=public_name(url), hint="--force replaces it")


def upload(local: Path, url: str, *, force: bool = False) -> None:
    """The local file to ``url``, whole or not at all: stores of objects do that themselves; in
    other places it grows under a temporary name, which is then changed."""
    fs, path = _system(url)
    size = local.stat().st_size
    seconds = PATIENCE * (1 + size / (1 << 20))
    protocols = {fs.protocol} if isinstance(fs.protocol, str) else set(fs.protocol)
    if protocols & set(_ATOMIC):
        options = {} if force or "s3" not in protocols else {"mode": "create"}
        try:
            _tried(
                url,
                "write",
                lambda: _call(fs, "put_file", str(local), path, seconds=seconds, **options),
            )
        except TracekitError as e:
            if "FileExistsError" in e.message or "PreconditionFailed" in e.message:
                raise _exists(url) from None
            raise
        return
    with _temporary(fs, path) as temporary:
        _tried(
            url,
            "write",
            lambda: _call(fs, "put_file", str(local), temporary, seconds=seconds),
        )
        check_remote(url, force)
        _tried(url, "write", lambda: fs.mv(temporary, path))


@contextmanager
def _temporary(fs: Any, path: str) -> Iterator[str]:
    import secrets

    folder, _, name = path.rpartition("/")
    temporary = f"{folder}/.{name}.tracekit-{secrets.token_hex(8)}.tmp"
    try:
        yield temporary
    finally:
        try:
            if fs.exists(temporary):
                fs.rm_file(temporary)
        except Exception:  # what cannot be removed is told by the failure before
            pass
