"""The address of a study: paths, URLs, and URLs without what nobody else may read."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, unquote_plus

__all__ = ["SQLITE", "masked", "storage_url", "with_driver", "without_secrets"]

SQLITE = "sqlite:///"
HIDDEN = "***"
# What the name of a secret argument has in it, such as `sslpassword`, `passwd`, `PWD`, `ssl_key`, `access_token`.
SECRET = re.compile(r"pass|pwd|secret|token|key|credential|auth", re.IGNORECASE)
# A whole connection string as one argument, such as that of `odbc_connect`.
SECRET_INSIDE = re.compile(r"(?:pass\w*|pwd)\s*=", re.IGNORECASE)
QUERY = re.compile(r"\?[\w.%+-]+=")
PORT = re.compile(r"[^:]*(?::\d*)?|\[[^]]*\](?::\d*)?")


class _Parts(NamedTuple):
    """A URL in pieces that make it up again; every second piece is a secret."""

    pieces: list[str]

    @property
    def secrets(self) -> list[str]:
        return [piece for piece in self.pieces[1::2] if piece]

    @property
    def masked(self) -> str:
        return "".join(HIDDEN if place % 2 and piece else piece for place, piece in enumerate(self.pieces))


def storage_url(storage: str | Path | None) -> str | None:
    """The URL of a storage: of a path that of an SQLite file; ``None`` (in memory) stays.

    >>> storage_url("study.db"), storage_url("postgresql://me@host/db")
    ('sqlite:///study.db', 'postgresql://me@host/db')
    """
    if storage is None or "://" in str(storage):
        return None if storage is None else str(storage)
    return f"{SQLITE}{storage}"


def with_driver(url: str) -> str:
    """SQLAlchemy's versions differ in the driver that they take PostgreSQL's plain URL for: the one that is here."""
    scheme, _, rest = url.partition("://")
    if scheme in ("postgres", "postgresql"):
        for driver in ("psycopg", "psycopg2"):
            if sys.modules.get(driver, driver) is not None and importlib.util.find_spec(driver) is not None:
                return f"postgresql+{driver}://{rest}"
    return url


def masked(url: str) -> str:
    """A URL without its password and other secrets, wherever it has them.

    >>> masked("postgresql://me:secret@host/db"), masked("postgresql://host/db?user=me&password=secret")
    ('postgresql://me:***@host/db', 'postgresql://host/db?user=me&password=***')
    """
    return _parted(url).masked


def without_secrets(text: str, url: str) -> str:
    """What somebody else said about a URL, such as a driver, without the secrets of that URL.

    >>> without_secrets("invalid port 'p' in me:p/w@h", "mysql://me:p/w@h/db")
    "invalid port '***' in me:***@h"
    """
    secrets = _parted(url).secrets
    text = text.replace(url, masked(url))
    for each in sorted({*secrets, *map(unquote, secrets), *map(unquote_plus, secrets)}, key=len, reverse=True):
        text = text.replace(each, HIDDEN)
    # A password that should have been quoted is parted by whoever reads the URL, and part of it is complained of.
    parts = {re.escape(part) for each in secrets for part in re.split(r"[/?#@:&]", each) if part}
    for part in sorted(parts, key=len, reverse=True):
        text = re.sub(rf"(?<=['\"]){part}(?=['\"@])", HIDDEN, text)
    return text


def _parted(url: str) -> _Parts:
    scheme, mark, rest = url.partition("://")
    if not mark:
        return _Parts([url])
    place, query = _query_split(rest)
    # A password may have an @ in it that should have been written %40: the last one ends it.
    user, at, host = ("", "", place) if place.startswith("/") else place.rpartition("@")
    name, colon, password = _user_split(user)
    return _Parts([f"{scheme}://{name}{colon}", password, f"{at}{host}", *_query_pieces(query)])


def _query_split(rest: str) -> tuple[str, str]:
    """The place, and what is asked of it from the "?" on; a "?" before the last @ belongs to the password."""
    found = QUERY.search(rest)
    start = found.start() if found else rest.find("?", rest.rfind("@"))
    if found and "@" not in rest[:start] and "@" in rest and not PORT.fullmatch(rest[:start].partition("/")[0]):
        start = rest.find("?", rest.rfind("@"))
    return (rest, "") if start < 0 else (rest[:start], rest[start:])


def _user_split(user: str) -> tuple[str, str, str]:
    """Name, colon and password, where the colon may be written ``%3A``."""
    found = re.search(r":|%3a", user, re.IGNORECASE)
    return (user, "", "") if found is None else (user[: found.start()], found[0], user[found.end() :])


def _query_pieces(query: str) -> list[str]:
    """The arguments of a query, in turn a secret and what follows it, the first one empty."""
    pieces, open_ = [], query[:1]
    for word in re.split("(&)", query[1:]):
        name, equals, value = word.partition("=")
        if equals and (SECRET.search(unquote(name)) or SECRET_INSIDE.search(unquote_plus(value))):
            pieces += [f"{open_}{name}=", value]
            open_ = ""
        else:
            open_ += word
    return ["", *pieces, open_] if pieces else ["", open_]
