"""Storms: random damage, kills and inputs, thousands of times over, with a count of what went wrong.

Each ``*_storm.py`` here has one function ``storm(seconds, seed) -> list[Tally]``. ``make test`` runs each for a few
seconds (``test_storms.py``), ``make storm`` for ``STORM_MINUTES`` and prints the table of ``docs/reliability.md``.
"""
