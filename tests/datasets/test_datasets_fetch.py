"""Fetching registered datasets from a local server, and finding them by name."""

import gzip
import hashlib
import io
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from propml.datasets import REGISTRY, Dataset, ImageDataset, fetch, load, lookup, names, verify
from propml.datasets.catalogue import at_hand
from propml.datasets.dataset import Facts

QUICK = {"wait": 0.001, "verbose": False}
ARFF = b"@relation r\n@attribute x numeric\n@attribute l {0,1}\n@data\n1,0\n2,1\n"
XML = b'<labels><label name="l"/></labels>'


def blob(content: bytes) -> str:
    return "git:" + hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@pytest.fixture(autouse=True)
def no_real_data(monkeypatch):
    monkeypatch.delenv("PROPML_DATA", raising=False)


@pytest.fixture
def medical(server, monkeypatch):
    """The registry's Medical, with two rows, served from here."""
    served = {"mulan/medical.arff": ARFF, "mulan/medical.xml": XML}
    files = []
    for file in REGISTRY["medical"].files:
        server.serve(f"/{file.path}", served[file.path])
        files.append(replace(file, url=f"{server.url}/{file.path}", checksum=blob(served[file.path])))
    entry = replace(REGISTRY["medical"], files=tuple(files), facts=(Facts(2, 1, 1, 0.5, rows_without_truth=1),))
    monkeypatch.setitem(REGISTRY, "medical", entry)
    return entry


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_fetch_then_load_from_the_cache(medical, own_cache, server):
    with pytest.raises(FileNotFoundError, match=r"Medical \(mulan/medical.arff\) was not found in .*propml; run `propml datasets fetch medical` or set PROPML_DATA"):  # fmt: skip  # noqa: E501
        load("medical")
    assert at_hand(medical) is None
    assert fetch("Medical", **QUICK) == own_cache
    assert files_in(own_cache) == ["mulan/medical.arff", "mulan/medical.xml"]
    data = load("medical")
    assert isinstance(data, Dataset)
    np.testing.assert_array_equal(data.X, [[1], [2]])
    assert verify("medical").problems == ()
    before = len(server.files["/mulan/medical.arff"].requests)
    assert fetch("medical", **QUICK) == own_cache  # nothing to do
    assert len(server.files["/mulan/medical.arff"].requests) == before


def test_fetch_survives_dropped_connections(medical, server, tmp_path):
    server.files["/mulan/medical.arff"].drop_after = 7
    fetch("medical", tmp_path / "here", **QUICK)
    assert (tmp_path / "here/mulan/medical.arff").read_bytes() == ARFF


def test_corrupt_bytes_leave_nothing_and_are_not_loaded(medical, server, tmp_path):
    server.files["/mulan/medical.arff"].content = ARFF.replace(b"2,1", b"3,1")
    with pytest.raises(ValueError, match="nothing was kept"):
        fetch("medical", tmp_path / "here", **QUICK)
    assert files_in(tmp_path / "here") == []
    with pytest.raises(FileNotFoundError):
        load("medical", tmp_path / "here")


def test_a_file_that_differs_is_replaced_only_by_force(medical, tmp_path):
    (tmp_path / "mulan").mkdir()
    (tmp_path / "mulan/medical.arff").write_bytes(b"mine")
    with pytest.raises(ValueError, match=r"medical\.arff is there and is not the published file .* pass --force"):
        fetch("medical", tmp_path, **QUICK)
    assert (tmp_path / "mulan/medical.arff").read_bytes() == b"mine"
    fetch("medical", tmp_path, force=True, **QUICK)
    assert (tmp_path / "mulan/medical.arff").read_bytes() == ARFF


def test_a_compressed_copy_counts_as_the_file(medical, server, tmp_path):
    (tmp_path / "mulan").mkdir()
    (tmp_path / "mulan/medical.arff.gz").write_bytes(gzip.compress(ARFF))
    fetch("medical", tmp_path, **QUICK)
    assert files_in(tmp_path) == ["mulan/medical.arff.gz", "mulan/medical.xml"]
    assert load("medical", tmp_path).X.shape == (2, 1)
    assert server.files["/mulan/medical.arff"].requests == []


def test_a_copy_in_another_data_folder_is_enough(medical, server, tmp_path, monkeypatch):
    fetch("medical", tmp_path / "shared", **QUICK)
    monkeypatch.setenv("PROPML_DATA", str(tmp_path / "shared"))
    assert fetch("medical", **QUICK) == tmp_path / "shared"
    assert load("medical").X.shape == (2, 1)


