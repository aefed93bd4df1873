"""One run under QEMU: starts it, listens to the plug-ins of its processes, hands out rows."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import struct
import subprocess
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tracekit._core import EncodingTable, NativeBatch, QemuCode, QemuStream
from tracekit.errors import FormatError, RecordError, TracekitError, UsageError
from tracekit.io.files import open_file
from tracekit.io.output import scratch, write_bytes
from tracekit.record.procfs import alive, file_name, real_path, without_aslr
from tracekit.record.qemu.launch import (
    PLUGIN,
    QemuProgram,
    find_program,
    why_killed,
    why_untraced,
)
from tracekit.record.qemu.options import QemuOptions
from tracekit.record.qemu.traits import TOUCHES, describer
from tracekit.symbols import Mapped, build_id

_FRAME: Final = struct.Struct("<IIIIQQ")  # csrc/record/qemu/wire.h
_MAGIC: Final = 0x51544B54
_HELLO, _MAP, _NOTE = 1, 4, 5
_PIECE: Final = 1 << 20
_ENDED_KEPT: Final = 16  # processes whose blocks a child that they forked may still ask for
_GRACE: Final = 2.0
_PEER: Final = struct.Struct("iII")  # struct ucred


class Piece(NamedTuple):
    """Instructions of one thread that follow each other.  ``ns`` since the start of the run;
    ``silent``: accesses that QEMU does not show."""

    pid: int
    tid: int
    ns: int
    silent: int
    rows: NativeBatch


@dataclass
class _Process:
    """A process from a start or fork to its end or the next execution of a program."""

    id: int
    pid: int
    stream: QemuStream
    connections: int = 0
    over: bool = False


@dataclass(eq=False)
class _Connection:
    socket: socket.socket
    process: _Process | None = None
    greeting: bytearray = field(default_factory=bytearray)
    waits_for: tuple[int, int] | None = None  # the process forked from, and how many blocks of it


class QemuSession:
    """A program under QEMU with the plug-in.  Use as a context manager, and `pieces` once.

    ``table`` has the machine code met so far; ``maps`` the executable memory of each process, the
    program's own file last, ``map_version`` counts their changes; ``ran`` has the process of each
    program that was executed, and of each fork; ``status`` is the program's, as waitpid gives it.
    """

    def __init__(
        self,
        argv: list[str],
        options: QemuOptions,
        tell: Callable[[str], None] = lambda message: None,
    ) -> None:
        self.options = options
        self.program: QemuProgram = find_program(argv, options)
        self.table = EncodingTable()
        self.maps: dict[int, list[Mapped]] = {}
        self.map_version = 0
        self.status: int | None = None
        self._tell = tell
        self.ran: list[int] = []
        self._programs: dict[int, str] = {}  # what each process executed last
        arch = self.program.arch
        self._code = QemuCode(self.table, describer(arch), *TOUCHES[arch])
        self._silent: dict[int, int] = {}
        self._anomalies: dict[str, int] = {}
        self._executed: dict[int, int] = {}
        self._uncounted = False
        self._known: OrderedDict[int, _Process] = OrderedDict()
        self._connections: list[_Connection] = []
        self._build_ids: dict[str, str | None] = {}
        self._child: subprocess.Popen[bytes] | None = None
        self._asked = 0  # the signal that is to end the run
        self._signalled = self._killed = 0.0  # when that came to the processes
        self._ends = contextlib.ExitStack()
        # In memory where there is room: buffers lie there.
        self._folder = self._ends.enter_context(scratch(["/dev/shm"], 1 << 28))
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._buffer = bytearray(_PIECE)
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    # --- the start

    def _prepare(self) -> None:
        self._listener.bind(str(self._folder / "socket"))
        self._listener.listen(512)
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        write_bytes(self._folder / "recorder", b"%d" % os.getpid())
        again = self.program.command(self._plugin_options(first=False))
        text = b"".join(os.fsencode(word) + b"\0" for word in again)
        write_bytes(self._folder / f"launch.{self.program.machine}", text)

    def _plugin_options(self, first: bool) -> str:
        o = self.options
        out = [f"dir={self._folder}"]
        if o.follow_exec:
            out.append("follow=on")
        if o.discard:
            out.append("discard=on")
        if o.marks:
            out.append("marks=on")
        if o.skip:
            out.append(f"skip={o.skip}")
        if o.insts is not None:
            out.append(f"insts={o.insts}")
        if o.every is not None:
            out.append(f"every={o.every}")
            if o.touched:
                out.append("lines=1")
        if first and (o.start is not None or o.stop is not None):
            found = {k: self._address(v) for k, v in (("start", o.start), ("stop", o.stop)) if v}
            pcs = {name: pc for name, (pc, _) in found.items()}
            named = any(is_name for _, is_name in found.values())
            if named and not all(is_name for _, is_name in found.values()):
                raise UsageError("--start and --stop are both pcs, or both functions")
            out += [f"{name}={pc:#x}" for name, pc in pcs.items()]
            if named:
                out.append(f"code={self.program.code:#x}")
        return ",".join(out)

    def _address(self, where: str) -> tuple[int, bool]:
        """A pc, or the file's own address of a function; whether it is the latter."""
        number = _number(where)
        if number is not None:
            return number, False
        from tracekit.isa.elf import ElfImage

        with ElfImage(self.program.program) as image:
            for symbol in image.symbols():
                if symbol.name == where:
                    return symbol.address, True
        raise TracekitError(f"no function {where!r}", path=self.program.program)

    def start(self) -> None:
        """Starts the program, with our standard streams unless the options have others."""
        command = self.program.command(self._plugin_options(first=True))
        name = self.program.argv[0]
        o = self.options
        sink = 2 if o.output_to_error else subprocess.DEVNULL if o.drop_output else None
        try:
            with contextlib.ExitStack() as ends:
                source = ends.enter_context(open_file(o.input)) if o.input is not None else None
                if not o.aslr:
                    ends.enter_context(without_aslr())
                self._child = subprocess.Popen(
                    [*command, "-0", name, self.program.program, *self.program.argv[1:]],
                    env=self.program.environment,
                    stdin=source,
                    stdout=sink,
                )
        except OSError as e:
            raise RecordError(f"QEMU cannot be started: {e.strerror}") from None
        self._programs[self.pid] = os.path.realpath(self.program.program)
        self._began = time.monotonic_ns()

    @property
    def processes(self) -> int:
        """How many there were; one that executes another program stays one."""
        return len(set(self.ran))

    @property
    def pid(self) -> int:
        """The process of the first program; 0 before it is started."""
        return self._child.pid if self._child is not None else 0

    # --- the run

    def pieces(self) -> Iterator[Piece]:
        """Rows as they come, until every process that was started has ended."""
        if self._child is None:
            self.start()
        child = self._child
        assert child is not None
        told = ended = 0.0
        while not self._ending_is_over():
            busy = False
            for key, _ in self._selector.select(0.05 if self.status is None else 0.01):
                if key.fileobj is self._listener:
                    self._accept()
                else:
                    yield from self._read(key.data)
                busy = True
            yield from self._wake()
            yield from self._ended()
            if self.status is None and child.poll() is not None:
                self.status = _status(child.returncode)
                ended = time.monotonic()
            if self.status is None or busy:
                continue
            if not self._connections:
                break
            if not told and time.monotonic() - ended > _GRACE:
                told = time.monotonic()
                self._tell(
                    f"waiting for {len(self._connections)} processes that the program left running "
                    "(Ctrl-C ends the recording and them)"
                )
        for process in list(self._known.values()):
            yield from self._finish(process)

    def end(self, number: int) -> None:
        """Ends the run: gives its processes the signal ``number``, and kills those that are still
        there after two seconds.  `pieces` goes on with what they have left."""
        self._asked = number

    def _ending_is_over(self) -> bool:
        """Does what `end` asked for; true when nothing more is to be waited for."""
        if not self._asked:
            return False
        now = time.monotonic()
        if not self._signalled:
            self._signalled = now
            self._signal(self._asked)
        elif now - self._signalled > _GRACE and not self._killed:
            self._killed = now
            self._signal(signal.SIGKILL)
        return self._killed > 0 and now - self._killed > _GRACE

    def _signal(self, number: int) -> None:
        """To the program and all processes with a connection, by the kernel's word for these."""
        if self._child is not None:
            self._child.send_signal(number)
        for c in self._connections:
            pid = _PEER.unpack(c.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
            if pid not in (0, self.pid):
                with contextlib.suppress(OSError):
                    os.kill(pid, number)

    def _accept(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                one, _ = self._listener.accept()
                one.setblocking(True)
                connection = _Connection(one)
                self._connections.append(connection)
                self._selector.register(one, selectors.EVENT_READ, connection)

    def _read(self, c: _Connection) -> Iterator[Piece]:
        try:
            n = c.socket.recv_into(self._buffer)
        except OSError:
            n = 0
        if n == 0:
            self._close(c)
            return
        data = memoryview(self._buffer)[:n]
        if c.process is None:
            c.greeting += data
            yield from self._greet(c)
            return
        yield from self._feed(c.process, data)

    def _greet(self, c: _Connection) -> Iterator[Piece]:
        """The first frame, and then what came with it."""
        if len(c.greeting) < _FRAME.size:
            return
        magic, kind, _, _, _, size = _FRAME.unpack_from(c.greeting)
        if magic != _MAGIC or kind != _HELLO or size > 4096:
            raise FormatError("the plug-in did not greet")
        if len(c.greeting) < _FRAME.size + size:
            return
        text = bytes(c.greeting[_FRAME.size : _FRAME.size + size]).decode(errors="replace")
        told = dict(part.partition("=")[::2] for part in text.split("\0") if part)
        try:
            number, pid, parent = int(told["id"]), int(told["pid"]), int(told["parent"])
            inherits = int(told["inherits"])
        except (KeyError, ValueError):
            raise FormatError("the plug-in's greeting is not whole") from None
        del c.greeting[: _FRAME.size + size]
        process = self._known.get(number)
        if process is None:
            for other in list(self._known.values()):  # it has executed another program
                if other.pid == pid and not other.over:
                    yield from self._finish(other)
            process = _Process(number, pid, QemuStream(self._code, self.options.epoch))
            self._known[number] = process
            self.ran.append(pid)
            if inherits and parent != number:
                c.waits_for = (parent, inherits)
        process.connections += 1
        c.process = process
        if c.waits_for is not None:
            self._selector.unregister(c.socket)
            return
        yield from self._feed(process, c.greeting)
        c.greeting.clear()

    def _wake(self) -> Iterator[Piece]:
        """Forked processes whose parent's blocks have all come."""
        for c in self._connections:
            if c.waits_for is None or c.process is None:
                continue
            parent = self._known.get(c.waits_for[0])
            if parent is None:
                raise RecordError("a forked process came after its parent was forgotten")
            if parent.stream.blocks < c.waits_for[1]:
                continue
            c.process.stream.inherit(parent.stream, c.waits_for[1])
            self.maps.setdefault(c.process.pid, list(self.maps.get(parent.pid, ())))
            self._programs.setdefault(c.process.pid, self._programs.get(parent.pid, ""))
            self.map_version += 1
            c.waits_for = None
            self._selector.register(c.socket, selectors.EVENT_READ, c)
            yield from self._feed(c.process, c.greeting)
            c.greeting.clear()

    def _feed(self, process: _Process, data: memoryview | bytearray) -> Iterator[Piece]:
        process.stream.feed(data)
        for kind, content in process.stream.take_texts():
            if kind == _MAP:
                self._map(process.pid, content)
            elif kind == _NOTE:
                self._note(process.pid, content.decode(errors="surrogateescape"))
        yield from self._taken(process)

    def _taken(self, process: _Process) -> Iterator[Piece]:
        for tid, ns, silent, rows in process.stream.take():
            yield Piece(process.pid, tid, max(0, ns - self._began), silent, rows)

    def _note(self, pid: int, text: str) -> None:
        kind, _, path = text.partition(" ")
        if kind == "untraced":
            machine, _, path = path.partition(" ")
            why = why_untraced(machine, self.program.arch)
            self._tell(f"{path} runs without being recorded: {why}")
        elif kind == "executes":
            self._programs[pid] = real_path(pid, path)
            self._tell(f"executes {path}")

    def _map(self, pid: int, content: bytes) -> None:
        begin, end, offset = struct.unpack_from("<QQQ", content)
        path = file_name(content[24:].decode(errors="surrogateescape"))
        if path not in self._build_ids:
            self._build_ids[path] = build_id(path) if path else None
        new = Mapped(begin, end, offset, path, self._build_ids[path])
        # Another file's stays, hidden: what ran before another program was executed, say.
        kept = [
            m
            for m in self.maps.get(pid, [])
            if m.end <= begin or m.begin >= end or m.path not in ("", path)
        ]
        # The program's own file comes last: whoever reads the list knows it by that.  Nothing that
        # the program loads lies where it does, so this hides nothing.
        program = self._programs.get(pid)
        self.maps[pid] = sorted([*kept, new], key=lambda m: m.path == program)
        self.map_version += 1

    # --- ends

    def _close(self, c: _Connection) -> None:
        self._selector.unregister(c.socket)
        c.socket.close()
        self._connections.remove(c)
        if c.process is not None:
            c.process.connections -= 1

    def _ended(self) -> Iterator[Piece]:
        """Processes without a connection that are gone: what they left in their buffers."""
        for process in list(self._known.values()):
            if process.connections == 0 and not process.over and not alive(process.pid):
                yield from self._finish(process)
        done = [p for p in self._known.values() if p.over]
        for process in done[:-_ENDED_KEPT]:
            del self._known[process.id]

    def _finish(self, process: _Process) -> Iterator[Piece]:
        if process.over:
            return
        process.over = True
        for file in sorted(self._folder.glob(f"{process.id:x}.*.events")):
            with contextlib.suppress(OSError, FormatError):
                process.stream.leftover(file.read_bytes())
            file.unlink(missing_ok=True)
        process.stream.finish()
        yield from self._taken(process)
        counts = process.stream.executed()
        self._uncounted |= not counts
        for encoding, n in counts.items():
            self._executed[encoding] = self._executed.get(encoding, 0) + n
        for encoding, n in process.stream.silent().items():
            if n == 0:
                continue
            self._silent[encoding] = self._silent.get(encoding, 0) + n
        for kind, a in process.stream.anomalies.items():
            self._anomalies[kind] = self._anomalies.get(kind, 0) + a["count"]

    def silent(self) -> dict[str, int]:
        """Runs of instructions whose accesses QEMU does not show, by mnemonic."""
        from tracekit.isa import decode_many

        out: dict[str, int] = {}
        for encoding, n in self._silent.items():
            _, length, _, raw = self.table[encoding]
            text = decode_many(self.program.arch, [raw[:length]])[0].text  # type: ignore[arg-type]
            name = text.partition(",")[0] if text.startswith("dc ") else text.split()[0]
            out[name] = out.get(name, 0) + n
        return out

    def executed(self) -> dict[int, int]:
        """How often each entry of ``table`` ran in the whole run, with ``every``; else empty.

        A process that was killed, or left at its region's end, is not in it.
        """
        return dict(self._executed)

    @property
    def counted(self) -> bool:
        """Whether `executed` has all of the run: a process sends its counts when it ends by itself,
        or executes another program."""
        killed = self.status is None or os.WIFSIGNALED(self.status)
        return self.options.every is not None and not (self._uncounted or self._asked or killed)

    def anomalies(self) -> dict[str, int]:
        """Kind of anomaly -> how often it occurred."""
        return dict(self._anomalies)

    def explain(self) -> str | None:
        """What a death by a signal may mean."""
        return None if self.status is None else why_killed(self.status, self.program.arch)

    def close(self) -> None:
        """Ends what still runs, and removes the session's folder."""
        for c in list(self._connections):
            c.socket.close()
        self._connections.clear()
        self._listener.close()
        self._selector.close()
        if self._child is not None and self._child.poll() is None:
            self._child.terminate()
            try:
                self._child.wait(_GRACE)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()
        self._ends.close()

    def __enter__(self) -> QemuSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _number(where: str | None) -> int | None:
    try:
        return int(where or "", 0)
    except ValueError:
        return None


def _status(code: int) -> int:
    """What waitpid gives, of what Popen makes of it."""
    return -code if code < 0 else code << 8


__all__ = ["PLUGIN", "Piece", "QemuSession"]
