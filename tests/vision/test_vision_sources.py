"""Images are found where users have them: devkits, COCO folders, tables of their own, and made ones."""

import json

import numpy as np
import pytest
from PIL import Image

from propml.datasets.mosaic import digits_mosaic_images
from propml.vision.sources import ImageSource, open_source, read_own_images


def save_image(path, colour=(10, 200, 30), size=(12, 8)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)


@pytest.fixture
def devkit(tmp_path):
    """Two training images and a test image, as in a VOC devkit."""
    root = tmp_path / "data" / "VOCdevkit" / "VOC2007"
    (root / "ImageSets" / "Main").mkdir(parents=True)
    (root / "Annotations").mkdir()
    for split, names in (("trainval", ["000001", "000002"]), ("val", ["000002"]), ("test", ["000003"])):
        (root / "ImageSets" / "Main" / f"{split}.txt").write_text("\n".join(names) + "\n")
    for name, objects in (("000001", ["dog", "person"]), ("000002", ["car"]), ("000003", ["cat"])):
        save_image(root / "JPEGImages" / f"{name}.jpg")
        inside = "".join(f"<object><name>{each}</name></object>" for each in objects)
        (root / "Annotations" / f"{name}.xml").write_text(f"<annotation>{inside}</annotation>")
    return root


@pytest.fixture
def coco(tmp_path):
    root = tmp_path / "data" / "coco2014"
    (root / "annotations").mkdir(parents=True)
    for split, file in (("train", "a.jpg"), ("val", "b.jpg")):
        save_image(root / f"{split}2014" / file)
        content = {
            "images": [{"id": 7, "file_name": file}],
            "categories": [{"id": 1, "name": "person"}, {"id": 3, "name": "car"}],
            "annotations": [{"image_id": 7, "category_id": 3}],
        }
        (root / "annotations" / f"instances_{split}2014.json").write_text(json.dumps(content))
    return root


@pytest.fixture
def table(tmp_path):
    """Three photos, two of them for training, with candidates and truth."""
    for name in ("a", "b", "c"):
        save_image(tmp_path / "photos" / f"{name}.png")
    path = tmp_path / "photos.csv"
    path.write_text(
        "path,candidates,truth,split\n"
        "photos/a.png,beach;sea,beach,train\nphotos/b.png, city ,city,train\nphotos/c.png,sea,sea,test\n"
    )
    return path


def test_voc_by_name_and_by_folder(devkit, tmp_path):
    by_name = open_source("voc2007", "train", data_dir=tmp_path / "data")
    assert [path.name for path in by_name.items] == ["000001.jpg", "000002.jpg"]
    assert by_name.split == "trainval"
    assert by_name.candidates is None
    assert [by_name.label_names[j] for j in np.flatnonzero(by_name.truth[0])] == ["dog", "person"]
    for folder in (devkit, devkit.parent, devkit.parent.parent):
        assert open_source(folder).items == by_name.items
    assert len(open_source(devkit, "test")) == 1
    assert [path.name for path in open_source(devkit, "val").items] == ["000002.jpg"]  # the devkit's own list


def test_a_devkit_of_another_year_has_its_name(devkit):
    of_2007 = devkit.parent.parent
    assert open_source(of_2007).name == "voc2007"
    other = devkit.rename(devkit.with_name("VOC2012"))
    assert open_source(other).name == "voc2012"
    for folder in (other.parent, of_2007):
        with pytest.raises(ValueError, match=r"is no VOC devkit .*; give .* the devkit itself, such as VOCdevkit/"):
            open_source(folder)


def test_coco_by_name_and_by_folder(coco, tmp_path):
    train, test = open_source("COCO 2014", data_dir=tmp_path / "data"), open_source(coco, "test")
    assert (train.items[0].name, test.items[0].name) == ("a.jpg", "b.jpg")
    assert (train.label_names, test.split) == (("person", "car"), "val")
    np.testing.assert_array_equal(test.truth, [[0, 1]])


def test_a_table_of_ones_own(table):
    train, test = open_source(table), open_source(table.parent, "test")
    assert [path.name for path in train.items] == ["a.png", "b.png"]
    assert all(path.is_file() for path in (*train.items, *test.items))
    assert train.label_names == test.label_names == ("beach", "city", "sea")  # of all parts, so that they agree
    assert train.candidates.to_lists() == [["beach", "sea"], ["city"]]
    np.testing.assert_array_equal(test.truth, [[0, 0, 1]])


