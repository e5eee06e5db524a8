"""A cache of one's own for every test, and an HTTP server that misbehaves on demand."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test reads or writes the cache of the person who runs it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "propml"


@dataclass
class Served:
    """A file of the test server and how it is served.

    drop_after: bytes after which the connection is cut (the announced length stays that of the whole answer);
    ranges: whether Range is honoured; answers: status codes to give first; shift: start of the range is off by this;
    moved_to: the address that a redirect names.
    """

    content: bytes
    drop_after: int | None = None
    ranges: bool = True
    answers: list[int] = field(default_factory=list)
    shift: int = 0
    announce: bool = True
    moved_to: str = ""
    requests: list[str | None] = field(default_factory=list)


class Handler(BaseHTTPRequestHandler):
    files: dict[str, Served]

    def do_GET(self) -> None:
        served = self.files.get(self.path)
        if served is None:
            self.send_error(404)
            return
        wanted = self.headers.get("Range")
        served.requests.append(wanted)
        if served.answers:
            self.send_error(served.answers.pop(0))
            return
        if served.moved_to:
            self.send_response(302)
            self.send_header("Location", served.moved_to)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and served.ranges else 0
        if start and start >= len(served.content):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(served.content)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        body = served.content[start:]
        self.send_response(206 if start else 200)
        if start:
            first = start + served.shift
            self.send_header("Content-Range", f"bytes {first}-{len(served.content) - 1}/{len(served.content)}")
        if served.announce:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body if served.drop_after is None else body[: served.drop_after])
        self.close_connection = True

    def log_message(self, *_: object) -> None: ...


@dataclass
class Server:
    url: str
    files: dict[str, Served]

    def serve(self, path: str, content: bytes, **how: object) -> Served:
        self.files[path] = Served(content, **how)  # type: ignore[arg-type]
        return self.files[path]


@pytest.fixture
def server() -> Iterator[Server]:
    files: dict[str, Served] = {}
    handler = type("BoundHandler", (Handler,), {"files": files})
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield Server(f"http://127.0.0.1:{httpd.server_port}", files)
    httpd.shutdown()
    httpd.server_close()
    thread.join()
