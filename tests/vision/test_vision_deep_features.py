"""Features: what the head sees, kept by content, in files that the methods for tables read."""

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from small_runs import tiny_backbone

import propml.vision.deep_features as deep
from propml.datasets.array_files import read_npz
from propml.methods.ridge import RidgeRegressionClassifier
from propml.tables.files import read_table
from propml.vision import features
from propml.vision.checkpoint import load_network, save_network
from propml.vision.deep_features import backbone_alone, compute_features, write_features
from propml.vision.sources import ImageSource, open_source


@pytest.fixture(scope="module")
def trained():
    return backbone_alone("small_cnn", None, 16)


@pytest.fixture
def photos(tmp_path):
    """Six pictures of noise in a folder."""
    rng = np.random.default_rng(0)
    for i in range(6):
        Image.fromarray(rng.integers(0, 256, (40, 30, 3), np.uint8)).save(tmp_path / f"{i}.png")
    return [tmp_path / f"{i}.png" for i in range(6)]


def pooled(trained, source, **options):
    return compute_features(trained, source, cache=None, device="cpu", **options).X


def test_features_are_what_the_head_sees_of_both_views(trained):
    source = open_source("digits-mosaic", n_samples=7)
    found = pooled(trained, source, batch_size=3)
    assert found.shape == (7, 128)
    with torch.no_grad():
        pixels = (torch.from_numpy(source.items).permute(0, 3, 1, 2) / 255 - 0.5) / 0.25
        plain, mirrored = (
            trained.network.backbone.forward_features(x).mean(dim=(2, 3)) for x in (pixels, pixels.flip(3))
        )
    np.testing.assert_allclose(found, (plain + mirrored).numpy() / 2, atol=1e-5)
    np.testing.assert_allclose(pooled(trained, source, mirror=False), plain.numpy(), atol=1e-5)


def test_a_cpu_sees_few_images_at_once_unless_told(trained, monkeypatch):
    seen, plain = [], trained.network.features
    monkeypatch.setattr(trained.network, "features", lambda images: (seen.append(len(images)), plain(images))[1])
    source = open_source("digits-mosaic", n_samples=20)
    by_itself = pooled(trained, source, mirror=False)
    assert seen == [8, 8, 4]
    np.testing.assert_allclose(by_itself, pooled(trained, source, mirror=False, batch_size=64), atol=1e-5)
    assert seen == [8, 8, 4, 20]


def test_random_weights_are_the_same_every_time():
    source = open_source("digits-mosaic", n_samples=3)
    torch.manual_seed(1)
    first = pooled(backbone_alone("small_cnn", None, 16), source)
    drawn = torch.rand(3)
    np.testing.assert_array_equal(first, pooled(backbone_alone("small_cnn", None, 16), source))
    torch.manual_seed(1)
    assert torch.equal(torch.rand(3), drawn)  # whoever asks goes on with his own random numbers


def test_a_saved_network_gives_the_same(trained, tmp_path):
    save_network(tmp_path / "best.safetensors", trained.network, trained.recipe, ("one",), {})
    source = open_source("digits-mosaic", n_samples=3)
    np.testing.assert_array_equal(pooled(load_network(tmp_path), source), pooled(trained, source))


def test_weights_of_a_file_are_used_whatever_wrote_it_and_inputs_are_normalised_as_they_want_it(photos, tmp_path):
    model, weights = tiny_backbone(tmp_path / "w.pth")
    save_file(weights, tmp_path / "w.safetensors")
    options = {"backbone": "test_resnet", "cache": None, "device": "cpu"}
    found = features(photos, weights=tmp_path / "w.pth", **options)
    np.testing.assert_array_equal(found, features(tmp_path, weights=tmp_path / "w.safetensors", **options))
    side = model.pretrained_cfg["input_size"][1]
    views = []
    for path in photos:
        resized = np.asarray(Image.open(path).resize((side, side), Image.Resampling.BILINEAR)) / 255
        scaled = (resized - model.pretrained_cfg["mean"]) / model.pretrained_cfg["std"]
        views += [scaled, scaled[:, ::-1]]
    with torch.no_grad():
        maps = model.eval().forward_features(torch.from_numpy(np.stack(views)).permute(0, 3, 1, 2).float())
        expected = model.forward_head(maps, pre_logits=True).reshape(6, 2, -1).mean(dim=1)
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-4)
    other = features(photos, weights=tmp_path / "w.pth", size=32, mean=(0, 0, 0), std=(1, 1, 1), **options)
    assert not np.allclose(found, other)


def test_a_wrong_file_of_weights_is_one_sentence(photos, tmp_path):
    tiny_backbone(tmp_path / "w.pth")
    with pytest.raises(ValueError, match=r"w\.pth is not a readable file of weights .* size mismatch for"):
        features(photos, backbone="resnet10t", weights=tmp_path / "w.pth")
    (tmp_path / "w.pth").write_bytes(b"no weights")
    with pytest.raises(ValueError, match=r"w\.pth is not a readable file of weights"):
        features(photos, backbone="test_resnet", weights=tmp_path / "w.pth")


