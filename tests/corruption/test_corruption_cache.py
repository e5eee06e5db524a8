"""The cache: found again, never trusted blindly."""

import numpy as np
import pytest

from propml.corruption.svm import cached_array, content_key

VALUES = np.random.default_rng(0).random((5, 3))


class Computation:
    """Counts how often it is asked."""

    def __init__(self):
        self.calls = 0

    def __call__(self):
        self.calls += 1
        return VALUES


def test_the_second_time_is_read_and_identical(tmp_path):
    compute = Computation()
    first = cached_array(tmp_path / "new", "k", (5, 3), compute)
    second = cached_array(tmp_path / "new", "k", (5, 3), compute)
    assert compute.calls == 1
    assert (first == VALUES).all()
    assert (second == VALUES).all()
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["k.npz"]


def damage_by_truncation(path):
    path.write_bytes(path.read_bytes()[:60])


def damage_by_emptying(path):
    path.write_bytes(b"")


def damage_by_a_few_bytes(path):
    content = path.read_bytes()
    path.write_bytes(content[:80] + b"\xff" * 8 + content[88:])


def damage_by_a_missing_array(path):
    np.savez_compressed(path, others=VALUES)


def damage_by_another_shape(path):
    np.savez_compressed(path, values=VALUES.T)


def damage_by_pickle(path):
    np.savez(path, values=np.array([{"a": 1}], dtype=object))


@pytest.mark.parametrize(
    "damage",
    [
        damage_by_truncation,
        damage_by_emptying,
        damage_by_a_few_bytes,
        damage_by_another_shape,
        damage_by_a_missing_array,
        damage_by_pickle,
    ],
)
def test_a_damaged_file_is_computed_again_with_a_warning(damage, tmp_path):
    compute = Computation()
    cached_array(tmp_path, "k", (5, 3), compute)
    damage(tmp_path / "k.npz")
    with pytest.warns(UserWarning, match="computed again"):
        again = cached_array(tmp_path, "k", (5, 3), compute)
    assert compute.calls == 2
    assert (again == VALUES).all()
    # The file is whole again.
    cached_array(tmp_path, "k", (5, 3), compute)
    assert compute.calls == 2


def test_a_write_that_fails_leaves_nothing_behind(tmp_path, monkeypatch):
    def full_disk(*_):
        raise OSError("no space left")

    monkeypatch.setattr("os.replace", full_disk)
    with pytest.warns(UserWarning, match="no space left"):
        cached_array(tmp_path, "k", (5, 3), Computation())
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_takes_nothing_is_told_and_the_work_goes_on(tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.warns(UserWarning, match=r"nothing can be kept in the cache folder .* \(Not a directory\)"):
        assert (cached_array(tmp_path / "file" / "cache", "a", (5, 3), Computation()) == VALUES).all()
    assert (tmp_path / "file").read_text() == "no folder"


def test_the_key_depends_on_values_type_shape_name_and_settings():
    base = np.arange(6.0)
    keys = {
        content_key({"X": base}, {"seed": 0}),
        content_key({"X": base + 1e-12}, {"seed": 0}),
        content_key({"X": base.astype(np.float32)}, {"seed": 0}),
        content_key({"X": base.reshape(2, 3)}, {"seed": 0}),
        content_key({"Z": base}, {"seed": 0}),
        content_key({"X": base}, {"seed": 1}),
    }
    assert len(keys) == 6
    # How the array lies in memory does not matter.
    assert content_key({"X": np.ones((3, 2))}, {}) == content_key({"X": np.ones((2, 3)).T}, {})
