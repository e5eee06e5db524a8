"""Which image files are opened, and by whom."""

import io

import pytest
from PIL import EpsImagePlugin, Image

from propml.auditing.evidence import thumbnails
from propml.vision.decoding import FORMATS, find_images, open_image
from propml.vision.image_cache import decode_images
from propml.vision.sources import ImageSource

POSTSCRIPT = (
    b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\n(/etc/passwd) (r) file\nshowpage\n%%EOF\n"
)


@pytest.fixture
def called(monkeypatch):
    """Every call of Ghostscript."""
    calls = []

    def ghostscript(*arguments, **_):
        calls.append(arguments)
        return Image.new("RGB", (10, 10)).im

    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", ghostscript)
    return calls


def test_postscript_named_as_a_photo_is_left_out_and_no_program_is_started(tmp_path, called):
    (tmp_path / "photo.jpg").write_bytes(POSTSCRIPT)
    Image.open(tmp_path / "photo.jpg").load()
    assert len(called) == 1  # this is what Pillow does where nobody says which formats are meant
    source = ImageSource("photos", (tmp_path / "photo.jpg",), None, None, (), "train")
    skipped = decode_images(source, 8, verbose=False).skipped
    assert len(skipped) == 1
    assert "cannot identify image file" in skipped[0][1]
    with pytest.warns(UserWarning, match="1 pictures cannot be shown, first that of row 0: cannot identify"):
        assert thumbnails([str(tmp_path / "photo.jpg")], [0]) == {}
    assert len(called) == 1


def test_a_folder_is_searched_for_the_formats_that_are_opened(tmp_path):
    for name in ("a.jpg", "b.png", "c.eps", "d.txt"):
        (tmp_path / name).write_bytes(POSTSCRIPT)
    assert [path.name for path in find_images([tmp_path])] == ["a.jpg", "b.png"]
    assert "EPS" not in FORMATS


@pytest.mark.parametrize("form", ["BMP", "GIF", "JPEG", "JPEG2000", "PNG", "PPM", "TGA", "TIFF", "WEBP"])
def test_the_usual_formats_are_opened(form):
    made = io.BytesIO()
    Image.new("RGB", (5, 4), "red").save(made, form)
    with open_image(made) as opened:
        assert (opened.format, opened.size) == (form, (5, 4))
