"""Facts about the server of a review: it saves as one decides, survives a kill, and answers nobody else."""

import http.client
import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest
from fake_report import fake_report
from review_pages import decided_in, entries, press, reviewed, until, without_time

from propml.auditing.decisions import Decision, read_decisions, write_decisions
from propml.auditing.review import write_review
from propml.auditing.server import ReviewServer


@pytest.fixture
def folder(tmp_path):
    write_review(fake_report(40), tmp_path / "review.html")
    return tmp_path


@contextmanager
def serving(folder):
    """A server in a process of its own, and its address."""
    command = [sys.executable, "-c", "from propml.cli import main; main()", "review", str(folder), "--serve"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"}
    ) as server:
        try:
            yield server, server.stdout.readline().removeprefix("open ").strip()
        finally:
            server.kill()


def ask(address, method="GET", place="", body=None, host=None, token=None):
    """(status, body) of one request."""
    name, port, own = re.fullmatch(r"http://(.*):(\d+)/(.*)/", address).groups()
    connection = http.client.HTTPConnection(name, int(port), timeout=20)
    headers = {} if host is None else {"Host": host}
    connection.request(method, f"/{own if token is None else token}/{place}", body, headers)
    answer = connection.getresponse()
    return answer.status, answer.read()


def listed(folder, n, name="list.csv"):
    made = [Decision(f"item-{i:05d}", "beach", bool(i % 2), note="x" * 100) for i in range(n)]
    return write_decisions(made, folder / name).read_bytes()


def test_what_was_saved_survives_a_kill(folder):
    with serving(folder) as (server, address):
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{32}/", address)
        lists = [listed(folder, n) for n in range(1, 41)]
        saved = []

        def decide():
            for content in lists * 50:
                try:
                    if ask(address, "PUT", "decisions", content)[0] == 204:
                        saved.append(content)
                except (OSError, http.client.HTTPException):
                    return

        deciding = threading.Thread(target=decide)
        deciding.start()
        while len(saved) < 15:
            assert deciding.is_alive()
        os.kill(server.pid, signal.SIGKILL)
        deciding.join()
        left = (folder / "decisions.csv").read_bytes()
        # The last that was acknowledged, or the one after it.
        assert left in (saved[-1], (lists * 50)[len(saved)])
    with serving(folder) as (_, address):
        assert ask(address, place="decisions") == (200, left)


def test_only_who_knows_the_token_and_names_this_host_is_answered(folder):
    with ReviewServer(folder) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        here, good = server.address, listed(folder, 3)
        port = server.server_port
        assert ask(here)[0] == 200
        assert ask(here, host=f"localhost:{port}")[0] == 200
        for wrong in (
            {"token": ""}, {"token": server.token[:-1]}, {"token": server.token + "x"},
            {"host": f"evil.example:{port}"}, {"host": "127.0.0.1"}, {"host": f"127.0.0.1:{port + 1}"}, {"host": ""},
        ):  # fmt: skip
            assert ask(here, **wrong) == (403, b"")
            assert ask(here, "PUT", "decisions", good, **wrong) == (403, b"")
        assert not (folder / "decisions.csv").exists()
        for place in ("../list.csv", "list.csv", "decisions.csv", "%2e%2e/", "decisions/"):
            assert ask(here, place=place)[0] == 404
        assert ask(here, "PUT", "other", good)[0] == 404
        assert ask(here, "DELETE", "decisions")[0] == 501
        with pytest.raises(ConnectionRefusedError):
            ask(here.replace("127.0.0.1", "127.0.0.2"))
        server.shutdown()


def test_what_is_no_list_of_decisions_is_not_saved(folder):
    with ReviewServer(folder) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        good = listed(folder, 3)
        assert ask(server.address, "PUT", "decisions", good)[0] == 204
        for bad in (b"", b"a,b\n1,2\n", good[:-104], b"\xff\xfe", b"item,label,verdict,decision\n1,a,drop,perhaps\n"):
            assert ask(server.address, "PUT", "decisions", bad)[0] == 400
            assert (folder / "decisions.csv").read_bytes() == good
        server.shutdown()


@pytest.mark.parametrize("host", ["0.0.0.0", "everywhere"])
def test_nothing_listens_on_addresses_that_nobody_named(folder, host):
    with pytest.raises(ValueError, match="give the IPv4 address to listen on"):
        ReviewServer(folder, host)


def test_a_folder_without_a_page(tmp_path):
    with pytest.raises(FileNotFoundError, match="name the folder that `propml audit` wrote"):
        ReviewServer(tmp_path)


def test_the_page_saves_as_one_decides_and_finds_it_again(chromium, folder):
    complaints = []
    with serving(folder) as (server, address):
        page = chromium.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(f"{address}#view=label")
        order = entries(page)
        press(page, "kdk")
        wanted = without_time(decided_in(order, "kdk"))
        until(page, "document.querySelector('#progress').textContent.startsWith('3 of')")
        for _ in range(200):
            if (folder / "decisions.csv").exists() and without_time(read_decisions(folder / "decisions.csv")) == wanted:
                break
            page.wait_for_timeout(50)
        assert without_time(read_decisions(folder / "decisions.csv")) == wanted
        page.reload()
        until(page, "document.querySelector('#progress').textContent.startsWith('3 of')")
        assert page.evaluate("localStorage.length") == 0
        server.kill()
        server.wait()
        press(page, "d")
        until(page, "!document.querySelector('#notice').hidden")
        assert "The server does not answer: download" in page.inner_text("#notice")
        assert reviewed(page) == 4  # the fourth: the page opens where one was
        page.close()
    assert complaints == []
