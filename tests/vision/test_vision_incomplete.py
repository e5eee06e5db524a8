"""Devkits and COCO folders in which images are missing: every row stays, and decoding names what is not there."""

import json

import numpy as np
import pytest
from PIL import Image

from propml.datasets.images import read_coco, read_voc
from propml.vision.image_cache import build_cache
from propml.vision.sources import open_source

OBJECTS = {"000001": ["dog", "person"], "000002": ["car", "car"], "000003": ["cat"]}


@pytest.fixture
def devkit(tmp_path):
    root = tmp_path / "VOCdevkit" / "VOC2007"
    for folder in ("ImageSets/Main", "Annotations", "JPEGImages"):
        (root / folder).mkdir(parents=True)
    (root / "ImageSets" / "Main" / "trainval.txt").write_text("\n".join(OBJECTS) + "\n")
    for name, objects in OBJECTS.items():
        Image.new("RGB", (12, 8)).save(root / "JPEGImages" / f"{name}.jpg")
        inside = "".join(f"<object><name>{each}</name></object>" for each in objects)
        (root / "Annotations" / f"{name}.xml").write_text(f"<annotation>{inside}</annotation>")
    return root


@pytest.fixture
def coco(tmp_path):
    """Categories and images in no order, as in the real files; image 5 has no annotation."""
    root = tmp_path / "coco2014"
    (root / "annotations").mkdir(parents=True)
    (root / "train2014").mkdir()
    content = {
        "images": [{"id": i, "file_name": f"{i}.jpg"} for i in (9, 5, 2, 7)],
        "categories": [{"id": 44, "name": "bottle"}, {"id": 1, "name": "person"}, {"id": 3, "name": "car"}],
        "annotations": [{"image_id": i, "category_id": c} for i, c in ((7, 3), (2, 44), (9, 1), (2, 1), (2, 1))],
    }
    (root / "annotations" / "instances_train2014.json").write_text(json.dumps(content))
    for i in (9, 2, 7):
        Image.new("RGB", (12, 8)).save(root / "train2014" / f"{i}.jpg")
    return root


@pytest.mark.parametrize("kind", ["voc", "coco"])
def test_a_missing_image_keeps_its_row_and_is_named_where_it_is_decoded(kind, devkit, coco):
    folder, read = {"voc": (devkit, read_voc), "coco": (coco, read_coco)}[kind]
    whole = read(folder)
    gone = whole.paths[1]
    gone.unlink()
    with pytest.raises(FileNotFoundError, match=gone.name):
        read(folder)
    found = read(folder, missing="keep")
    assert (found.name, found.paths, found.label_names, found.split) == (
        whole.name,
        whole.paths,
        whole.label_names,
        whole.split,
    )
    np.testing.assert_array_equal(found.truth, whole.truth)
    source = open_source(folder)
    decoded = build_cache(source, 8, None)
    assert decoded.kept.tolist() == [0, 2]
    assert decoded.skipped == ((str(gone), "there is no such file"),)
    with pytest.raises(ValueError, match=rf"{gone.name} cannot be read \(there is no such file\)"):
        build_cache(source, 8, None, on_error="error")


def test_annotations_must_be_there_and_in_order(devkit, coco):
    (devkit / "JPEGImages" / "000001.jpg").unlink()
    (devkit / "Annotations" / "000002.xml").write_text("<annotation><object><name>ox</name></object></annotation>")
    with pytest.raises(ValueError, match=r"000002.xml has an object 'ox', which is not a class"):
        read_voc(devkit, missing="keep")
    (devkit / "Annotations" / "000002.xml").unlink()
    with pytest.raises(FileNotFoundError, match=r"000002\.xml"):
        read_voc(devkit, missing="keep")
    with pytest.raises(FileNotFoundError, match=r"test\.txt"):
        read_voc(devkit, "test", missing="keep")
    with pytest.raises(FileNotFoundError, match=r"instances_val2014\.json"):
        read_coco(coco, "val", missing="keep")