def test_a_truncated_but_wellformed_file_is_not_a_partial_result(medical, tmp_path):
    fetch("medical", tmp_path, **QUICK)
    (tmp_path / "mulan/medical.arff").write_bytes(ARFF[:-4])
    with pytest.raises(ValueError, match=r"is 1 × 1 × 1 \(rows × features × labels\), expected 2 × 1 × 1"):
        load("medical", tmp_path)


def test_verify_tells_what_is_wrong(medical, tmp_path):
    fetch("medical", tmp_path, **QUICK)
    (tmp_path / "mulan/medical.arff").write_bytes(ARFF.replace(b"1,0", b"1,1"))
    found = verify("medical", tmp_path)
    assert found.problems[:2] == (
        "true labels per row is 1, expected 0.5",
        "rows without a true label is 0, expected 1",
    )
    assert found.problems[2].endswith("medical.arff differs from the published file")


def test_verify_counts_candidates_that_lack_the_truth(tmp_path, monkeypatch):
    (tmp_path / "pml").mkdir()
    monkeypatch.setitem(REGISTRY, "yeastmf", replace(REGISTRY["yeastmf"], facts=(Facts(2, 2, 1, copy="a toy"),)))
    savemat(tmp_path / "pml/YeastMF.mat", {"data": np.eye(2), "target": [[1, 1]], "partial_labels": [[1, 0]]})
    assert verify("yeastmf", tmp_path).problems == ("rows whose candidates lack a true label is 1, expected 0",)


def voc_tar(split: str, identifier: str) -> bytes:
    root = "VOCdevkit/VOC2007"
    members = {
        f"{root}/ImageSets/Main/{split}.txt": f"{identifier}\n".encode(),
        f"{root}/JPEGImages/{identifier}.jpg": b"jpeg",
        f"{root}/Annotations/{identifier}.xml": b"<annotation><object><name>cat</name></object></annotation>",
    }
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture
def voc(server, monkeypatch):
    files = []
    for file, split, identifier in zip(
        REGISTRY["voc2007"].files, ("trainval", "test"), ("000005", "000001"), strict=True
    ):
        server.serve(f"/{file.path}", voc_tar(split, identifier))
        files.append(replace(file, url=f"{server.url}/{file.path}"))
    entry = replace(REGISTRY["voc2007"], files=tuple(files), facts=(Facts(2, None, 20, 1.0),))
    monkeypatch.setitem(REGISTRY, "voc2007", entry)
    return entry


def test_voc_archives_are_unpacked_together_and_removed(voc, tmp_path):
    fetch("voc2007", tmp_path, **QUICK)
    assert [path.name for path in tmp_path.iterdir()] == ["VOCdevkit"]
    train, test = load("voc2007", tmp_path), load("voc2007", tmp_path, split="test")
    assert isinstance(train, ImageDataset)
    assert [path.name for path in (*train.paths, *test.paths)] == ["000005.jpg", "000001.jpg"]
    assert verify("voc2007", tmp_path).problems == ()
    assert fetch("voc2007", tmp_path, **QUICK) == tmp_path


def test_a_damaged_archive_is_removed_and_the_good_one_is_kept(voc, server, tmp_path):
    served = server.files["/VOCtest_06-Nov-2007.tar"]
    good, served.content = served.content, b"<html>try later</html>"
    with pytest.raises(ValueError, match=r"VOCtest_06-Nov-2007\.tar is not a readable archive"):
        fetch("voc2007", tmp_path, **QUICK)
    assert files_in(tmp_path) == ["VOCtrainval_06-Nov-2007.tar"]
    served.content = good
    fetch("voc2007", tmp_path, **QUICK)
    assert len(server.files["/VOCtrainval_06-Nov-2007.tar"].requests) == 1


def test_a_half_unpacked_folder_of_the_user_is_left_alone(voc, tmp_path):
    (tmp_path / "VOCdevkit").mkdir()
    with pytest.raises(ValueError, match="VOCdevkit is there and is not complete; move it away"):
        fetch("voc2007", tmp_path, **QUICK)


