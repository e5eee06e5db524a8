"""The look of every page that the package writes: the review of an audit, a benchmark's report, a search."""

from importlib import resources


def page_style(own: str) -> str:
    """The rules that all pages share, followed by a page's own."""
    return (resources.files("propml") / "page.css").read_text(encoding="utf-8") + own