def test_blocks_are_found_again_by_their_content(photos, tmp_path, monkeypatch):
    monkeypatch.setattr(deep, "BLOCK", 2)
    seen = []
    run = deep.run_network

    def counted(trained, images, *more, **options):
        seen.append(len(images))
        return run(trained, images, *more, **options)

    monkeypatch.setattr(deep, "run_network", counted)
    options = {"backbone": "small_cnn", "weights": None, "cache": tmp_path / "cache", "device": "cpu"}
    first = features(photos, **options)
    assert seen == [2, 2, 2]
    for i, path in enumerate(photos):
        path.rename(tmp_path / f"renamed{i}.png")
    photos = [tmp_path / f"renamed{i}.png" for i in range(6)]
    np.testing.assert_array_equal(features(photos, **options), first)
    assert seen == [2, 2, 2]  # nothing was computed again
    Image.new("RGB", (30, 40)).save(photos[3])
    changed = features(photos, **options)
    assert seen == [2, 2, 2, 2]
    assert (changed != first).any(axis=1).tolist() == [False, False, False, True, False, False]
    features(photos, **{**options, "size": 8})
    features(photos, mirror=False, **options)
    assert len(seen) == 10


def test_a_run_that_was_killed_goes_on_behind_its_last_block(photos, tmp_path, monkeypatch):
    monkeypatch.setattr(deep, "BLOCK", 2)
    options = {"backbone": "small_cnn", "weights": None, "cache": tmp_path / "cache", "device": "cpu"}
    run, seen = deep.run_network, []

    def stopping(*arguments, **options):
        seen.append(1)
        if len(seen) == 3:
            raise KeyboardInterrupt
        return run(*arguments, **options)

    monkeypatch.setattr(deep, "run_network", stopping)
    with pytest.raises(KeyboardInterrupt):
        features(photos, **options)
    found = features(photos, **options)
    assert len(seen) == 4
    np.testing.assert_array_equal(found, features(photos, **{**options, "cache": None}))
    for damage in (lambda content: b"damaged", lambda content: content[:-30]):
        for block in (tmp_path / "cache").iterdir():
            block.write_bytes(damage(block.read_bytes()))
        np.testing.assert_array_equal(found, features(photos, **options))


def test_an_image_that_cannot_be_read_is_named_or_left_out(trained, photos, tmp_path):
    photos[1].write_bytes(b"no image")
    with pytest.raises(ValueError, match=r"1\.png cannot be read"):
        features(photos, backbone="small_cnn", weights=None, cache=tmp_path / "cache")
    source = ImageSource("mine", tuple(photos), None, None, (), "train")
    for _ in range(2):  # computed, and as it was kept
        found = compute_features(trained, source, cache=tmp_path / "cache", device="cpu")
        assert found.kept.tolist() == [0, 2, 3, 4, 5]
        assert [name for name, _ in found.skipped] == [str(photos[1])]
    with pytest.raises(ValueError, match="none of the 1 images of mine can be read"):
        compute_features(trained, source.take([1]), cache=None)


def test_the_same_path_twice_is_two_rows(photos):
    found = features([photos[0], photos[0]], backbone="small_cnn", weights=None, cache=None)
    np.testing.assert_array_equal(found[0], found[1])


def test_a_method_for_tables_learns_from_them(trained, tmp_path):
    train, test = (open_source("digits-mosaic", split, n_samples=300) for split in ("train", "test"))
    data = {}
    for source in (train, test):
        write_features(tmp_path / f"{source.split}.npz", compute_features(trained, source, cache=None), source)
        data[source.split] = read_npz(tmp_path / f"{source.split}.npz", None, "features")
    assert data["train"].candidates == train.candidates
    np.testing.assert_array_equal(data["test"].truth, test.truth)
    assert data["train"].label_names == train.label_names
    model = RidgeRegressionClassifier().fit(data["train"].X, data["train"].candidates)
    scores = model.decision_function(data["test"].X)
    # Random convolutions see enough of a digit to be better than the frequencies of the labels.
    right = test.truth[np.arange(300), scores.argmax(axis=1)].mean()
    by_frequency = test.truth[:, train.candidates.to_matrix().mean(axis=0).argmax()].mean()
    assert right > by_frequency + 0.1


def test_parquet_holds_the_same(trained, tmp_path):
    pytest.importorskip("pyarrow")
    source = open_source("digits-mosaic", n_samples=20)
    found = compute_features(trained, source, cache=None)
    write_features(tmp_path / "f.parquet", found, source)
    read = read_table(tmp_path / "f.parquet", candidates="candidates", id_column="image", ignore="truth")
    assert read.feature_columns == ("features",)
    np.testing.assert_allclose(np.stack(read.source.cells("features")), found.X)
    names = [[source.label_names[j] for j in np.flatnonzero(row)] for row in source.candidates.to_matrix() > 0]
    assert [sorted(row) for row in read.candidates.to_lists()] == names


def test_rows_that_were_left_out_have_no_features(trained, tmp_path):
    for name in ("a", "c"):
        Image.new("RGB", (16, 16), (9, 9, 9)).save(tmp_path / f"{name}.png")
    paths = tuple(tmp_path / f"{name}.png" for name in "abc")
    truth = np.array([[1, 0], [0, 1], [1, 1]], np.uint8)
    source = ImageSource("mine", paths, truth, None, ("x", "y"), "train")
    write_features(tmp_path / "f.npz", compute_features(trained, source, cache=None), source)
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
        write_features(tmp_path / "f.npz", compute_features(trained, source, cache=None), source)
        with np.load(tmp_path / "f.npz") as content:
            assert [name for name in content.files if name in ("candidates", "truth")] == there


def test_a_full_disk_leaves_nothing_behind(trained, tmp_path, monkeypatch):
    def full(*_):
        raise OSError("no space left on device")

    source = open_source("digits-mosaic", n_samples=3)
    found = compute_features(trained, source, cache=None)
    with pytest.raises(ValueError, match=r"written as \.npz or \.parquet"):
        write_features(tmp_path / "f.csv", found, source)
    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="no space"):
        write_features(tmp_path / "f.npz", found, source)
    assert not list(tmp_path.iterdir())
