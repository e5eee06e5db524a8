"""Facts about thumbnails: what can be shown is shown small, and what cannot is said once."""

import base64
import importlib.util
import io
import json
import re

import numpy as np
import pytest
from fake_report import fake_pictures, fake_report
from PIL import Image
from review_pages import render_review

from propml.auditing.evidence import thumbnails


def opened(text):
    kind, _, body = text.partition(";base64,")
    image = Image.open(io.BytesIO(base64.b64decode(body)))
    assert image.format.lower() == kind
    return image


def photo(width=400, height=200):
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, size=(height, width, 3)).astype(np.uint8))


def test_paths_bytes_images_and_arrays_look_the_same(tmp_path):
    path = tmp_path / "photo.png"
    photo().save(path)
    made = thumbnails([path, str(path), path.read_bytes(), photo(), np.asarray(photo()), None], range(6))
    assert sorted(made) == [0, 1, 2, 3, 4]
    assert len(set(made.values())) == 1
    assert opened(made[0]).size == (192, 96)
    assert made[0].startswith("jpeg;base64,")


def test_a_turned_jpeg_stands_upright(tmp_path):
    path = tmp_path / "turned.jpg"
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees
    photo().save(path, exif=exif)
    assert opened(thumbnails([path], [0])[0]).size == (96, 192)


def test_few_pixels_are_enlarged_as_they_are():
    digits = np.array([[0, 16], [8, 4]], dtype=np.uint8)
    image = opened(thumbnails([digits], [0])[0])
    assert image.format == "PNG"
    assert image.size == (192, 192)
    assert [image.getpixel(at)[0] for at in ((0, 0), (191, 0), (0, 191), (95, 95), (96, 96))] == [0, 16, 8, 0, 4]


def test_numbers_that_are_not_bytes():
    grey = thumbnails([np.array([[0.0, 1.0], [0.5, np.nan]]), np.array([[[-10], [10]], [[0], [0]]])], [0, 1])
    unit, stretched = opened(grey[0]), opened(grey[1])
    assert [unit.getpixel(at)[0] for at in ((0, 0), (191, 0), (0, 191))] == [0, 255, 128]
    assert [stretched.getpixel(at)[0] for at in ((0, 0), (191, 0), (0, 191))] == [0, 255, 128]


def test_sixteen_bits_and_transparency():
    deep = Image.fromarray(np.array([[0, 60_000]], dtype=np.uint16))
    clear = Image.new("RGBA", (4, 4), (0, 0, 0, 0))
    made = thumbnails([deep, clear], [0, 1])
    assert [opened(made[0]).getpixel(at)[0] for at in ((0, 0), (191, 0))] == [0, 255]
    assert opened(made[1]).getpixel((0, 0)) == (255, 255, 255)


def test_what_cannot_be_read_is_said_once(tmp_path):
    (tmp_path / "text.png").write_text("no picture")
    broken = [tmp_path / "text.png", tmp_path / "nowhere.png", np.zeros((2, 2, 2, 2)), np.zeros((0, 0)), photo()]
    with pytest.warns(UserWarning, match="4 pictures cannot be shown, first that of row 0: cannot identify"):
        assert list(thumbnails(broken, range(5))) == [4]


def test_without_pillow_there_are_none(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "PIL" else find(name))
    assert thumbnails([photo()], [0]) == {}


def test_the_page_holds_those_of_the_most_suspicious_items(tmp_path):
    report = fake_report(30)
    page = render_review(report, images=fake_pictures(30), max_images=5)
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])
    told = report.verdicts()
    suspicion = np.where(told.verdict == "missing", told.probability, 1 - told.probability)
    worst = [suspicion[told.row == row].max() for row in range(30)]
    expected = {report.item_ids[row] for row in np.argsort(worst)[-5:]}
    assert {data["items"][int(n)] for n in data["pictures"]} == expected
    assert len(page) < 150_000


def test_a_picture_that_is_not_in_the_page_is_named(tmp_path):
    paths = []
    for n in range(3):
        paths.append(tmp_path / f"photo-{n}.png")
        photo().save(paths[-1])
    page = render_review(fake_report(3), images=paths, max_images=1)
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])
    assert data["texts"] == ["photo-0.png", "photo-1.png", "photo-2.png"]
    assert str(tmp_path) not in page
    assert len(data["pictures"]) == 1
