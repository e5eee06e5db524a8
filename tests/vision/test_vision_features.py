"""Pooled features: what the head sees, in a file that the methods for tables read."""

import numpy as np
import pytest
import torch
from PIL import Image

from propml.datasets.array_files import read_npz
from propml.methods.ridge import RidgeClassifier
from propml.vision.checkpoint import load_network, save_network
from propml.vision.features import backbone_alone, pooled_features, write_features
from propml.vision.image_cache import build_cache
from propml.vision.sources import ImageSource, open_source


@pytest.fixture(scope="module")
def trained():
    return backbone_alone("small_cnn", None, 16)


def test_features_are_what_the_head_sees(trained):
    images = open_source("digits-mosaic", n_samples=7).items
    found = pooled_features(trained, images, batch_size=3)
    assert found.shape == (7, 128)
    with torch.no_grad():
        pixels = (torch.from_numpy(images).permute(0, 3, 1, 2) / 255 - 0.5) / 0.25
        maps = trained.network.backbone.forward_features(pixels)
    np.testing.assert_allclose(found, maps.mean(dim=(2, 3)).numpy(), atol=1e-5)


def test_random_weights_are_the_same_every_time():
    images = open_source("digits-mosaic", n_samples=3).items
    torch.manual_seed(1)
    first = pooled_features(backbone_alone("small_cnn", None, 16), images)
    drawn = torch.rand(3)
    second = pooled_features(backbone_alone("small_cnn", None, 16), images)
    np.testing.assert_array_equal(first, second)
    torch.manual_seed(1)
    assert torch.equal(torch.rand(3), drawn)  # whoever asks goes on with his own random numbers


def test_a_saved_network_gives_the_same(trained, tmp_path):
    save_network(tmp_path / "best.safetensors", trained.network, trained.recipe, ("one",), {})
    images = open_source("digits-mosaic", n_samples=3).items
    np.testing.assert_array_equal(pooled_features(load_network(tmp_path), images), pooled_features(trained, images))


def test_a_method_for_tables_learns_from_them(trained, tmp_path):
    train, test = (open_source("digits-mosaic", split, n_samples=300) for split in ("train", "test"))
    data = {}
    for source in (train, test):
        cached = build_cache(source, 16, None)
        write_features(tmp_path / f"{source.split}.npz", pooled_features(trained, cached.images), source, cached)
        data[source.split] = read_npz(tmp_path / f"{source.split}.npz", None, "features")
    assert data["train"].candidates == train.candidates
    np.testing.assert_array_equal(data["test"].truth, test.truth)
    assert data["train"].label_names == train.label_names
    model = RidgeClassifier().fit(data["train"].X, data["train"].candidates)
    scores = model.decision_function(data["test"].X)
    # Random convolutions see enough of a digit to be better than the frequencies of the labels.
    right = test.truth[np.arange(300), scores.argmax(axis=1)].mean()
    by_frequency = test.truth[:, train.candidates.to_matrix().mean(axis=0).argmax()].mean()
    assert right > by_frequency + 0.1


def test_rows_that_were_left_out_have_no_features(trained, tmp_path):
    for name in ("a", "c"):
        Image.new("RGB", (16, 16), (9, 9, 9)).save(tmp_path / f"{name}.png")
    paths = tuple(tmp_path / f"{name}.png" for name in "abc")
    truth = np.array([[1, 0], [0, 1], [1, 1]], np.uint8)
    source = ImageSource("mine", paths, truth, None, ("x", "y"), "train")
    cached = build_cache(source, 16, None)
    write_features(tmp_path / "f.npz", pooled_features(trained, cached.images), source, cached)
    with np.load(tmp_path / "f.npz") as content:
        assert [name[-5:] for name in content["images"]] == ["a.png", "c.png"]
        np.testing.assert_array_equal(content["truth"], truth[[0, 2]])
        np.testing.assert_array_equal(content["candidates"], truth[[0, 2]])  # nothing else is known of them
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.png", "c.png", "f.npz"]


def test_nothing_is_written_of_labels_that_nobody_knows(trained, tmp_path):
    Image.new("RGB", (16, 16)).save(tmp_path / "a.png")
    (tmp_path / "t.csv").write_text("path,candidates,truth,split\na.png,sea,,train\na.png,,,test\n")
    for split, there in (("train", ["candidates"]), ("test", [])):
        source = open_source(tmp_path / "t.csv", split)
        cached = build_cache(source, 16, None)
        write_features(tmp_path / "f.npz", pooled_features(trained, cached.images), source, cached)
        with np.load(tmp_path / "f.npz") as content:
            assert [name for name in content.files if name in ("candidates", "truth")] == there


def test_wrong_names_and_numbers_are_named(trained, tmp_path):
    source = open_source("digits-mosaic", n_samples=3)
    cached = build_cache(source, 16, None)
    with pytest.raises(ValueError, match=r"choose a name in .npz"):
        write_features(tmp_path / "f.csv", np.zeros((3, 2)), source, cached)
    with pytest.raises(ValueError, match="features of 2 images, and 3 images"):
        write_features(tmp_path / "f.npz", np.zeros((2, 2)), source, cached)


def test_a_full_disk_leaves_nothing_behind(trained, tmp_path, monkeypatch):
    def full(*_):
        raise OSError("no space left on device")

    source = open_source("digits-mosaic", n_samples=3)
    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="no space"):
        write_features(tmp_path / "f.npz", np.zeros((3, 2)), source, build_cache(source, 16, None))
    assert not list(tmp_path.iterdir())
