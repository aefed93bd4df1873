"""Every file and folder that tracekit makes is written here.

It grows under a random name beside its own (leftovers.py), is synced, and takes its own name in
one step, so that under that name there is the old content or the new, whole, whatever happens.
What goes elsewhere (remote.py) grows among this computer's temporary files and is sent whole.  A
target that is a symbolic link is replaced, never followed.  Of two writers of one target the last
one wins, where both may replace it; else the second one is refused.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tracekit.errors import TracekitError, raise_under_name
from tracekit.io.leftovers import claim, collect, temporary_name
from tracekit.io.remote import check_remote, public_name, remote_url, upload

__all__ = [
    "ANOTHER_NAME",
    "Folder",
    "OutputFile",
    "append_line",
    "cache_folder",
    "check_apart",
    "check_folder",
    "check_output",
    "check_room",
    "kept_folder",
    "replacing",
    "scratch",
    "write_bytes",
    "write_json",
]

ANOTHER_NAME = "give the output another name"
BUFFER = 1 << 16
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
_NO_SYNC = (errno.EINVAL, errno.EACCES, errno.EOPNOTSUPP)  # of a folder: no such file system
_EXCHANGE, _HERE = 2, -100  # RENAME_EXCHANGE, AT_FDCWD

StrPath = str | os.PathLike[str]


def check_output(path: StrPath, force: bool, source: StrPath = "-") -> None:
    """Raises TracekitError where ``path`` must not be replaced; ``source``: what is read
    meanwhile."""
    if (url := remote_url(path)) is not None:
        check_remote(url, force)
        return
    path = Path(path)
    if str(path) == "-":
        raise TracekitError("is no file", path="-", hint="it grows under another name: name one")
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    except OSError as e:
        raise TracekitError(f"cannot write: {e.strerror}", path=str(path)) from None
    if not _replaceable(path, status):
        raise TracekitError("is no file that can be replaced", path=str(path), hint="name a file")
    if not force:
        raise _exists(path)
    if str(source) != "-":
        check_apart(path, source)


def check_apart(path: StrPath, source: StrPath) -> None:
    """Raises TracekitError where an output has the name of a file that is read."""
    with contextlib.suppress(OSError, ValueError):
        if Path(path).samefile(source):
            raise TracekitError("is the input, too", path=str(path), hint=ANOTHER_NAME)


def check_room(path: StrPath, *, made: bool = False) -> None:
    """Raises TracekitError where nothing can be written beside ``path``, or in it, a folder that is
    there: hours of work are not to find out at their end.  ``made``: folders above it that are
    missing will be made."""
    if remote_url(path) is not None:
        return
    import tempfile

    path = Path(path)
    folder = path if path.is_dir() else path.parent
    while made and not folder.exists():
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as e:
        raise _failed(e, path) from None


def _replaceable(path: Path, status: os.stat_result) -> bool:
    """Of what stands there: a file, or a link that stands for no device, pipe or open file."""
    if not stat.S_ISLNK(status.st_mode):
        return stat.S_ISREG(status.st_mode)
    with contextlib.suppress(OSError):
        # /dev/stdout, say: a link to a link of /proc, whatever that leads to.
        if (path.parent / path.readlink()).is_relative_to("/proc"):
            return False
        return not path.exists() or path.is_file()
    return True


def check_folder(path: StrPath, force: bool, suffix: str) -> None:
    """Raises TracekitError where the folder ``path`` must not be replaced as a whole: with
    ``force`` those that hold nothing but files of that suffix may be."""
    path = Path(path)
    if not path.is_dir() or path.is_symlink():
        check_output(path, force)
        return
    if not force:
        raise _exists(path)
    for entry in path.iterdir():
        if entry.suffix != suffix or not entry.is_file():
            raise TracekitError(
                f"holds {entry.name}, too", path=str(path), hint="name another folder"
            )


def _waiting_room() -> Path:
    import tempfile

    return Path(tempfile.gettempdir())


def _exists(path: Path) -> TracekitError:
    return TracekitError("exists already", path=str(path), hint="--force replaces it")


def _failed(error: OSError, path: Path) -> TracekitError:
    there = os.path.lexists(path)
    return TracekitError(
        f"cannot write: {error.strerror or error}",
        path=str(path),
        hint="what was there is untouched" if there else None,
    )


class OutputFile:
    """A file that grows under a temporary name; ``commit`` gives it its own, ``discard`` removes
    it, as does leaving the ``with`` block.

    It is made when the first bytes are written: whoever is to discard it has it in hand by then,
    at whatever moment a signal comes.  ``mode``: its permissions, of which the umask takes away; a
    file that it replaces hands on those of its own that are among them.  Every method raises
    TracekitError for what the system refuses.
    """

    def __init__(
        self,
        path: StrPath,
        *,
        force: bool = False,
        name: Callable[[Path], Path] = temporary_name,
        mode: int = 0o777,
    ) -> None:
        self.path = Path(path)
        self._url = remote_url(path)
        self.temporary: Path | None = None
        self.offset = 0
        self._force, self._name, self._mode = force, name, mode
        self._fd = -1
        self._buffer = bytearray()
        check_output(path, force)

    def _open(self) -> None:
        place = self.path if self._url is None else _waiting_room() / self.path.name
        mode = 0o666 & self._mode
        with contextlib.suppress(OSError):
            status = place.lstat()
            if stat.S_ISREG(status.st_mode):
                mode = stat.S_IMODE(status.st_mode) & self._mode | 0o600
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self.temporary, self._fd = claim(place, lambda t: os.open(t, flags, mode), self._name)

    def _put(self, data: Any) -> None:
        """All of it, unbuffered."""
        if self._fd < 0:
            self._open()
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]

    def write(self, data: Any) -> int:
        """Appends bytes (any buffer); returns how many, as files do."""
        view = memoryview(data).cast("B")
        try:
            if self._fd < 0:
                self._open()
            if len(self._buffer) + len(view) > BUFFER:
                self._empty()
            if len(view) > BUFFER:
                self._put(view)
            else:
                self._buffer += view
        except OSError as e:
            raise _failed(e, self.path) from None
        self.offset += len(view)
        return len(view)

    def _empty(self) -> None:
        buffer, self._buffer = self._buffer, bytearray()
        self._put(buffer)

    def tell(self) -> int:
        """Bytes written."""
        return self.offset

    def flush(self) -> None:
        """What is written so far stands in the temporary file."""
        try:
            self._empty()
        except OSError as e:
            raise _failed(e, self.path) from None

    def commit(self, path: Path | None = None) -> None:
        """Syncs, and gives the file its name (or ``path``, in the same folder)."""
        if path is not None:
            self.path, self._url = path, remote_url(path)
        try:
            self._empty()
            assert self.temporary is not None
            if self._url is not None:
                upload(self.temporary, self._url, force=self._force)
                self.discard()
                return
            with contextlib.suppress(FileNotFoundError):
                status = self.path.lstat()
                if stat.S_ISREG(status.st_mode):
                    os.fchmod(self._fd, stat.S_IMODE(status.st_mode) & self._mode)
            os.fsync(self._fd)
            self._publish(self.temporary)
        except OSError as e:
            raise _failed(e, self.path) from None
        self.temporary = None
        os.close(self._fd)
        self._fd = -1
        _sync_folder(self.path)

    def _publish(self, temporary: Path) -> None:
        check_output(self.path, self._force)
        if self._force:
            temporary.replace(self.path)
            return
        try:  # a rename would replace what somebody else has put there meanwhile
            os.link(temporary, self.path, follow_symlinks=False)
        except FileExistsError:
            raise _exists(self.path) from None
        except OSError as e:
            if e.errno not in _NO_LINKS:
                raise
            temporary.rename(self.path)
        else:
            with contextlib.suppress(OSError):
                temporary.unlink()

    def keep(self, size: int) -> Path | None:
        """Leaves the first ``size`` bytes under the temporary name, which is returned."""
        kept, self.temporary = self.temporary, None
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, size)
        self.discard()
        return kept

    def discard(self) -> None:
        """Removes the temporary file; nothing after ``commit``."""
        if self.temporary is not None:
            with contextlib.suppress(OSError):
                self.temporary.unlink()
            self.temporary = None
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> OutputFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()


def _sync_folder(path: Path) -> None:
    """Makes the name ``path`` last."""
    try:
        fd = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as e:
        if e.errno not in _NO_SYNC:
            raise TracekitError(
                f"is written, but would not outlast a power failure: {e.strerror}", path=str(path)
            ) from None


@contextlib.contextmanager
def replacing(path: StrPath, *, force: bool = False, mode: int = 0o777) -> Iterator[OutputFile]:
    """An OutputFile that is committed where the block ends well and discarded where it does not."""
    with OutputFile(path, force=force, mode=mode) as out:
        yield out
        out.commit()


def write_bytes(path: StrPath, data: Any, *, force: bool = False, mode: int = 0o777) -> None:
    """A whole file at once; ``mode`` 0o600 is this user's alone."""
    with replacing(path, force=force, mode=mode) as out:
        out.write(data)


