"""A server between a client and another one that answers some requests badly: 503, never, or with
half of the body."""

from __future__ import annotations

import http.client
import threading
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_HOP = {"connection", "transfer-encoding", "content-length", "keep-alive", "date", "server"}


class FaultyServer:
    """``faults``: what happens to the next requests that ``matches`` names; ``seen``: those."""

    def __init__(self, port: int, matches) -> None:
        self.faults: deque[str] = deque()
        self.seen: list[tuple[str, str]] = []
        self._end = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_) -> None:
                pass

            def _answer(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(size)
                fault = ""
                if matches(self.command, self.path):
                    outer.seen.append((self.command, self.path))
                    fault = outer.faults.popleft() if outer.faults else ""
                if fault == "503":
                    text = b"<Error><Code>SlowDown</Code><Message>slow</Message></Error>"
                    self.send_response(503)
                    self.send_header("Content-Length", str(len(text)))
                    self.end_headers()
                    self.wfile.write(text)
                    return
                if fault == "hang":
                    outer._end.wait(30)
                    self.close_connection = True
                    return
                to = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
                to.request(self.command, self.path, body, dict(self.headers))
                found = to.getresponse()
                data = found.read()
                self.send_response(found.status)
                for name, value in found.getheaders():
                    if name.lower() not in _HOP:
                        self.send_header(name, value)
                length = found.headers.get("Content-Length", str(len(data)))
                self.send_header("Content-Length", length)
                self.end_headers()
                if fault == "cut":
                    self.wfile.write(data[: len(data) // 2])
                    self.close_connection = True
                    return
                self.wfile.write(data)
                to.close()

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _answer

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._end.set()
        self._server.shutdown()
        self._server.server_close()
