"""A short form of every storm; ``make storm`` runs the long one."""

import pytest

from storm.registry import STORMS

SECONDS = 10


@pytest.mark.parametrize("name", STORMS)
def test_nothing_fails_and_nothing_is_lost(name: str) -> None:
    tallies = STORMS[name](SECONDS, 0)
    assert all(tally.tried for tally in tallies)
    assert [example for tally in tallies for example in tally.examples] == []
    assert all(tally.failed == tally.lost == 0 for tally in tallies)
