"""Damage to bytes, as disks, networks and people do it."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

# Numbers at the edges of what a parser expects.
NUMBERS = (
    "-1", "0", "1", "2147483647", "-2147483649", "18446744073709551616", "1e309", "-inf", "nan", "0.5", "9" * 400, "",
    "1_0", "٣", "00501",
)  # fmt: skip
WORDS = (
    b"\x00" * 4,
    b"\xff" * 4,
    b"\xff\xff\xff\x7f",
    b"\x00\x00\x00\x80",
    b"\x00" * 8,
    b"\xff" * 8,
    b"\x01\x00\x00\x00",
)
NESTED = (b"[", b'{"a":', b"<a>", b"(", b"{", b'"', b"'")


def flipped(content: bytes, rng: random.Random) -> bytes:
    """A few bits turned over."""
    made = bytearray(content)
    for _ in range(rng.randint(1, 8)):
        made[rng.randrange(len(made))] ^= 1 << rng.randrange(8)
    return bytes(made)


def truncated(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content))]


def spliced(content: bytes, rng: random.Random) -> bytes:
    """A piece of the file once more, elsewhere."""
    start, at = rng.randrange(len(content)), rng.randrange(len(content))
    return content[:at] + content[start : start + rng.randint(1, 200)] + content[at:]


def cut(content: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(content))
    return content[:at] + content[at + rng.randint(1, 64) :]


def swapped(content: bytes, rng: random.Random) -> bytes:
    """Two blocks of the same size, each in the place of the other."""
    size = rng.randint(1, max(1, len(content) // 4))
    first, second = sorted(rng.randrange(max(1, len(content) - size)) for _ in range(2))
    made = bytearray(content)
    made[first : first + size], made[second : second + size] = (
        content[second : second + size],
        content[first : first + size],
    )
    return bytes(made)


def renumbered(content: bytes, rng: random.Random) -> bytes:
    """One number of a text replaced by a strange one."""
    found = list(re.finditer(rb"-?\d+(\.\d+)?", content))
    if not found:
        return flipped(content, rng)
    number = rng.choice(found)
    return content[: number.start()] + rng.choice(NUMBERS).encode() + content[number.end() :]


def filled(content: bytes, rng: random.Random) -> bytes:
    """NUL or 0xFF put in."""
    at = rng.randrange(len(content))
    return content[:at] + rng.choice((b"\x00", b"\xff")) * rng.choice((1, 2, 8, 512)) + content[at:]


def overwritten(content: bytes, rng: random.Random) -> bytes:
    """A machine word replaced by the smallest, the largest and the like."""
    at, word = rng.randrange(len(content)), rng.choice(WORDS)
    return content[:at] + word + content[at + len(word) :]


def nested(content: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(content))
    return content[:at] + rng.choice(NESTED) * rng.choice((10, 1000, 20_000)) + content[at:]


DAMAGES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    flipped, truncated, spliced, cut, swapped, renumbered, filled, overwritten, nested,
)  # fmt: skip


def damaged(content: bytes, rng: random.Random) -> bytes:
    """The content after one or two accidents."""
    for _ in range(rng.choice((1, 1, 1, 2))):
        if content:
            content = rng.choice(DAMAGES)(content, rng)
    return content
