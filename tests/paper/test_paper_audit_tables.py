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


def test_votes_missing_labels_and_reviews_are_written_from_their_files(tables, tmp_path):
    own = tables.current_code()
    (tmp_path / "audit_votes.csv").write_text(
        "annotators,method,average_precision,f1,code\n"
        f'"scene, good and bad",audit,0.99,0.95,{own}\n'
        '"scene, good and bad",majority,0.9,0.8,\n'
        '"scene, good and bad",dawid-skene,0.95,0.9,\n'
    )
    (tmp_path / "audit_missing.csv").write_text(
        "dataset,removed,called,precision,recall,probability,average_precision,code\n"
        f"scene,261,45,0.978,0.17,0.89,0.661,{own}\n"
        f"chd-49,454,0,,0,,0.416,{own}\n"
    )
    rounds = ",".join([*tables.ROUNDS, *(f"said_left_{after}" for after in tables.ROUNDS)])
    (tmp_path / "audit_review.csv").write_text(
        f"setting,order,candidates,false,{rounds},code\n"
        '"scene, flips 0.2",random,1047,505,48,93,146,192,,,,,\n'
        f'"scene, flips 0.2",audit,1047,505,97,191,284,370,,,,,{own}\n'
        '"scene, flips 0.2","audit, again",1047,505,97,190,279,362,333,245,181,135,old\n'
    )
    parts = tables.further_parts(tmp_path)

    def cells(name, line):
        return [cell.strip() for cell in parts[name].splitlines()[line].strip("|").split("|")]

    assert cells("audit-votes", 2) == [
        *("Scene, five of mixed quality", "**0.990 / 0.950**", "0.900 / 0.800", "0.950 / 0.900", "–")
    ]
    assert cells("audit-missing", 2) == ["Scene", "261", "45", "0.98", "0.17", "0.89", "0.661"]
    assert cells("audit-missing", 3) == ["CHD_49", "454", "0", "–", "0.00", "–", "0.416"]
    assert cells("audit-review", 2) == [
        *("Scene, flips 0.2", "505 of 1047", "48, 93, 146, 192", "refuses", "97, 191, 284, **370**"),
        *("97, 190, 279, 362", "333 (408), 245 (315), 181 (226), 135 (143)"),
    ]
    assert parts["audit-votes"].endswith(parts["audit-missing"].splitlines()[-1])
    assert parts["audit-missing"].endswith("None of these numbers is older than the code.")
    assert "code or settings that have changed since" in parts["audit-review"]
