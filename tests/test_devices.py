import sys
from pathlib import Path

import pytest
import torch

from propml import ProPMLClassifier
from propml.devices import cache_dir, choose_device, runs_on_gpu, usable_cores

HAS_GPU = torch.cuda.is_available()


def test_auto_is_a_gpu_where_there_is_one(monkeypatch):
    assert choose_device("auto") == choose_device() == torch.device("cuda" if HAS_GPU else "cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert choose_device("auto") == torch.device("cuda")
    assert runs_on_gpu("auto")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == torch.device("cpu")
    assert not runs_on_gpu("auto")


def test_a_device_by_its_name():
    assert choose_device("cpu") == choose_device(torch.device("cpu")) == torch.device("cpu")
    assert [runs_on_gpu(name) for name in ("cpu", "cuda", "cuda:1", torch.device("cuda"))] == [False, True, True, True]


@pytest.mark.parametrize(
    "name", ["abacus", "meta", "cuda:99", pytest.param("cuda", marks=pytest.mark.skipif(HAS_GPU, reason="is one"))]
)
def test_a_device_that_is_not_there_is_named(name):
    with pytest.raises(ValueError, match=f"device {name} cannot be used here; choose auto, cpu"):
        choose_device(name)
    with pytest.raises(ValueError, match=f"device {name} cannot be used here"):
        ProPMLClassifier(device=name).fit([[0.0], [1.0]], [[1, 0], [0, 1]])


def test_cores_are_those_that_this_process_may_use():
    assert usable_cores() >= 1


@pytest.mark.parametrize(
    ("platform", "expected"),
    [("linux", ".cache/propml"), ("darwin", "Library/Caches/propml"), ("win32", "AppData/Local/propml/Cache")],
)
def test_cache_of_each_platform(monkeypatch, tmp_path, platform, expected):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert cache_dir() == tmp_path / expected