def test_a_local_archive_is_unpacked_into_the_cache_once(voc, tmp_path, own_cache, monkeypatch):
    data = tmp_path / "readonly"
    data.mkdir()
    with tarfile.open(data / "voc2007_160px.tar.xz", "w:xz") as packed:
        for split, identifier in (("trainval", "000005"), ("test", "000001")):
            with tarfile.open(fileobj=io.BytesIO(voc_tar(split, identifier))) as part:
                for member in part:
                    packed.addfile(member, part.extractfile(member))
    monkeypatch.setenv("PROPML_DATA", str(data))
    assert at_hand(voc) == data / "voc2007_160px.tar.xz"
    train = load("voc2007")
    assert own_cache in train.paths[0].parents
    assert files_in(data) == ["voc2007_160px.tar.xz"]
    stamp = train.paths[0].stat().st_mtime_ns
    assert load("voc2007").paths == train.paths
    assert train.paths[0].stat().st_mtime_ns == stamp


def test_names_are_forgiving_and_suggest():
    assert lookup("Music emotion") is lookup("MUSIC-EMOTION") is lookup("music_emotion")
    with pytest.raises(ValueError, match=r"dataset 'bibtexx' is not known; did you mean 'bibtex'\?"):
        lookup("bibtexx")
    with pytest.raises(ValueError, match="'zzzzzzzz' is not known; known are mirflickr, "):
        load("zzzzzzzz")
    with pytest.raises(ValueError, match="suite 'images' is not known; choose one of artificial"):
        names("images")
    with pytest.raises(ValueError, match="Digits mosaic is part of the package; there is nothing to fetch"):
        fetch("digits-mosaic")


def test_the_registry_holds_the_twelve_datasets_of_the_paper():
    """Table I of the paper, with Birds and its candidate-set column read as methods.md reads them."""
    table = {
        "artificial": {"Bibtex": (7395, 1836, 159), "Birds": (645, 260, 19), "Enron": (1702, 1001, 53),
                       "Medical": (978, 1449, 45), "Scene": (2407, 294, 6)},
        "real-world": {"MIRFlickr": (10433, 100, 7), "Music-emotion": (6833, 98, 11), "Music-style": (6839, 98, 10),
                       "YeastBP": (6139, 6139, 217), "YeastCC": (6139, 6139, 50)},
        "vision": {"VOC2007": (9963, None, 20), "COCO2014": (122218, None, 80)},
    }  # fmt: skip
    for suite, rows in table.items():
        entries = [REGISTRY[name] for name in names(suite)]
        shapes = {e.title: (e.facts[0].n_samples, e.facts[0].n_features, e.facts[0].n_labels) for e in entries}
        assert shapes == rows
    others = {"yeastmf", "yeast", "cal500", "genbase", "foodtruck", "chd-49", "birds-one-hot", "digits-mosaic"}
    others |= {"goemotions", "goemotions-20k", "redv2"}
    assert set(names()) - {n for s in table for n in names(s)} == others


def test_addresses_are_complete_and_pinned():
    for entry in REGISTRY.values():
        for file in entry.files:
            assert " " not in file.url
            if entry.suite == "vision":
                assert file.checksum is None
            else:
                assert file.checksum is not None
                assert len(file.checksum) == len("git:") + 40
    yeast = "https://raw.githubusercontent.com/fangyan1221/partial-multi-label-learning/6d93795c88c104c5b0cb50bcb6e2f2515c1fbe4f/PML%20real-world%20datasets/YeastBP.mat"
    assert REGISTRY["yeastbp"].files[0].url == yeast
    scene = "https://raw.githubusercontent.com/tsoumakas/mulan/43f6389095ad71984264db4387a8074b22bc7d4a/data/multi-label/scene/scene-train.arff"
    assert REGISTRY["scene"].files[0].url == scene
    cal500 = "https://raw.githubusercontent.com/tsoumakas/mulan/43f6389095ad71984264db4387a8074b22bc7d4a/data/multi-label/cal500/cal500.arff"
    assert (REGISTRY["cal500"].files[0].path, REGISTRY["cal500"].files[0].url) == ("more/cal500.arff", cal500)


def test_coco_is_read_from_its_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match="run `propml datasets fetch coco2014`"):
        load("coco2014", tmp_path, split="val")
    (tmp_path / "coco2014/annotations").mkdir(parents=True)
    for split in ("train", "val"):
        (tmp_path / f"coco2014/annotations/instances_{split}2014.json").write_text("{}")
    with pytest.raises(ValueError, match=r"instances_val2014\.json is not a readable"):
        load("coco2014", tmp_path, split="val")
