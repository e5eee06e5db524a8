"""The table of datasets: the twelve of the paper, seven more tables, and the embedded digits mosaic."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from propml.datasets.array_files import read_mat
from propml.datasets.dataset import Dataset, Entry, Facts, RemoteFile
from propml.datasets.images import read_coco, read_voc
from propml.datasets.locations import existing_file
from propml.datasets.mosaic import digits_mosaic
from propml.datasets.mulan import read_mulan
from propml.datasets.text_sets import TEXT_ENTRIES

_RAW = "https://raw.githubusercontent.com"
_MULAN = f"{_RAW}/tsoumakas/mulan/43f6389095ad71984264db4387a8074b22bc7d4a/data/multi-label"
_PML = f"{_RAW}/fangyan1221/partial-multi-label-learning/6d93795c88c104c5b0cb50bcb6e2f2515c1fbe4f"
_CHD = f"{_RAW}/hxtruong6/inference_probabilistic_mlc/ec4cbdc10ce98a71800e8a641cacb677773bedfc/datasets"
_VOC = "http://host.robots.ox.ac.uk/pascal/VOC/voc2007"
_COCO = "http://images.cocodataset.org"


def _read_mulan_from(
    folder: Path, *, name: str, arff: tuple[str, ...], xml: str | tuple[str, ...], nominal: Any = "codes"
) -> Dataset:
    paths = [existing_file(folder, path) or folder / path for path in arff]
    return read_mulan(paths, folder / xml if isinstance(xml, str) else xml, name=name, nominal=nominal)


def _mulan(
    title: str, facts: Facts, blobs: str, *, suite: str = "artificial", folder: str = "mulan", note: str = ""
) -> Entry:
    """A Mulan dataset; ``blobs`` names each file by what follows the set's name, and gives its git blob id."""
    name, words = title.lower(), blobs.split()
    files = []
    for suffix, blob in zip(words[::2], words[1::2], strict=True):
        file = f"{name}.{suffix}" if suffix in ("arff", "xml") else f"{name}-{suffix}.arff"
        files.append(RemoteFile(f"{folder}/{file}", f"{_MULAN}/{name}/{file}", f"git:{blob}"))
    needs = tuple(file.path for file in files)
    arff = tuple(path for path in needs if path.endswith(".arff"))
    read = partial(_read_mulan_from, name=name, arff=arff, xml=f"{folder}/{name}.xml")
    source = "https://github.com/tsoumakas/mulan, data/multi-label"
    return Entry(name, title, suite, (facts,), tuple(files), read, needs, source, note=note)


def _pml(title: str, blob: str, *facts: Facts, suite: str = "real-world", note: str = "") -> Entry:
    """A dataset with real candidate labels, in a ``.mat`` file; ``blob`` names it and gives its git blob id."""
    file, _, identifier = blob.partition(" ")
    name, path = title.lower(), f"pml/{file}"
    files = (RemoteFile(path, f"{_PML}/PML%20real-world%20datasets/{file}", f"git:{identifier}"),)
    source = "https://github.com/fangyan1221/partial-multi-label-learning"
    return Entry(
        name, title, suite, facts, files, lambda folder: read_mat(folder / path, name=name), (path,), source, note=note
    )


_extra = partial(_mulan, suite="extra", folder="more")
_BIRDS = _mulan(
    "Birds",
    Facts(645, 260, 19, 1.014, rows_without_truth=294),
    "train 1d9d970e0a2511aebccf7810ae72d623ad8ea44b test 2ef6bdfa6d2521ac5d692523988b65f4b2424258 "
    "xml 01e6a36536afb9206b95fc3cb574ae64b116edaa",
    note="The paper drops the 294 rows without a label: 351 rows, 1.863 labels per row. The place of a recording is a "
    "name that is coded as a number, as in the paper; birds-one-hot has a column for each place.",
)

