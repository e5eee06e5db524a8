"""The review page by way of a server on this machine, which writes decisions down as they are made.

Whoever knows the address may decide: it holds a token, which is compared in constant time. Requests that name another
host are refused, so that no page elsewhere reaches the server through a name of its own (DNS rebinding).
"""

import hmac
import ipaddress
import secrets
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from propml.atomic_files import write_whole
from propml.auditing.decisions import decisions_in

DECISIONS = "decisions.csv"
MOST_BYTES = 200_000_000  # of a list of decisions: 200 000 verdicts with long names and notes
POLICY, META = "default-src 'none';", '<meta name="propml-server" content="1">'


def page_in(folder: str | Path) -> Path:
    """The page that an audit wrote."""
    page = Path(folder, "review.html")
    if not page.is_file():
        raise FileNotFoundError(f"there is no review.html in {folder}; name the folder that `propml audit` wrote")
    return page


class ReviewServer(ThreadingHTTPServer):
    """Serves the page in a folder, and keeps its decisions there as ``decisions.csv``.

    It listens on ``host``, an IPv4 address, which by default only this machine reaches, and on ``port``, by default any
    that is free. ``address`` says where the page is, with the token.
    """

    daemon_threads = True

    def __init__(self, folder: str | Path, host: str = "127.0.0.1", port: int = 0) -> None:
        # The page may speak to this server, and to nothing else; it learns of the server by a mark.
        text = page_in(folder).read_text(encoding="utf-8").replace(POLICY, f"{POLICY} connect-src 'self';", 1)
        self.page = text.replace("<title>", f"{META}\n<title>", 1).encode()
        self.decisions = Path(folder, DECISIONS)
        self.token = secrets.token_urlsafe(24)
        try:
            unnamed = ipaddress.IPv4Address(host).is_unspecified
        except ValueError:
            unnamed = True
        if unnamed:
            raise ValueError(f"--host is {host!r}; give the IPv4 address to listen on, such as 127.0.0.1")
        super().__init__((host, port), _Handler)
        self.hosts = {f"{name}:{self.server_port}" for name in (host, "localhost")}
        self.address = f"http://{host}:{self.server_port}/{self.token}/"


class _Handler(BaseHTTPRequestHandler):
    server: ReviewServer
    protocol_version = "HTTP/1.1"
    timeout = 60  # seconds; whoever says nothing does not hold a thread for ever

    def do_GET(self) -> None:
        place = self._place()
        if place == "":
            self._answer(200, self.server.page, "text/html; charset=utf-8")
        elif place == "decisions":
            path = self.server.decisions
            self._answer(200, path.read_bytes() if path.exists() else b"", "text/csv; charset=utf-8")
        elif place is not None:
            self._answer(404)

    def do_PUT(self) -> None:
        if (place := self._place()) != "decisions":
            self.close_connection = True  # what follows was not read
            if place is not None:
                self._answer(404)
            return
        try:
            size = int(self.headers.get("Content-Length", 0))
            if not 0 <= size <= MOST_BYTES:
                raise ValueError(f"a list of decisions has at most {MOST_BYTES} bytes")
            content = self.rfile.read(size)
            decisions_in(content, DECISIONS)  # nothing else takes the place of what was saved
            write_whole(self.server.decisions, content)
        except (ValueError, OSError) as error:
            self.close_connection = True  # something may be unread
            self._answer(400 if isinstance(error, ValueError) else 507, str(error).encode())
        else:
            self._answer(204)

    def _place(self) -> str | None:
        """What is asked for, where the host and the token are right; otherwise the answer is given."""
        token, _, place = self.path.removeprefix("/").partition("/")
        known = hmac.compare_digest(token.encode(), self.server.token.encode())
        if self.headers.get("Host") not in self.server.hosts or not known:
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
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the address holds the token."""
