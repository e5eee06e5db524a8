"""What is held out, what is left out, and candidates that must not change within a run."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from small_runs import mosaics, small_recipe

from propml.vision.distributed import Process
from propml.vision.sources import ImageSource
from propml.vision.training_data import ordered_batches, prepare_data

HERE = Process(torch.device("cpu"))


def prepared(folder, recipe=None, n=40, validation=None, source=None):
    source = source or mosaics(n)[0]
    return prepare_data(source, validation, recipe or small_recipe(noise=0.3), folder, HERE, cache=None, verbose=False)


def test_a_tenth_is_held_out_and_never_learned_from(tmp_path):
    data, notes = prepared(tmp_path)
    assert notes == []
    assert len(data.learned) == 40
    part = data.hold_out(0.1, seed=0)
    assert len(part.held_out) == 4
    assert np.array_equal(np.sort(np.concatenate([part.held_out, part.learned])), np.arange(40))
    assert np.array_equal(part.held_out, data.hold_out(0.1, seed=0).held_out)
    assert not np.array_equal(part.held_out, data.hold_out(0.1, seed=1).held_out)
    seen = np.concatenate([index.numpy() for _, _, index in part.batches(small_recipe(), HERE).epoch(0)])
    assert np.array_equal(np.sort(seen), part.learned)
    held = ordered_batches(part.images, part.targets(), small_recipe(), HERE, part.held_out)
    assert np.array_equal(np.concatenate([index.numpy() for _, _, index in held.epoch(0)]), part.held_out)


def test_an_image_that_cannot_be_read_takes_its_labels_with_it(tmp_path):
    paths = [tmp_path / f"{i}.png" for i in range(3)]
    for i in (0, 2):
        Image.fromarray(np.full((16, 16, 3), 100 * i, dtype=np.uint8)).save(paths[i])
    truth = np.eye(3, dtype=np.uint8)
    source = ImageSource("mine", tuple(paths), truth, None, ("a", "b", "c"), "train")
    data, notes = prepared(tmp_path, small_recipe(), source=source)
    assert data.candidates.to_matrix().tolist() == [[1, 0, 0], [0, 0, 1]]
    assert data.names == [str(paths[0]), str(paths[2])]
    assert "mine (train) has no candidates: learning from the true labels" in notes[0]
    assert "1 could not be read" in notes[1]
    assert "1.png" in notes[1]


def test_candidates_are_drawn_once_per_run(tmp_path):
    first, _ = prepared(tmp_path)
    again, _ = prepared(tmp_path)
    assert first.candidates == again.candidates
    with pytest.raises(ValueError, match=r"started with other candidates, .*\(candidates of candidates.npz differ\)"):
        prepared(tmp_path, small_recipe(noise=0.2))


@pytest.mark.parametrize("noise", [0.4, None])
def test_the_file_tells_how_the_candidates_were_drawn(tmp_path, noise):
    data, _ = prepared(tmp_path, small_recipe(noise=noise, seed=7))
    with np.load(tmp_path / "candidates.npz") as stored:
        np.testing.assert_array_equal(stored["candidates"], data.candidates.to_matrix())
        assert tuple(stored["label_names"].tolist()) == data.label_names
        assert int(stored["seed"]) == 7
        assert np.isnan(stored["noise"]) if noise is None else float(stored["noise"]) == noise


def test_learning_from_true_labels_is_told(tmp_path):
    clean = replace(mosaics(10)[0], candidates=None)
    assert prepared(tmp_path / "clean", small_recipe(), source=clean)[1] == [
        "digits-mosaic (train) has no candidates: learning from the true labels; --noise makes candidates of them"
    ]
    assert prepared(tmp_path / "noisy", small_recipe(noise=0.1), source=clean)[1] == []


def test_images_that_can_be_read_stay_the_same_within_a_run(tmp_path):
    """Otherwise some that were held out are learned from, and the reverse."""

    def pictures(folder):
        folder.mkdir()
        paths = tuple(folder / f"{i}.png" for i in range(6))
        for i, path in enumerate(paths):
            Image.fromarray(np.full((16, 16, 3), 40 * i, dtype=np.uint8)).save(path)
        return ImageSource("mine", paths, np.eye(6, dtype=np.uint8), None, tuple("abcdef"), "train")

    out, source = tmp_path / "run", pictures(tmp_path / "there")
    moved = pictures(tmp_path / "moved")
    prepared(out, source=source)
    prepared(out, source=moved)  # the same files elsewhere
    renamed = source.items[2].rename(tmp_path / "there" / "two.png")
    told = f"the run in {out} was started with .* other images that could be read"
    with pytest.raises(ValueError, match=rf"{told} \(images of"):
        prepared(out, source=replace(source, items=(*source.items[:2], renamed, *source.items[3:])))
    with pytest.raises(ValueError, match=rf"{told} \(kept, images of .*; bring them back"):
        prepared(out, source=source)
    with np.load(out / "candidates.npz") as stored:
        assert stored["kept"].tolist() == list(range(6))
        of_an_older_version = {name: stored[name] for name in ("candidates", "label_names", "noise", "seed")}
    np.savez(out / "candidates.npz", **of_an_older_version)
    data, _ = prepared(out, source=source)
    assert len(data.images) == 5


def test_validation_images_must_speak_of_the_same_labels(tmp_path):
    learned, judged = mosaics(20, 10)
    other = replace(judged, label_names=tuple("abcdefghij"), candidates=None)
    with pytest.raises(ValueError, match="labels '0', '1', '2', "):
        prepared(tmp_path, source=learned, validation=other)
    with pytest.raises(ValueError, match="no true labels to judge by"):
        prepared(tmp_path, source=learned, validation=replace(judged, truth=None))
