"""Curves as text and in TensorBoard."""

import csv
import sys

import pytest

from propml.vision.evaluation import tensorboard, write_curves

HISTORY = [{"epoch": 1, "loss": 0.5}, {"epoch": 2, "loss": 0.25, "mAP raw": 0.123456789}]


def test_curves_are_a_table_with_one_row_per_epoch(tmp_path):
    write_curves(tmp_path / "curves.csv", HISTORY)
    with (tmp_path / "curves.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows == [
        {"epoch": "1", "loss": "0.5", "mAP raw": ""},
        {"epoch": "2", "loss": "0.25", "mAP raw": "0.123457"},
    ]


def test_tensorboard_holds_the_same_numbers(tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    with tensorboard(tmp_path) as add:
        for entry in HISTORY:
            add(entry)
    events = accumulator.EventAccumulator(str(tmp_path)).Reload()
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [(1, 0.5), (2, 0.25)]
    assert events.Scalars("mAP/raw")[0].value == pytest.approx(0.123457, abs=1e-6)


def test_without_a_folder_nothing_is_written(tmp_path):
    with tensorboard(None) as add:
        add(HISTORY[0])
    assert not list(tmp_path.iterdir())


def test_a_missing_tensorboard_is_named_with_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ImportError, match=r"pip install 'propml\[tensorboard\]'"), tensorboard(tmp_path):
        pass
