"""Workers on real processes: what they take, as whom, what is left, and what they cost others."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

pytest.importorskip("psutil", reason="needs the extra agent")
pytest.importorskip("cryptography", reason="needs the extra agent")

from tests.test_record import _why_not
from tracekit.agent.epoch import memory_folder
from tracekit.agent.host import Computer, Sampled
from tracekit.agent.log import Log
from tracekit.agent.policy import Policy
from tracekit.agent.service import NOTHING, Agent
from tracekit.agent.state import State
from tracekit.agent.vault import Vault

pytestmark = pytest.mark.skipif(_why_not() is not None, reason=_why_not() or "")

DESIGNS = ("ns_8w", "ns_lsq")
ROOT = os.geteuid() == 0
#: An interpreter that everybody may run; as root the programs are nobody's.
PYTHON = "/usr/bin/python3" if ROOT else sys.executable
USER = "nobody" if ROOT else ""
BUSY = "print('ready', flush=True)\nx = 0\nwhile True:\n x = (x * 5 + 1) % 1000003\n"
HIDDEN = f"import ctypes\nctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\n{BUSY}"


@contextlib.contextmanager
def running(code: str):
    if not Path(PYTHON).exists():
        pytest.skip(f"needs {PYTHON}")
    entry = pwd.getpwnam(USER) if USER else None
    who = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []} if entry else {}
    with subprocess.Popen(
        [PYTHON, "-c", code, "--secret-argument"],
        stdout=subprocess.PIPE,
        cwd="/",
        env={"PYTHONHASHSEED": "0"},
        **who,
    ) as p:
        try:
            assert p.stdout is not None and p.stdout.readline() == b"ready\n"
            yield p.pid
        finally:
            p.kill()


@pytest.fixture
def computer(tmp_path):
    policy = Policy(
        state=str(tmp_path / "s"), user=USER, designs=DESIGNS, epoch=5000, idle=False,
        scan_seconds=0.5, cpu=0.5, loss=1.0,
    )  # fmt: skip
    return Computer(policy, bytes(32), lowest_priority=False), policy


@pytest.fixture
def memory(monkeypatch):
    """A folder in memory for these workers alone."""
    with tempfile.TemporaryDirectory(dir=memory_folder()) as folder:
        if USER:
            shutil.chown(folder, USER)
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield Path(folder)


def test_an_epoch_of_a_process(computer, memory):
    host, _ = computer
    seen: list[bool] = []
    found: list[Sampled] = []

    def wanted(s: Sampled) -> list[str]:
        found.append(s)
        seen.append(any(memory.iterdir()))
        return list(DESIGNS)

    signatures = []
    for _ in range(2):
        with running(BUSY) as pid:
            done = host.sample(lambda pid=pid: pid, list(DESIGNS), wanted, lambda: None)
            user = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            assert user in "RS"
        assert done.why == "" and found[-1].instructions == 5000, (done.why, done.message)
        assert [p.design for p in done.predictions] == list(DESIGNS)
        for p in done.predictions:
            assert 500 < p.cycles < 500_000 and 0 < p.half < p.cycles and p.distance is not None
        assert 0 < done.lost < 0.5 and 0 < done.epoch < 10 and 0 < done.prediction < 2
        signatures.append(found[-1])
    a, b = (s.sketch for s in signatures)
    assert len(a) == 256 and sum(a) > 0
    # the same code at other addresses: the sketches are alike
    pairs = zip(*(memoryview(s).cast("H") for s in (a, b)), strict=True)
    assert sum(abs(x - y) for x, y in pairs) / 131_070 < 0.1
    sealed = found[-1].trace
    assert b"secret-argument" not in Vault(bytes(32)).open(sealed, found[-1].name)
    again = host.predict(found[-1].name, sealed, list(DESIGNS))
    assert [p.cycles for p in again.predictions] == [p.cycles for p in done.predictions]
    assert host.predict("other.trace", sealed, list(DESIGNS)).why == "FormatError"
    assert host.predict(found[-1].name, sealed, ["none"]).why == "UsageError"
    assert all(seen) and not any(memory.iterdir())


def test_what_is_not_dumpable_is_refused(computer):
    host, _policy = computer
    with running(HIDDEN) as pid:
        for _ in range(2):
            look = host.look()
            assert pid not in look.processes
        assert look.refused.get(os.path.realpath(PYTHON)) == "not dumpable"
        done = host.sample(lambda: pid, list(DESIGNS), lambda _: [], lambda: None)
        assert done.why == "RecordError" and "may not be traced" in done.message
    with running(BUSY) as pid:
        assert pid in host.look().processes
    gone = host.sample(lambda: pid, list(DESIGNS), lambda _: [], lambda: None)
    assert gone.why == "gone" and str(pid) in gone.message and not gone.predictions
    assert host.sample(lambda: None, list(DESIGNS), lambda _: [], lambda: None).why == NOTHING


@pytest.mark.skipif(not ROOT, reason="needs root")
def test_root_is_given_up():
    code = (
        "from tracekit.agent.worker import give_up_root; import os;"
        "give_up_root(65534, 65534); print(os.getresuid(), os.getresgid(), os.getgroups());"
        "print(open('/proc/self/status').read().split('CapEff:')[1].split()[0])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.splitlines() == [f"{(65534,) * 3} {(65534,) * 3} []", "0" * 16]


#: Prints what a worker reads of Python's and tracekit's own files after it has given up root.
LATE = """
import os, sys
import tracekit.agent.worker as worker
given_up, late = [], []
folders = (*sys.path, worker.__file__.partition("/agent/")[0], sys.prefix)
own = tuple({os.path.realpath(p) for p in folders if p})
def seen(event, args):
    if not given_up:
        return
    if event == "import":
        late.append(args[0])
    elif event == "open" and isinstance(args[0], str):
        if os.path.realpath(args[0]).startswith(own):
            late.append(args[0])
