"""The review page in a real browser, for the tests of it; skipped where there is no browser."""

import pytest
from fake_report import HOSTILE, fake_report, fake_texts, hostile_report

from propml.auditing.review import write_review

N_ITEMS = 60


@pytest.fixture(scope="session")
def report():
    return fake_report(N_ITEMS)


@pytest.fixture(scope="session")
def texts():
    return fake_texts(N_ITEMS)


@pytest.fixture(scope="session")
def address(report, texts, tmp_path_factory):
    return write_review(report, tmp_path_factory.mktemp("review") / "review.html", texts=texts).as_uri()


@pytest.fixture
def opened(chromium, address):
    """A function that opens the page; whatever it asked for, complained about or popped up fails the test."""
    contexts, complaints, requests = [], [], []

    def watch(page):
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: requests.append(request.url))

    def open_page(view="label", width=1280, scheme="light", url=address, before="", touch=False):
        context = chromium.new_context(
            viewport={"width": width, "height": 800 if width > 500 else 844},
            color_scheme=scheme,
            has_touch=touch,
            is_mobile=touch,
            accept_downloads=True,
        )
        context.set_default_timeout(10_000)
        context.add_init_script(before)
        context.on("page", watch)
        contexts.append(context)
        page = context.new_page()
        page.goto(url if "#" in url else f"{url}#view={view}")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []


@pytest.fixture(scope="session")
def hostile_address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    return write_review(hostile_report(), folder / "review.html", texts=HOSTILE, title=HOSTILE[0]).as_uri()
