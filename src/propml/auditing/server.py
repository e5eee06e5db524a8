"""The review page by way of a server on this machine, which writes decisions down as they are made.

Whoever knows the address may decide: it holds a token, which is compared in constant time. Requests that name another
host are refused, so that no page elsewhere reaches the server through a name of its own (DNS rebinding).
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import tempfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any

from propml.atomic_files import write_whole
from propml.auditing.decisions import read_decisions

__all__ = ["DECISIONS", "ReviewServer"]

DECISIONS = "decisions.csv"
# Bytes of a list of decisions: 200 000 verdicts with long names and notes.
MOST_BYTES = 200_000_000
POLICY, META = "default-src 'none';", '<meta name="propml-server" content="1">'


class ReviewServer(ThreadingHTTPServer):
    """Serves the page in a folder, and keeps its decisions there.

    Parameters
    ----------
    folder : path
        With ``review.html``; ``decisions.csv`` is written beside it.
    host : str
        The IPv4 address to listen on; by default only this machine reaches it.
    port : int
        0: any that is free.
    token : str, optional
        By default a new one.

    Attributes
    ----------
    address : str
        Where the page is, with the token.
    """

    daemon_threads = True

    def __init__(self, folder: str | Path, host: str = "127.0.0.1", port: int = 0, token: str | None = None) -> None:
        self.folder = Path(folder)
        loopback = _is_loopback(host)
        page = self.folder / "review.html"
        if not page.is_file():
            raise FileNotFoundError(f"there is no review.html in {folder}; name the folder that `propml audit` wrote")
        # The page may speak to this server, and to nothing else; it learns of the server by a mark.
        text = page.read_text(encoding="utf-8").replace(POLICY, f"{POLICY} connect-src 'self';", 1)
        self.page = text.replace("<title>", f"{META}\n<title>", 1).encode()
        self.token = secrets.token_urlsafe(24) if token is None else token
        self.saving = Lock()
        super().__init__((host, port), _Handler)
        self.names = {host, "localhost"} if loopback else {host}
        self.address = f"http://{host}:{self.server_port}/{self.token}/"

    def save(self, content: bytes) -> None:
        """Put the decisions in their place, as a whole, if they are a list of decisions."""
        with self.saving, tempfile.NamedTemporaryFile(suffix=".csv") as trial:
            trial.write(content)
            trial.flush()
            read_decisions(trial.name)
            write_whole(self.folder / DECISIONS, content)


def _is_loopback(host: str) -> bool:
    try:
        address = ipaddress.IPv4Address(host)
    except ValueError:
        raise ValueError(f"--host is {host!r}; give an IPv4 address of this machine, such as 127.0.0.1") from None
    if address.is_unspecified:
        raise ValueError(f"--host {host} is every address of this machine; name the one to listen on")
    return address.is_loopback


class _Handler(BaseHTTPRequestHandler):
    server: ReviewServer
    protocol_version = "HTTP/1.1"
    timeout = 60  # seconds; whoever says nothing does not hold a thread for ever

    def do_GET(self) -> None:
        place = self._place()
        if place == "":
            self._answer(200, self.server.page, "text/html; charset=utf-8")
        elif place == "decisions":
            path = self.server.folder / DECISIONS
            self._answer(200, path.read_bytes() if path.exists() else b"", "text/csv; charset=utf-8")
        elif place is not None:
            self._answer(404)

    def do_PUT(self) -> None:
        if (place := self._place()) is None:
            return
        size = self.headers.get("Content-Length", "")
        if place != "decisions" or not size.isdecimal() or int(size) > MOST_BYTES:
            self.close_connection = True  # what follows was not read
            self._answer(404 if place != "decisions" else 411 if not size.isdecimal() else 413)
            return
        try:
            self.server.save(self.rfile.read(int(size)))
        except (ValueError, OSError) as error:
            self._answer(400 if isinstance(error, ValueError) else 507, str(error).encode())
        else:
            self._answer(204)

    def _place(self) -> str | None:
        """What is asked for, where the host and the token are right; otherwise the answer is given."""
        name, _, port = self.headers.get("Host", "").rpartition(":")
        token, _, place = self.path.removeprefix("/").partition("/")
        known = hmac.compare_digest(token.encode(), self.server.token.encode())
        if name not in self.server.names or port != str(self.server.server_port) or not known:
            self.close_connection = True
            self._answer(403)
            return None
        return place

    def _answer(self, code: int, body: bytes = b"", kind: str = "text/plain; charset=utf-8") -> None:
        self.send_response(code)
        headers = {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
            "Cross-Origin-Resource-Policy": "same-origin",
        }
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD" and code != 204:
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the address holds the token."""