def write_json(path: StrPath, value: Any, *, force: bool = False) -> None:
    """One JSON text, indented by one, with a newline behind it."""
    write_bytes(path, (json.dumps(value, indent=1) + "\n").encode("utf-8"), force=force)


def append_line(path: Path, line: str) -> None:
    """A line more in a log, in one write: a kill leaves the lines before it whole, and of one that
    does not fit on the disk nothing stays."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    data = (line + "\n").encode("utf-8")
    try:
        fd = os.open(path, flags, 0o666)
        try:
            before, written = os.fstat(fd).st_size, 0
            try:
                while written < len(data):
                    written += os.write(fd, data[written:])
            except OSError:
                if os.fstat(fd).st_size == before + written:  # nobody else's line stands behind it
                    with contextlib.suppress(OSError):
                        os.ftruncate(fd, before)
                raise
        finally:
            os.close(fd)
    except OSError as e:
        raise TracekitError(f"cannot write: {e.strerror}", path=str(path)) from None


class Folder:
    """A folder that is filled under a temporary name (``temporary``); ``commit`` syncs its files
    and gives it its own, ``discard`` removes it, as does leaving the ``with`` block.

    ``force``: a folder of that name is exchanged for it in one step and then removed.  ``mode``:
    its permissions, of which the umask takes away.
    """

    def __init__(self, path: StrPath, *, force: bool = False, mode: int = 0o777) -> None:
        self.path = Path(path)
        if remote_url(path) is not None:
            raise TracekitError(
                "a folder as a whole is written on this computer only", path=public_name(path)
            )
        self._force, self._lock = force, -1
        if os.path.lexists(self.path) and not force:
            raise _exists(self.path)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

        def make(temporary: Path) -> int:
            temporary.mkdir(mode)
            return os.open(temporary, flags)

        try:
            self.temporary, self._lock = claim(self.path, make, temporary_name)
        except OSError as e:
            raise _failed(e, self.path) from None

    def add(self, name: Path, data: bytes) -> None:
        """Write a file into the folder, below as many folders of its own as ``name`` says."""
        target = self.temporary / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise _failed(e, self.path / name) from None
        write_bytes(target, data)

    def commit(self) -> None:
        """Give the folder its name, in one step, and sync it."""
        try:
            os.fsync(self._lock)
        except OSError as e:
            if e.errno not in _NO_SYNC:
                raise _failed(e, self.path) from None
        try:
            if not os.path.lexists(self.path):
                self.temporary.rename(self.path)
            elif not self._force:
                raise _exists(self.path)
            elif not _exchange(self.temporary, self.path):
                self._replace_in_two()
        except OSError as e:
            raise _failed(e, self.path) from None
        _sync_folder(self.path)

    def _replace_in_two(self) -> None:
        """Where the system cannot exchange: between the two steps there is neither."""
        old = temporary_name(self.path)
        self.path.rename(old)
        self.temporary.rename(self.path)
        old.rename(self.temporary)

    def discard(self) -> None:
        """Removes what stands under the temporary name: this folder, or the one it replaced."""
        if self._lock >= 0:
            if self.temporary.is_dir() and not self.temporary.is_symlink():
                shutil.rmtree(self.temporary, ignore_errors=True)
            else:
                with contextlib.suppress(OSError):
                    self.temporary.unlink()
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, _: object, error: BaseException | None, *__: object) -> None:
        self.discard()
        raise_under_name(error, self.temporary, self.path)


def _exchange(a: Path, b: Path) -> bool:
    """Swaps two names in one step; False where the system cannot."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if rename(_HERE, os.fsencode(a), _HERE, os.fsencode(b), _EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL):
        return False
    raise OSError(number, os.strerror(number), str(b))


