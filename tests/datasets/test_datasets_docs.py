"""The examples of docs/datasets.md run as they stand and give what they say."""

import re
from pathlib import Path

import numpy as np

from propml.datasets import REGISTRY

PAGE = (Path(__file__).parents[2] / "docs" / "datasets.md").read_text(encoding="utf-8")


def test_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(block, scope)
    assert scope["photos"].label_names == ("beach", "city", "night", "sea")
    np.testing.assert_array_equal(scope["photos"].truth, [[1, 0, 0, 0], [0, 1, 1, 0]])
    np.testing.assert_array_equal(scope["wide"].candidates.states.toarray(), [[1, 0, 1], [0, 1, -1]])
    assert scope["words"].X.shape == (2, 41)
    assert scope["arrays"].label_names == ("a", "b")
    np.testing.assert_array_equal(scope["toy"].truth, [[0], [1]])


def test_the_page_names_every_dataset():
    assert set(re.findall(r"^\| `([a-z0-9-]+)` \|", PAGE, re.MULTILINE)) == set(REGISTRY)
