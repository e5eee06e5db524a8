"""What other programs open: cells that a spreadsheet must not run as a formula, and the look of all pages."""

from __future__ import annotations

import re
from importlib import resources

# What makes a spreadsheet take a cell for a formula; the wide forms do so in East Asian settings.
LEADS = frozenset("=+-@\t\r\n＝＋－＠")
_NUMBER = re.compile(r"[+-]?[\d.,]+(?:[eE][+-]?\d+)?%?")


def neutralised(cell: str) -> str:
    """The cell as it may stand in a CSV file that somebody opens in a spreadsheet.

    >>> neutralised("=cmd|' /C calc'!A0"), neutralised("-1.5e3"), neutralised("beach")
    ("'=cmd|' /C calc'!A0", '-1.5e3', 'beach')
    """
    return "'" + cell if _is_risky(cell) else cell


def original(cell: str) -> str:
    """What stood there before :func:`neutralised`; every other cell as it is.

    >>> original("'=1+1"), original("'quoted'")
    ('=1+1', "'quoted'")
    """
    return cell[1:] if cell[:1] == "'" and _is_risky(cell[1:]) else cell


def _is_risky(cell: str) -> bool:
    # Apostrophes in front do not count: so a cell that brings its own gets a second one, and nothing is lost.
    bare = cell.lstrip("'")
    return bare[:1] in LEADS and _NUMBER.fullmatch(bare) is None


def page_style(own: str) -> str:
    """The rules that all pages share, followed by a page's own."""
    return (resources.files("propml") / "page.css").read_text(encoding="utf-8") + own