@contextlib.contextmanager
def scratch(parents: Sequence[StrPath] = (), room: int = 0) -> Iterator[Path]:
    """A folder of this user alone for intermediate files, gone at the end; a killed run's goes with
    the next one's.  It is made in the first of ``parents`` that may be written and has ``room``
    bytes free, else where temporary files go."""
    import tempfile

    for parent in map(Path, parents):
        collect(parent)  # before its room is measured
        if os.access(parent, os.W_OK) and shutil.disk_usage(parent).free >= room:
            break
    else:
        parent = Path(tempfile.gettempdir())
    with Folder(parent / "scratch", mode=0o700) as folder:
        yield folder.temporary


def linked_folder(path: Path, files: Iterable[StrPath]) -> Path:
    """A new folder ``path``, within a `scratch` one, with links to ``files`` by their names."""
    path.mkdir()
    for file in map(Path, files):
        if not (link := path / file.name).is_symlink():
            link.symlink_to(file.resolve())
    return path


@contextlib.contextmanager
def kept_folder(path: StrPath) -> Iterator[Path]:
    """The folder ``path``, made with those above it where missing; what was made here and is still
    empty at the end is removed."""
    if remote_url(path) is not None:  # stores have no folders
        yield Path(path)
        return
    path = Path(path)
    collect(path)
    made: list[Path] = []
    try:
        for folder in reversed([path, *path.parents]):
            if not folder.exists():
                try:
                    folder.mkdir(exist_ok=True)
                except OSError as e:
                    raise TracekitError(f"cannot make it: {e.strerror}", path=str(folder)) from None
                made.append(folder)
        if not path.is_dir():
            raise TracekitError("is no folder", path=str(path))
        yield path
    finally:
        for folder in reversed(made):
            with contextlib.suppress(OSError):
                folder.rmdir()


def cache_folder(path: StrPath | None) -> contextlib.AbstractContextManager[Path]:
    """The folder that somebody asked for, kept; or one that is gone at the end."""
    return scratch() if path is None else kept_folder(path)
