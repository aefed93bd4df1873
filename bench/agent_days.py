"""An agent on a simulated computer for days: does memory or disk grow?

    python bench/agent_days.py [--hours 48] [--speed 100] [--json]

The agent, its state and its reports are the real ones; the computer (tracekit.agent.simulated) has
a clock that runs ``--speed`` times as fast, and twelve programs.  The hub is a server in this
process that acknowledges; it is away for six hours of the second half.  Every simulated hour the
agent's own memory (a process of its own) and the bytes in its folder are read.
"""

from __future__ import annotations

import argparse
import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

DESIGNS = {"ns_4w_mem": (2.0, 0.9), "ns_8w": (2.0, 0.7), "ns_rob": (2.0, 0.72)}


def agent(folder: Path, hours: float, speed: float, url: str) -> None:
    """The process that is measured: a line of JSON an hour."""
    from tracekit.agent.log import Log
    from tracekit.agent.policy import Policy
    from tracekit.agent.reporting import Reporter
    from tracekit.agent.service import Agent
    from tracekit.agent.simulated import Program, SimulatedComputer
    from tracekit.agent.state import State
    from tracekit.fleet.client import Token

    programs = [
        Program(f"/usr/bin/program{k}", 0.02 * (k + 1), 4 + 3 * k, 3600.0 * (1 + k % 5))
        for k in range(12)
    ]
    begin = 1.8e9
    host = SimulatedComputer(programs, DESIGNS, seed=7, begin=begin, speed=speed)
    policy = Policy(state=str(folder), designs=tuple(DESIGNS), url=url, report_minutes=60.0)
    token = Token(f"tkh1.{'ab' * 16}.{'x' * 43}")
    with Path(os.devnull).open("w") as null, State(folder) as state:
        log = Log(null)
        service = Agent(
            policy, state, host, log, Reporter(policy, state, token, b"k" * 32, log), seed=7
        )
        for hour in range(round(hours)):
            while host.now() < begin + 3600 * (hour + 1):
                service.step()
                host.sleep(policy.scan_seconds)
            status = Path("/proc/self/status").read_text()
            resident = int(status.partition("VmRSS:")[2].split()[0]) * 1024
            use = os.times()
            row = {
                "hour": hour + 1, "resident": resident, "disk": state.used(),
                "real_cpu": use.user + use.system,
                "signatures": state.db.execute("SELECT count(*) FROM signatures").fetchone()[0],
                "queue": state.db.execute("SELECT count(*) FROM queue").fetchone()[0],
                "epochs": state.db.execute("SELECT sum(taken) FROM spent").fetchone()[0],
            }  # fmt: skip
            print(json.dumps(row), flush=True)


class Sink(http.server.BaseHTTPRequestHandler):
    """Acknowledges, unless it is away."""

    away = False
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        body = b'{"error": "away"}' if Sink.away else b'{"accepted": 1}'
        self.send_response(503 if Sink.away else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--hours", type=int, default=48)
    p.add_argument("--speed", type=float, default=100.0, help="0: as fast as it can")
    p.add_argument("--json", action="store_true")
    p.add_argument("--agent", nargs=2, help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.agent:
        agent(Path(args.agent[0]), args.hours, args.speed, args.agent[1])
        return 0
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Sink)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        begin = time.monotonic()
        url = f"http://127.0.0.1:{server.server_port}"
        command = [sys.executable, __file__, "--hours", str(args.hours), "--speed",
                   str(args.speed), "--agent", folder, url]  # fmt: skip
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                rows.append(json.loads(line))
                hour = rows[-1]["hour"]
                Sink.away = args.hours * 0.6 <= hour < args.hours * 0.6 + 6
        seconds = time.monotonic() - begin
    server.shutdown()
    early, late = rows[len(rows) // 4], rows[-1]
    out = {"hours": len(rows), "seconds": seconds, "rows": rows,
           "resident_growth": late["resident"] / early["resident"] - 1,
           "disk_growth": late["disk"] / early["disk"] - 1}  # fmt: skip
    if args.json:
        print(json.dumps(out, indent=1))
        return 0
    for r in rows[:: max(1, len(rows) // 12)]:
        print(
            f"hour {r['hour']:>3}: {r['resident'] / 1e6:6.1f} MB resident, {r['disk'] / 1e6:6.2f} "
            f"MB on disk, {r['epochs']:>5} epochs, {r['signatures']:>4} signatures, "
            f"{r['queue']} messages wait"
        )
    print(
        f"{len(rows)} hours in {seconds:.0f} s; from hour {early['hour']} on memory "
        f"{out['resident_growth']:+.1%}, disk {out['disk_growth']:+.1%}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