_ENTRIES = (
    _pml(
        "MIRFlickr",
        "mirflickr.mat 9cd7b63ff73c33a4271d12dcd8a48dd56322c47a",
        Facts(10433, 100, 7, 1.77, 3.35, tolerance=0.006),
        Facts(5000, 100, 7, 1.771, 3.353, 0, 0, copy="a random subset of 5000 of the 10433 rows"),
        note="The candidate columns of label_3 and label_4 are identical: state the tie rule of every metric.",
    ),
    _pml(
        "Music-emotion",
        "music_emotion.mat 358b403469fc683a459a40425dfde3de57689781",
        Facts(6833, 98, 11, 2.42, 5.29, tolerance=0.006),
    ),
    _pml(
        "Music-style",
        "music_style.mat fddd5c39c6da308bb5df8b3bdd48c59c49e2316f",
        Facts(6839, 98, 10, 1.44, 6.04, tolerance=0.006),
    ),
    _pml(
        "YeastBP",
        "YeastBP.mat 7e7deedd09b6578bfcc66fa11162409d8cc935c5",
        Facts(6139, 6139, 217, 5.537, 5.925, 1882, 1749),
        note="The paper's 2.22 labels per row match nothing in the file. Drop the rows without a true label.",
    ),
    _pml(
        "YeastCC",
        "YeastCC.mat e540a61163b0cef238c499a2488f32d512b02ad5",
        Facts(6139, 6139, 50, 1.348, 1.390, 3705, 3592),
        note="Over the 2434 rows that have a true label the mean is 3.40, which the paper's table shows.",
    ),
    _pml(
        "YeastMF",
        "YeastMF.mat a48eb7af5891dd030aaa79be6cdf287df1f386db",
        Facts(6139, 6139, 39, 1.005, 1.043, 3545, 3485),
        suite="extra",
        note="Not used by the paper.",
    ),
    _mulan(
        "Bibtex",
        Facts(7395, 1836, 159, 2.402, rows_without_truth=0),
        "arff f702c066f053db931fdc208f942eefc6e8762297 xml 410cd66958c2d5cdedf6a8000f5da5c6ac6ab330",
        note="The paper's table says 1.23 labels per row; the file says 2.40.",
    ),
    _BIRDS,
    _mulan(
        "Enron",
        Facts(1702, 1001, 53, 3.378, rows_without_truth=0),
        "arff 6d6126faad983024d483f9fb30e24e01ca04b208 xml 229170fb5ec4c96be5d8a0f09c5acd9af85d7ad2",
    ),
    _mulan(
        "Medical",
        Facts(978, 1449, 45, 1.245, rows_without_truth=0),
        "arff 2ee9bc2c743a99e8030f58a1e35a6f8200e96b75 xml feae96ea7c5ea332548343940daffdb0eaad9099",
    ),
    _mulan(
        "Scene",
        Facts(2407, 294, 6, 1.074, rows_without_truth=0),
        "train 5d7756a16e8dbb8a51ebfd01ff5948fe07e5b2e7 test 8a210ae61b3ce9179dd9209a1199a7ffb74fdd13 "
        "xml b84100c90a816a95e0d3f7d3dc2f842edbc81261",
        note="Train and test are joined, 1211 + 1196 rows.",
    ),
    _extra(
        "Yeast",
        Facts(2417, 103, 14, 4.237, rows_without_truth=0),
        "arff 79fd63a4260a1f48cbee5d1c29d02a389e74a223 xml da08dc009cf58746a86b67031e3d287ae615d6f0",
    ),
    _extra(
        "CAL500",
        Facts(502, 68, 174, 26.044, rows_without_truth=0),
        "arff b06cd93b26e4ca3c7242e1ffb69a79099363f36a xml 6c2315a6883510ac8ed615705fa485abe47b6f21",
    ),
    _extra(
        "Genbase",
        Facts(662, 1186, 27, 1.252, rows_without_truth=0),
        "arff 401649c7af2ff217107bd06ad0adadce46284692 xml ba38f02e2c166862cd96b04b0317293255398669",
        note="All features are nominal; the first one is the name of the protein, another one in every row.",
    ),
    _extra(
        "Foodtruck",
        Facts(407, 21, 12, 2.290, rows_without_truth=0),
        "arff fb66ac51aeb61bcbcdc7e54557b90f09d93f1f37 xml 14f3ef738a0cdda97da942b3a6b8f3c84a6c6847",
    ),
    replace(
        _BIRDS,
        name="birds-one-hot",
        title="Birds (one-hot)",
        suite="extra",
        facts=(replace(_BIRDS.facts[0], n_features=271),),
        read=partial(_BIRDS.read, name="birds-one-hot", nominal="one-hot"),
        note="Birds with a column for each of the twelve places. Not what the paper ran on.",
    ),
    Entry(
        name="chd-49",
        title="CHD_49",
        suite="extra",
        facts=(Facts(555, 49, 6, 2.580, rows_without_truth=3),),
        files=(RemoteFile("more/CHD_49.arff", f"{_CHD}/CHD_49.arff", "git:972cd919fbc8a51bc94c1deb73a1ada0d7cc1931"),),
        # It comes without a header, so that the labels are named here.
        read=partial(
            _read_mulan_from, name="chd-49", arff=("more/CHD_49.arff",), xml=tuple(f"label{j}" for j in range(1, 7))
        ),
        needs=("more/CHD_49.arff",),
        source="https://github.com/hxtruong6/inference_probabilistic_mlc, datasets",
        note="Coronary heart disease in traditional Chinese medicine.",
    ),
    Entry(
        name="voc2007",
        title="VOC2007",
        suite="vision",
        facts=(
            Facts(9963, None, 20, 1.56, rows_without_truth=0, tolerance=0.006),
            Facts(7122, None, 20, 1.568, rows_without_truth=0, copy="7122 of the 9963 images, 160 × 160 pixels"),
        ),
        files=tuple(
            RemoteFile(f"VOC{part}_06-Nov-2007.tar", f"{_VOC}/VOC{part}_06-Nov-2007.tar")
            for part in ("trainval", "test")
        ),
        read=lambda folder, split="trainval": read_voc(folder / "VOCdevkit" / "VOC2007", split),
        needs=tuple(f"VOCdevkit/VOC2007/ImageSets/Main/{split}.txt" for split in ("trainval", "test")),
        source=f"{_VOC}/",
        splits=("trainval", "test"),
        folder="VOCdevkit",
        inner="VOCdevkit",
        archive="voc2007_160px.tar.xz",
        note="Objects marked difficult count as present, in training and test.",
    ),
    Entry(
        name="coco2014",
        title="COCO2014",
        suite="vision",
        facts=(Facts(122218, None, 80, 2.92, rows_without_truth=0, tolerance=0.03),),
        files=(
            RemoteFile("annotations_trainval2014.zip", f"{_COCO}/annotations/annotations_trainval2014.zip"),
            RemoteFile("train2014.zip", f"{_COCO}/zips/train2014.zip"),
            RemoteFile("val2014.zip", f"{_COCO}/zips/val2014.zip"),
        ),
        read=lambda folder, split="train": read_coco(folder / "coco2014", split),
        needs=tuple(f"coco2014/annotations/instances_{split}2014.json" for split in ("train", "val")),
        source=f"{_COCO}/",
        splits=("train", "val"),
        folder="coco2014",
        note="Images without an annotation are left out: 82081 for training and 40137 for test remain.",
    ),
    Entry(
        name="digits-mosaic",
        title="Digits mosaic",
        suite="embedded",
        facts=(Facts(2000, 256, 10, 3.42, 4.75, 0, 0, tolerance=0.05),),
        files=(),
        read=lambda _, **options: digits_mosaic(**options),
        needs=(),
        source="made from the handwritten digits that ship with scikit-learn",
        splits=("train", "test"),
        note="Random and deterministic by seed; its two splits share no source digit.",
    ),
)

REGISTRY: dict[str, Entry] = {entry.name: entry for entry in (*_ENTRIES, *TEXT_ENTRIES)}
