"""The tables of the audit: means worked out by hand, and whether the audit has changed since."""

import csv
from pathlib import Path

import pytest


@pytest.fixture
def tables(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "paper")
    import audit_tables

    return audit_tables


def write(path, tables, code):
    """Two settings of each kind of noise, with an F1 of 0.2 and 0.4 for the audit, and less for all others."""
    rows = []
    for noise in ("none", *tables.STATED):
        for dataset, f1 in (("birds", 0.2), ("scene", 0.4)):
            for method in (*tables.TITLES, "audit, uniform", "audit, by-label", "audit, confusions"):
                own = f1 if method.startswith("audit") else f1 - 0.1 * (method == "scores") - 0.15
                numbers = {"average_precision": 0.5, "precision": 0.6, "recall": 0.1, "f1": own, "confidence": 0.7}
                place = {"dataset": dataset, "noise": noise, "method": method, "candidates": 200, "dropped": 3}
                rows.append({**place, "false": 0.4 * (noise != "none"), **numbers, "code": code})
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_means_over_settings(tables, tmp_path):
    parts = tables.audit_parts(write(tmp_path / "a.csv", tables, tables.current_code()))
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in parts["audit"].splitlines()]
    assert ["audit", "12", "0.500", "0.600", "0.100", "0.300", "0.700", "1.5 %"] in lines
    assert "in 12 settings; in 0 of them its drops are as precise as they are confident" in parts["audit"]
    assert parts["audit"].endswith("None of these numbers is older than the code.")
    row = [cell.strip() for cell in parts["audit-noise"].splitlines()[2].strip("|").split("|")]
    assert row == ["flips at rate 0.2", "0.30", '`"uniform"`: 0.30', "forest 0.15"]
    row = [cell.strip() for cell in parts["audit-deleted"].splitlines()[2].strip("|").split("|")]
    assert row == ["birds", "1000", "40 %", "15", "40.0 %", "15", "40.0 %"]


@pytest.mark.parametrize(
    ("code", "words"),
    [("", "of unknown age"), ("0123456789abcdef", "made by code or settings that have changed since")],
)
def test_numbers_of_other_code_are_told(tables, tmp_path, code, words):
    told = tables.audit_parts(write(tmp_path / "a.csv", tables, code))["audit"]
    assert told.endswith(f"**Older than the code.** All of it is {words}.")
