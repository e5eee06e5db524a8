"""New images get the labels that the network gives them, in files, folders and any number."""

import numpy as np
import pytest
import torch
from PIL import Image

from propml.vision import deep_features
from propml.vision.backbone import input_of, make_network
from propml.vision.checkpoint import TrainedNetwork
from propml.vision.decoding import find_images
from propml.vision.predict import Predictions, predict_images, probabilities
from propml.vision.recipe import VisionRecipe

LABELS = ("cat", "dog", "person")


@pytest.fixture(scope="module")
def trained():
    torch.manual_seed(0)
    recipe = VisionRecipe(backbone="small_cnn", size=16)
    network = make_network(recipe, len(LABELS)).eval()
    torch.nn.init.normal_(network.head.weight, std=2.0)  # so that images differ in their labels
    return TrainedNetwork(network, LABELS, recipe, *input_of("small_cnn")[1:], {})


@pytest.fixture
def photos(tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "deeper").mkdir()
    for i, name in enumerate(("b.png", "a.JPG", "deeper/c.bmp")):
        Image.fromarray(rng.integers(0, 256, (20 + i, 24, 3), dtype=np.uint8)).save(tmp_path / name, quality=95)
    (tmp_path / "notes.txt").write_text("no image")
    return tmp_path


def by_hand(trained, path):
    """Decode, normalise and run one image and its mirror image, in plain steps."""
    image = Image.open(path).convert("RGB").resize((16, 16), Image.Resampling.BILINEAR)
    values = torch.from_numpy(np.asarray(image) / 255.0).float().permute(2, 0, 1)
    values = (values - torch.tensor(trained.mean).view(3, 1, 1)) / torch.tensor(trained.std).view(3, 1, 1)
    with torch.no_grad():
        return torch.sigmoid(trained.network(torch.stack([values, values.flip(2)])).mean(dim=0)).numpy()


def test_a_folder_and_a_file(trained, photos):
    found = predict_images(trained, [photos, photos / "b.png"])
    assert [path.name for path in found.paths] == ["a.JPG", "b.png", "c.bmp"]
    for path, own in zip(found.paths, found.probabilities, strict=True):
        np.testing.assert_allclose(own, by_hand(trained, path), atol=1e-5)
    assert found.probabilities.std() > 0.05
    best = found.labels(top=1)
    assert [labels[0][0] for labels in best] == [LABELS[j] for j in found.probabilities.argmax(axis=1)]


def test_blocks_and_batches_change_nothing(trained, photos, monkeypatch):
    at_once = predict_images(trained, [photos])
    monkeypatch.setattr(deep_features, "BLOCK", 2)
    np.testing.assert_allclose(
        predict_images(trained, [photos], batch_size=1).probabilities, at_once.probabilities, atol=1e-5
    )


def test_labels_by_threshold_and_by_number():
    found = Predictions((), np.array([[0.1, 0.7, 0.7], [0.2, 0.3, 0.4]]), LABELS, ())
    assert found.labels(threshold=0.5) == [[("dog", 0.7), ("person", 0.7)], []]  # ties in the order of the labels
    assert found.labels(top=2)[1] == [("person", 0.4), ("dog", 0.3)]
    with pytest.raises(ValueError, match="top is 0"):
        found.labels(top=0)


def test_images_that_cannot_be_read(trained, photos, monkeypatch):
    monkeypatch.setattr(deep_features, "BLOCK", 1)  # one block has nothing in it
    (photos / "b.png").write_text("damaged")
    found = predict_images(trained, [photos])
    assert [path.name for path in found.paths] == ["a.JPG", "c.bmp"]
    assert len(found.probabilities) == 2
    assert found.skipped[0][0] == str(photos / "b.png")
    with pytest.raises(ValueError, match=r"b\.png cannot be read"):
        predict_images(trained, [photos], on_error="error")
    with pytest.raises(ValueError, match=r"none of the 1 images can be read; .*notes\.txt"):
        predict_images(trained, [photos / "notes.txt"])


def test_what_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file or folder .*nowhere"):
        find_images([tmp_path / "nowhere"])
    with pytest.raises(ValueError, match="there is no image in"):
        find_images([tmp_path])
    with pytest.raises(ValueError, match="no image was given"):
        find_images([])


def test_decoded_images(trained):
    images = np.random.default_rng(0).integers(0, 256, (5, 16, 16, 3), dtype=np.uint8)
    found = probabilities(trained, images, batch_size=2)
    assert (found.shape, found.dtype) == ((5, 3), np.float32)
    assert trained.network.training is False