def test_columns_may_be_called_otherwise(tmp_path):
    (tmp_path / "t.csv").write_text("\ufefffile,tags\nx.jpg,sea|city\ny.jpg,-\n", encoding="utf-8")
    source = open_source(
        tmp_path / "t.csv", path="file", candidates="tags", sep="|", labels=("city", "sea", "moon"), folder="/photos"
    )
    assert str(source.items[0]) == "/photos/x.jpg"
    assert source.truth is None
    np.testing.assert_array_equal(source.candidates.to_matrix(), [[1, 1, 0], [0, 0, 0]])


@pytest.mark.parametrize(
    ("text", "options", "told"),
    [
        ("image,candidates\na,b\n", {}, "no column 'path'; it has 'image', 'candidates'"),
        ("path,labels\na,b\n", {}, "no column 'candidates' or 'truth'"),
        ("path,candidates\n", {}, "and no rows"),
        ("path,candidates\na.jpg\n", {}, "line 2 has 1 cells, the header has 2"),
        ("path,candidates\na.jpg,b,c\n", {}, "line 2 has 3 cells, the header has 2"),
        ("path,candidates\na.jpg,b\n\n\nb.jpg\n", {}, "line 5 has 1 cells"),
        ("path,candidates\na.jpg,b\n\n\n ,b\n", {}, r"\(line 5\), column 'path' is empty"),
        ("path,candidates\na.jpg,b;x\n", {"labels": ("b",)}, "row 0: 'x' is not one of the labels"),
        ("path,candidates,candidates\na.jpg,b,c\n", {}, "two columns named 'candidates'; rename one"),
        (
            "path,candidates\na.jpg,b\n\nb.jpg, ;\n",
            {},
            r"\(line 4\), column 'candidates' is empty, .* of split 'train' have labels there; .* write - if",
        ),
        (
            "path,truth,split\na.jpg,b,test\nb.jpg,,train\nc.jpg,,test\nd.jpg,,test\n",
            {"split": "test"},
            r"\(line 4\), column 'truth' is empty, .* of split 'test' have labels there; .* or leave it out",
        ),
        ("path,truth,split\na.jpg,b,\n", {}, "no image of split 'train'; it has none"),
        ("path,candidates\na.jpg,b\n", {"split": "test"}, "no column 'split'"),
        ("path,candidates,split\na.jpg,b,train\n", {"split": "test"}, "no image of split 'test'; it has train"),
    ],
)
def test_what_is_wrong_with_a_table_is_said(tmp_path, text, options, told):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(ValueError, match=told):
        read_own_images(tmp_path / "t.csv", **options)


def test_labels_of_a_table_may_be_lists(tmp_path):
    (tmp_path / "t.csv").write_text("path,candidates\nx.jpg,\"['sea', 'city']\"\ny.jpg,[]\nz.jpg,['sea']\n")
    source = open_source(tmp_path / "t.csv")
    assert source.label_names == ("city", "sea")
    assert source.candidates.to_lists() == [["city", "sea"], [], ["sea"]]
    (tmp_path / "t.csv").write_text("path,candidates\nx.jpg,['sea']\ny.jpg,\nz.jpg,['sea']\n")
    with pytest.raises(ValueError, match=r"row 1 \(line 3\), column 'candidates' is empty"):
        open_source(tmp_path / "t.csv")


def test_an_empty_cell_is_unknown_and_a_dash_is_no_label(tmp_path):
    (tmp_path / "t.csv").write_text(
        "path,candidates,split,truth\na.jpg,sea;city,train,\nb.jpg,-,train, \nc.jpg,,test,sea\nd.jpg,,test,'-\n"
    )
    train, test = (open_source(tmp_path / "t.csv", split) for split in ("train", "test"))
    assert train.label_names == test.label_names == ("city", "sea")
    assert train.truth is None
    np.testing.assert_array_equal(train.candidates.to_matrix(), [[1, 1], [0, 0]])
    assert test.candidates is None
    np.testing.assert_array_equal(test.truth, [[0, 1], [0, 0]])  # an apostrophe is what propml puts before a dash


def test_a_table_in_another_encoding_is_said(tmp_path):
    (tmp_path / "t.csv").write_bytes("path,candidates\na.jpg,Gebäude\n".encode("latin-1"))
    with pytest.raises(ValueError, match="is not UTF-8 text"):
        open_source(tmp_path / "t.csv")


