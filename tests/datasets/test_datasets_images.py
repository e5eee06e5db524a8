"""VOC and COCO in their official layouts, made small."""

import json
from pathlib import Path

import numpy as np
import pytest

from propml.datasets.images import VOC_CLASSES, read_coco, read_voc

DOG, PERSON = VOC_CLASSES.index("dog"), VOC_CLASSES.index("person")


def annotation(*objects: tuple[str, int]) -> str:
    body = "".join(
        f"<object><name>{name}</name><difficult>{difficult}</difficult><part><name>head</name></part></object>"
        for name, difficult in objects
    )
    return f"<annotation><owner><name>?</name></owner>{body}</annotation>"


@pytest.fixture
def voc(tmp_path: Path) -> Path:
    for folder in ("JPEGImages", "Annotations", "ImageSets/Main"):
        (tmp_path / folder).mkdir(parents=True)
    content = {"000005": [("dog", 0), ("dog", 1)], "000007": [("person", 1)], "000009": [("dog", 0), ("person", 0)]}
    for identifier, objects in content.items():
        (tmp_path / "JPEGImages" / f"{identifier}.jpg").write_bytes(b"not opened")
        (tmp_path / "Annotations" / f"{identifier}.xml").write_text(annotation(*objects))
    (tmp_path / "ImageSets/Main/trainval.txt").write_text("000009\n000005\n\n")
    (tmp_path / "ImageSets/Main/test.txt").write_text("000007 1\n")
    return tmp_path


def test_voc_reads_a_split_and_counts_difficult_objects(voc):
    train, test = read_voc(voc), read_voc(voc, "test")
    assert [path.name for path in train.paths] == ["000009.jpg", "000005.jpg"]
    assert train.split == "trainval"
    np.testing.assert_array_equal(train.truth[:, [DOG, PERSON]], [[1, 1], [1, 0]])
    assert train.truth.sum() == 3
    np.testing.assert_array_equal(np.flatnonzero(test.truth[0]), [PERSON])  # its only object is difficult
    assert len(VOC_CLASSES) == 20
    assert list(VOC_CLASSES) == sorted(VOC_CLASSES)


def test_voc_errors_name_the_file(voc):
    with pytest.raises(ValueError, match="split is 'all'; VOC2007 has trainval"):
        read_voc(voc, "all")
    with pytest.raises(FileNotFoundError, match=r"val\.txt"):
        read_voc(voc, "val")
    (voc / "ImageSets/Main/val.txt").write_text("\n")
    with pytest.raises(ValueError, match=r"val\.txt names no image"):
        read_voc(voc, "val")
    (voc / "Annotations/000007.xml").write_text(annotation(("unicorn", 0)))
    with pytest.raises(ValueError, match=r"000007\.xml has an object 'unicorn'"):
        read_voc(voc, "test")
    (voc / "Annotations/000007.xml").write_text("<html/>")
    with pytest.raises(ValueError, match=r"000007\.xml has <html> at its root"):
        read_voc(voc, "test")
    (voc / "Annotations/000007.xml").write_text(annotation(("dog", 0))[:-5])
    with pytest.raises(ValueError, match=r"000007\.xml is not a readable XML file"):
        read_voc(voc, "test")
    (voc / "Annotations/000007.xml").unlink()
    with pytest.raises(FileNotFoundError, match=r"000007\.xml"):
        read_voc(voc, "test")
    (voc / "JPEGImages/000007.jpg").unlink()
    with pytest.raises(
        FileNotFoundError, match=r"1 of the 1 images of .*test\.txt are not in .*JPEGImages, the first is 000007\.jpg"
    ):
        read_voc(voc, "test")


COCO = {
    "images": [{"id": i, "file_name": f"COCO_val2014_{i}.jpg"} for i in (30, 10, 20)],
    "categories": [{"id": 90, "name": "toothbrush"}, {"id": 1, "name": "person"}, {"id": 13, "name": "stop sign"}],
    "annotations": [
        {"image_id": 30, "category_id": 13, "iscrowd": 0},
        {"image_id": 10, "category_id": 90, "iscrowd": 1},
        {"image_id": 30, "category_id": 1, "iscrowd": 0},
        {"image_id": 30, "category_id": 1, "iscrowd": 0},
    ],
}


def write_coco(folder: Path, content: object) -> Path:
    (folder / "annotations").mkdir(exist_ok=True)
    (folder / "val2014").mkdir(exist_ok=True)
    for i in (10, 30):
        (folder / "val2014" / f"COCO_val2014_{i}.jpg").write_bytes(b"not opened")
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / "annotations/instances_val2014.json").write_text(text)
    return folder


def test_coco_keeps_annotated_images_and_orders_labels_by_category_id(tmp_path):
    data = read_coco(write_coco(tmp_path, COCO), "val")
    assert data.label_names == ("person", "stop sign", "toothbrush")
    assert [path.name for path in data.paths] == ["COCO_val2014_10.jpg", "COCO_val2014_30.jpg"]  # 20 has no annotation
    np.testing.assert_array_equal(data.truth, [[0, 0, 1], [1, 1, 0]])
    assert data.split == "val"


def changed(**parts: object) -> dict[str, object]:
    return {**COCO, **parts}


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        ('{"images": [', ValueError, "is not a readable COCO instances file"),
        ("[" * 100_000, ValueError, "is not a readable COCO instances file"),
        ([1], ValueError, "is not a readable COCO instances file"),
        (changed(images=[{"id": float("inf"), "file_name": "a.jpg"}]), ValueError, "OverflowError: cannot convert"),
        (changed(annotations=[{"image_id": 2**70, "category_id": 1}]), ValueError, "OverflowError"),
        ({"images": []}, ValueError, "file .KeyError: 'categories'.; copy it again; it holds images"),
        (changed(annotations=[]), ValueError, "no annotations or no categories"),
        (changed(annotations=[{"image_id": "x", "category_id": 1}]), ValueError, "not a readable COCO instances file"),
        (changed(annotations=[{"image_id": 99, "category_id": 1}]), ValueError, "KeyError: 99"),
        (changed(annotations=[{"image_id": 10, "category_id": 2}]), ValueError, "KeyError: 2"),
        (changed(images=[{"id": i, "file_name": "../../etc/passwd"} for i in (10, 30)]), ValueError, "not a plain"),
        (changed(images=[{"id": i, "file_name": f"{i}.jpg"} for i in (10, 30)]), FileNotFoundError,
         "2 of the 2 images of .* are not in .*val2014, the first is 10.jpg"),
    ],
)  # fmt: skip
def test_broken_coco_files_give_one_clear_error(tmp_path, content, error, message):
    with pytest.raises(error, match=message):
        read_coco(write_coco(tmp_path, content), "val")


def test_coco_split_that_is_not_there(tmp_path):
    with pytest.raises(ValueError, match='split is \'test\'; COCO 2014 has "train" and "val"'):
        read_coco(tmp_path, "test")
    with pytest.raises(FileNotFoundError, match=r"instances_train2014\.json"):
        read_coco(tmp_path)
