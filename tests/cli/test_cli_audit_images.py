"""``propml audit`` of pictures: from a table with paths, and from a folder, to verdicts with thumbnails."""

import csv
import json

import numpy as np
import pytest
import torch
from command_line import propml, told
from PIL import Image

from propml.vision.backbone import import_vision

timm = import_vision("timm")
BRIGHT, DARK = "day", "night"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A file of weights of a tiny network, to work in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    torch.manual_seed(0)
    torch.save(timm.create_model("test_resnet", num_classes=0).state_dict(), "w.pth")
    return tmp_path


def picture(path, bright, rng):
    """Noise about a bright or a dark grey."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(rng.integers(200 if bright else 0, 255 if bright else 55, (24, 24, 3), np.uint8)).save(path)


MODEL = ("--backbone", "test_resnet", "--weights", "w.pth", "--quick", "--device", "cpu")


def verdicts():
    with open("audit/verdicts.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_table_with_paths_is_learned_from_by_its_pictures(here):
    rng = np.random.default_rng(0)
    with (here / "photos.csv").open("w", newline="") as file:
        write = csv.writer(file)
        write.writerow(["path", "tags"])
        for i in range(60):
            picture(here / f"img/{i}.png", i % 2, rng)
            right, wrong = (BRIGHT, DARK) if i % 2 else (DARK, BRIGHT)
            write.writerow([f"img/{i}.png", f"{right};{wrong}" if i % 10 < 3 else right])
    printed = propml("audit", "photos.csv", "--candidates", "tags", "--image", "path", "--id", "path", *MODEL)
    assert printed.code == 0, printed.err
    assert "vector of " in printed.out
    found = verdicts()
    assert len(found) == 78
    chance = {}
    for row in found:
        bright = int(row["item"][4:-4]) % 2
        chance.setdefault(row["label"] == (BRIGHT if bright else DARK), []).append(float(row["probability"]))
    assert np.mean(chance[True]) > np.mean(chance[False]) + 0.2
    assert (
        "data:image/" in (here / "audit/review.html").read_text() or "webp" in (here / "audit/review.html").read_text()
    )
    assert json.loads((here / "audit/audit.json").read_text())["settings"]["weights"] == "w.pth"


def test_one_folder_for_each_label(here):
    rng = np.random.default_rng(0)
    for i in range(40):
        picture(here / "photos" / (BRIGHT if i % 2 else DARK) / f"{i}.png", (i % 2) != (i < 2), rng)
    printed = propml("audit", "photos", *MODEL)
    assert printed.code == 0, printed.err
    assert "40 items, 40 labels judged" in printed.out
    with (here / "audit/cleaned.csv").open(newline="", encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == 40
    swapped = sorted(verdicts(), key=lambda row: float(row["probability"]))[:2]
    assert {row["item"].rpartition("/")[2] for row in swapped} == {"0.png", "1.png"}


def test_a_folder_with_a_table_names_its_columns_itself(here):
    rng = np.random.default_rng(0)
    rows = ["path,candidates"]
    for i in range(20):
        picture(here / f"photos/{i}.png", i % 2, rng)
        rows.append(f"{i}.png,{BRIGHT if i % 2 else DARK}")
    (here / "photos/labels.csv").write_text("\n".join(rows) + "\n")
    printed = propml("audit", "photos", *MODEL)
    assert printed.code == 0, printed.err
    assert "20 items, 20 labels judged" in printed.out


def test_mistakes_are_told_in_one_sentence(here):
    (here / "photos").mkdir()
    assert "photos holds neither a CSV file nor folders of images" in told(propml("audit", "photos"))
    (here / "photos.csv").write_text("path,tags\nnone.png,day\nalso.png,night\n")
    words = ("audit", "photos.csv", "--candidates", "tags")
    assert "there is no file or folder none.png" in told(propml(*words, "--image", "path", *MODEL))
    assert "no column of them is named; add --image" in told(propml(*words, *MODEL))
    (here / "photos.csv").write_text("path,tags\n../none.png,day\nalso.png,night\n")
    assert "item 0 has no picture that may be read" in told(propml(*words, "--image", "path", *MODEL))