@pytest.mark.parametrize("name", ["../secret.png", "{root}/secret.png", "in/../../secret.png", "link/secret.png"])
def test_an_image_outside_the_folder_of_the_table_needs_a_word(tmp_path, name):
    save_image(tmp_path / "secret.png")
    save_image(tmp_path / "set" / "in" / "a.png")
    (tmp_path / "set" / "link").symlink_to(tmp_path)
    name = name.format(root=tmp_path)
    table = tmp_path / "set" / "photos.csv"
    table.write_text(f"path,candidates\nin/a.png,x\n{name},y\n")
    with pytest.raises(
        ValueError, match=r"photos\.csv: row 1 .* lies outside the folder .*allow_outside=True"
    ) as error:
        open_source(table)
    assert name in str(error.value)
    assert [path.is_file() for path in open_source(table, allow_outside=True).items] == [True, True]


def test_the_folder_that_is_named_is_the_one_to_stay_in(tmp_path):
    save_image(tmp_path / "photos" / "a.png")
    (tmp_path / "tables").mkdir()
    table = tmp_path / "tables" / "photos.csv"
    table.write_text(f"path,candidates\na.png,x\n{tmp_path}/photos/a.png,x\n")
    assert len(read_own_images(table, folder=tmp_path / "photos")) == 2


def test_only_a_table_of_ones_own_has_an_outside(tmp_path):
    with pytest.raises(ValueError, match="allow_outside are for one's own table"):
        open_source("digits-mosaic", allow_outside=True)


def test_a_devkit_cannot_name_a_file_elsewhere(devkit):
    (devkit / "ImageSets" / "Main" / "trainval.txt").write_text("000001\n../../secret\n")
    with pytest.raises(
        ValueError, match=r"trainval\.txt names the image '\.\./\.\./secret', which is not a plain file"
    ):
        open_source(devkit)


def test_mosaics_are_the_embedded_ones_in_colour():
    source = open_source("digits-mosaic", "test", n_samples=6, random_state=3)
    grey, data = digits_mosaic_images(6, 3, split="test")
    np.testing.assert_array_equal(source.items, np.stack([grey] * 3, axis=3))
    np.testing.assert_array_equal(source.truth, data.truth)
    assert source.candidates == data.candidates
    larger = open_source("digits-mosaic", "test", n_samples=6, random_state=3, size=32)
    np.testing.assert_array_equal(larger.items[:, ::2, ::2], source.items)
    assert larger.items.shape == (6, 32, 32, 3)


def test_rows_are_taken_from_every_part():
    source = open_source("digits-mosaic", n_samples=8)
    some = source.take(np.array([5, 1]))
    np.testing.assert_array_equal(some.items, source.items[[5, 1]])
    np.testing.assert_array_equal(some.truth, source.truth[[5, 1]])
    assert some.candidates.to_lists() == [source.candidates.to_lists()[i] for i in (5, 1)]


def test_errors_name_what_was_asked_for(tmp_path):
    with pytest.raises(ValueError, match="Scene holds no images; known are voc2007"):
        open_source("scene")
    with pytest.raises(ValueError, match="not known; did you mean 'voc2007'"):
        open_source("voc207")
    with pytest.raises(FileNotFoundError, match=r"neither a file nor a folder 'photos/list.csv'"):
        open_source("photos/list.csv")
    with pytest.raises(ValueError, match='has "train" and "test"'):
        open_source("digits-mosaic", "val")
    with pytest.raises(ValueError, match="path are for one's own table"):
        open_source("voc2007", path="file")
    with pytest.raises(ValueError, match="holds no CSV file"):
        open_source(tmp_path)
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("path,candidates\nx,y\n")
    with pytest.raises(ValueError, match="holds 2 CSV files"):
        open_source(tmp_path)


def test_parts_that_do_not_fit_are_refused():
    pixels = np.zeros((2, 4, 4, 3), np.uint8)
    with pytest.raises(ValueError, match=r"truth has shape \(3, 1\), expected 2 images by 1 label names"):
        ImageSource("toy", pixels, np.zeros((3, 1), np.uint8), None, ("a",), "train")
    with pytest.raises(ValueError, match="expected uint8 of shape"):
        ImageSource("toy", pixels.astype(float), None, None, ("a",), "train")


def test_the_real_voc_images(data_dir):
    source = open_source("voc2007", "train", data_dir=data_dir)
    assert (len(source), len(source.label_names)) == (3642, 20)
    assert source.truth.sum(axis=1).mean() == pytest.approx(1.58, abs=0.03)