worker.give_up_root = lambda *user: given_up.append(user)
sys.addaudithook(seen)
worker.main()
print("\\n".join(p for p in late if p in sys.modules or "/" in p), file=sys.stderr)
"""


def test_nothing_of_our_own_is_read_after_root_is_given_up():
    """The environment may lie where only root can read."""

    def answers(request: dict[str, object], words: str = "") -> dict[str, dict[str, object]]:
        request = {
            **request,
            "key": base64.b64encode(bytes(32)).decode(),
            "user": [os.getuid(), os.getgid()],
        }
        done = subprocess.run(
            [sys.executable, "-c", LATE], input=f"{json.dumps(request)}\n{words}\n",
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stderr.strip() == ""
        found = (json.loads(line) for line in done.stdout.splitlines())
        return {answer["event"]: answer for answer in found}

    common = {"designs": DESIGNS, "model": ["shipped", "", 30]}
    with running(BUSY) as pid:
        sample = {"op": "sample", "epoch": 5000, "copy_seconds": 20.0}
        found = answers({**common, **sample, "lowest_priority": False}, f"{pid}\npredict")
    again = answers(
        {**common, "op": "predict", **{k: found["sampled"][k] for k in ("name", "trace")}}
    )
    assert found["predicted"]["predictions"] == again["predicted"]["predictions"]


def test_the_whole_agent_on_a_real_process(computer, tmp_path):
    host, policy = computer
    log = tmp_path / "log"
    with running(BUSY), State(policy.folder) as state, log.open("w") as to:
        agent = Agent(policy, state, host, Log(to), None, seed=1)
        agent.cpu.cost = 0.5
        agent._due = 0.0
        until = time.monotonic() + 200
        while time.monotonic() < until:
            agent.step()
            if state.db.execute("SELECT count(*) FROM predictions").fetchone()[0]:
                break
            host.sleep(0.5)
        rows = state.db.execute("SELECT executable, covered, lost, alive FROM programs").fetchall()
        assert [r[0] for r in rows if r[1] > 0] == [os.path.realpath(PYTHON)], log.read_text()
        covered, lost, alive = next(r[1:] for r in rows if r[1] > 0)
        assert covered > 0 and 0 < lost < alive
        weight = state.db.execute("SELECT sum(weight) FROM signatures").fetchone()[0]
        assert weight == pytest.approx(covered)
    events = [json.loads(line)["event"] for line in log.read_text().splitlines()]
    assert "sampled" in events and "secret" not in log.read_text()
    assert not list(policy.folder.glob("*.trace"))


def cpu_of(pid: int) -> float:
    """Seconds on a processor, of all threads."""
    total = 0.0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            total += int((task / "schedstat").read_text().split()[0]) / 1e9
    return total


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="needs schedstat")
@pytest.mark.skipif(os.getpriority(os.PRIO_PROCESS, 0) > 0, reason="needs normal priority")
def test_predictions_give_way_at_once(tmp_path):
    """A spinner of normal priority on the same core: predictions take at most 5 % of each 100 ms,
    from its start."""
    code = (
        "import os, sys; from tracekit.agent.worker import lowest_priority; lowest_priority()\n"
        "import numpy as np, tracekit\n"
        "from tracekit.sim import totals\n"
        "model = tracekit.load_model(None, 'x86').only(['ns_8w', 'ns_lsq'])\n"
        "trace = tracekit.open(sys.argv[1])\n"
        "print('ready', flush=True)\n"
        "while True: totals(trace, model.cores, None, 1)\n"
    )
    trace = Path(__file__).parent / "golden" / "feats-v1.zst"
    core = max(os.sched_getaffinity(0))
    before = os.sched_getaffinity(0)
    with subprocess.Popen(
        [sys.executable, "-c", code, str(trace)], stdout=subprocess.PIPE,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    ) as p:  # fmt: skip
        try:
            assert p.stdout is not None and p.stdout.readline() == b"ready\n"
            begin = cpu_of(p.pid)
            time.sleep(1.0)
            alone = cpu_of(p.pid) - begin  # 0 where other programs fill the core
            os.sched_setaffinity(0, {core})
            shares = []
            for _ in range(20):
                start, used = time.monotonic(), cpu_of(p.pid)
                while time.monotonic() < start + 0.1:
                    pass
                shares.append((cpu_of(p.pid) - used) / (time.monotonic() - start))
            assert os.sched_getscheduler(p.pid) == os.SCHED_IDLE
        finally:
            os.sched_setaffinity(0, before)
            p.kill()
    assert max(shares) <= 0.05, (alone, shares)


def test_needs_memory_to_work_in(monkeypatch):
    from tracekit.errors import TracekitError

    assert memory_folder().is_dir()
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(TracekitError, match="no folder in memory"):
        memory_folder()


def test_models_of_a_signed_repository(tmp_path):
    """Used by name; a withdrawn one, a changed one and a design that it lacks are refused."""
    pytest.importorskip("tuf", reason="needs the extra agent")
    from tests.test_repository import NAME, Place
    from tracekit.agent.epoch import Source, model_of
    from tracekit.errors import TracekitError, UsageError

    place = Place(tmp_path)
    place.publish()
    store = place.trusting()
    store.get(NAME)
    source = Source(f"repository:{NAME}", str(store.folder))
    found = model_of(source, DESIGNS)
    assert (found.model.names, found.name, found.version) == (DESIGNS, NAME, "1")
    with pytest.raises(UsageError, match="none is not in the model"):
        model_of(source, ["none"])
    file = next(store.folder.rglob("model.safetensors"))
    kept = file.read_bytes()
    file.write_bytes(kept[:-1] + bytes([kept[-1] ^ 1]))
    with pytest.raises(TracekitError, match="is not what was signed"):
        model_of(source, DESIGNS)
    file.write_bytes(kept)
    place.repository.withdraw(NAME, 1)
    place.repository.sign(list(place.keys.values()))
    place.repository.publish(place.keys)
    policy = Policy(state=str(tmp_path / "s9"), user=USER, model=source.name, store=source.store)
    done = Computer(policy, bytes(32)).update_models()
    assert done.why == "" and "withdrawn" in done.message, done
    with pytest.raises(TracekitError, match="withdrawn"):
        model_of(source, DESIGNS)
