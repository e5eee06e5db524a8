"""Facts about the report page: it is one file, and what comes from data stays text."""

import pytest
from matplotlib.figure import Figure

from propml.benchmark.page import Page, embedded


def test_everything_stands_in_one_file(tmp_path):
    figure = Figure()
    figure.subplots().plot([0, 1])
    page = Page("Title", lead="lead", facts={"seed": "0"})
    page.add("Numbers", "text", columns=["a", "b"], rows=[["1", "2"]], figure=embedded(figure), caption="a line")
    text = page.write(tmp_path / "deep" / "page.html").read_text(encoding="utf-8")
    for piece in ("Title", "lead", "seed: 0", "<th>a</th>", "<td>2</td>", "data:image/png;base64,", "a line"):
        assert piece in text
    assert "http" not in text
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["page.html"]


def test_hostile_content_stays_text():
    page = Page("<script>alert(1)</script>")
    page.add("x", rows=[["<img src=x onerror=alert(1)>"]], columns=["<b>"])
    text = page.render()
    assert "<script>" not in text
    assert "<img src=x" not in text


def test_a_missing_extra_is_named(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match="jinja2"):
        Page("x").render()
