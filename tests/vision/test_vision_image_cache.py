"""Images are decoded once, whatever kills the run; those that cannot be read are named."""

import json
import os
import subprocess
import sys
import textwrap
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from propml.vision import decoding, image_cache
from propml.vision.decoding import decode_image
from propml.vision.image_cache import build_cache, decode_images
from propml.vision.sources import ImageSource, open_source

SIZE = 16


@pytest.fixture
def photos(tmp_path):
    """Twelve photos of one colour each: the number of a photo is its red value."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for i in range(12):
        Image.new("RGB", (20 + i, 30), (10 * i, 100, 200)).save(folder / f"{i:02}.png")
    return folder


def source_of(folder):
    paths = tuple(sorted(folder.glob("*.png")))
    return ImageSource("photos", paths, np.eye(len(paths), 3, dtype=np.uint8), None, ("a", "b", "c"), "train")


def reds(cached):
    return cached.images[:, 0, 0, 0].tolist()


def test_pixels_are_pillows_resized(photos, tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (33, 47, 3), dtype=np.uint8)
    Image.fromarray(noise).save(photos / "noise.png")
    cached = build_cache(source_of(photos), SIZE, tmp_path / "cache")
    assert isinstance(cached.images, np.memmap)
    assert (cached.images.dtype, cached.images.shape) == (np.uint8, (13, SIZE, SIZE, 3))
    expected = np.asarray(Image.fromarray(noise).resize((SIZE, SIZE), Image.Resampling.BILINEAR))
    np.testing.assert_array_equal(cached.images[12], expected)
    assert reds(cached)[:12] == [10 * i for i in range(12)]
    np.testing.assert_array_equal(cached.kept, np.arange(13))
    in_memory = build_cache(source_of(photos), SIZE, None, workers=3)
    np.testing.assert_array_equal(in_memory.images, cached.images)
    assert in_memory.path is None


def test_the_second_time_nothing_is_decoded(photos, tmp_path, monkeypatch):
    first = build_cache(source_of(photos), SIZE, tmp_path / "cache")
    monkeypatch.setattr(decoding, "decode_image", lambda *_: pytest.fail("decoded again"))
    second = build_cache(source_of(photos), SIZE, tmp_path / "cache")
    assert second.path == first.path
    np.testing.assert_array_equal(first.images, second.images)
    assert not second.images.flags.writeable


def test_another_file_or_size_is_another_cache(photos, tmp_path):
    places = {build_cache(source_of(photos), SIZE, tmp_path / "cache").path}
    places.add(build_cache(source_of(photos), SIZE + 1, tmp_path / "cache").path)
    Image.new("RGB", (20, 30), (250, 0, 0)).save(photos / "00.png")
    os.utime(photos / "00.png", ns=(1, 1))
    changed = build_cache(source_of(photos), SIZE, tmp_path / "cache")
    places.add(changed.path)
    places.add(build_cache(source_of(photos).take(slice(3)), SIZE, tmp_path / "cache").path)
    assert len(places) == 4
    assert reds(changed)[0] == 250


def damage(photos):
    (photos / "03.png").write_bytes((photos / "03.png").read_bytes()[:60])
    (photos / "07.png").write_text("not an image")
    (photos / "09.png").unlink()


def test_what_cannot_be_read_is_left_out_and_named(photos, tmp_path):
    source = source_of(photos)
    damage(photos)
    for folder in (tmp_path / "cache", tmp_path / "cache", None):  # the second time from the cache
        cached = build_cache(source, SIZE, folder)
        assert cached.kept.tolist() == [0, 1, 2, 4, 5, 6, 8, 10, 11]
        assert reds(cached) == [10 * i for i in cached.kept]
        assert [Path(path).name for path, _ in cached.skipped] == ["03.png", "07.png", "09.png"]
        assert cached.skipped[2][1] == "there is no such file"
        assert "9 images; 3 could not be read and are left out" in cached.describe()
        assert str(photos / "07.png") in cached.describe()


def test_or_is_an_error_that_names_it(photos, tmp_path):
    source = source_of(photos)
    damage(photos)
    for folder in (tmp_path / "cache", None):
        with pytest.raises(ValueError, match=r"03\.png cannot be read .*leave it out"):
            build_cache(source, SIZE, folder, on_error="error")
    build_cache(source, SIZE, tmp_path / "cache")
    with pytest.raises(ValueError, match=r"03\.png cannot be read"):  # known from the cache
        build_cache(source, SIZE, tmp_path / "cache", on_error="error")


def test_such_an_error_leaves_no_half_of_a_cache(photos, tmp_path):
    source = source_of(photos)
    damage(photos)
    with pytest.raises(ValueError, match=r"03\.png cannot be read"):
        build_cache(source, SIZE, tmp_path / "cache", on_error="error")
    assert not [path for path in (tmp_path / "cache").iterdir() if path.is_dir()]


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), PermissionError(13, "Permission denied")])
def test_what_the_system_could_not_read_is_read_the_next_time(photos, tmp_path, monkeypatch, error):
    decode, decoded = decoding.decode_image, []

    def failing(path, size):
        decoded.append(path.name)
        if path.name == "05.png":
            raise error
        return decode(path, size)

    source = source_of(photos)
    damage(photos)
    monkeypatch.setattr(decoding, "decode_image", failing)
    first = build_cache(source, SIZE, tmp_path / "cache")
    assert 5 not in first.kept
    assert dict(first.skipped)[str(photos / "05.png")] == str(error)
    decoded.clear()
    assert build_cache(source, SIZE, tmp_path / "cache").skipped == first.skipped
    assert decoded == ["05.png"]  # it fails again: nothing else is read
    monkeypatch.setattr(decoding, "decode_image", decode)
    second = build_cache(source, SIZE, tmp_path / "cache")
    assert second.kept.tolist() == [0, 1, 2, 4, 5, 6, 8, 10, 11]
    assert reds(second) == [10 * i for i in second.kept]


def test_a_run_that_goes_on_reads_again_what_the_system_could_not(photos, tmp_path, monkeypatch):
    decode = decoding.decode_image

    def failing(path, size):
        if path.name == "01.png":
            raise OSError(5, "Input/output error")
        if path.name == "08.png":
            raise MemoryError
        return decode(path, size)

    monkeypatch.setattr(image_cache, "BLOCK", 4)
    monkeypatch.setattr(decoding, "decode_image", failing)
    with pytest.raises(MemoryError):
        build_cache(source_of(photos), SIZE, tmp_path / "cache")
    decoded = []
    monkeypatch.setattr(decoding, "decode_image", lambda p, size: decoded.append(p.name) or decode(p, size))
    assert reds(build_cache(source_of(photos), SIZE, tmp_path / "cache", workers=1)) == [10 * i for i in range(12)]
    assert decoded == ["01.png", *(f"{i:02}.png" for i in range(12))]  # it can be read now, so the rest moves


def test_nothing_to_read_is_an_error(photos, tmp_path):
    source = source_of(photos)
    for path in source.items:
        path.unlink()
    for folder in (tmp_path / "cache", None):
        with pytest.raises(ValueError, match=r"none of the 12 images of photos can be read; .*00\.png: there is no"):
            build_cache(source, SIZE, folder)
    assert len(decode_images(source, SIZE)) == 0


def test_a_killed_run_goes_on_where_it_stopped(photos, tmp_path, monkeypatch):
    code = textwrap.dedent(
        f"""
        import os, signal
        from pathlib import Path
        import numpy as np
        from propml.vision import decoding, image_cache
        from propml.vision.sources import ImageSource
        image_cache.BLOCK = 4
        decode = decoding.decode_image
        def stop_at_the_ninth(path, size):
            if path.name == "08.png":
                os.kill(os.getpid(), signal.SIGKILL)
            return decode(path, size)
        decoding.decode_image = stop_at_the_ninth
        paths = tuple(sorted(Path({str(photos)!r}).glob("*.png")))
        source = ImageSource("photos", paths, None, None, ("a",), "train")
        image_cache.build_cache(source, {SIZE}, {str(tmp_path / "cache")!r}, workers=1)
        """
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == -9
    decoded = []
    decode = decoding.decode_image
    monkeypatch.setattr(image_cache, "BLOCK", 4)
    monkeypatch.setattr(decoding, "decode_image", lambda p, size: decoded.append(p.name) or decode(p, size))
    cached = build_cache(source_of(photos), SIZE, tmp_path / "cache", workers=1)
    assert decoded == [f"{i:02}.png" for i in range(8, 12)]
    assert reds(cached) == [10 * i for i in range(12)]
    assert [path.name for path in (tmp_path / "cache").iterdir() if path.is_dir()] == [cached.path.name]
    assert sorted(path.name for path in cached.path.iterdir()) == ["images.npy", "index.json"]


def test_a_cache_of_an_older_version_is_whole(photos, tmp_path, monkeypatch):
    damage(photos)
    whole = build_cache(source_of(photos), SIZE, tmp_path / "cache")
    index = json.loads((whole.path / "index.json").read_text())
    del index["done"]
    (whole.path / "index.json").write_text(json.dumps(index))
    pixels = np.array(whole.images)
    np.save(whole.path / "images.npy", pixels)  # without room for those that cannot be read
    monkeypatch.setattr(decoding, "decode_image", lambda *_: pytest.fail("decoded again"))
    again = build_cache(source_of(photos), SIZE, tmp_path / "cache")
    np.testing.assert_array_equal(again.images, pixels)
    assert again.skipped == whole.skipped


def test_a_damaged_cache_is_not_taken(photos, tmp_path):
    place = build_cache(source_of(photos), SIZE, tmp_path / "cache").path
    content = (place / "images.npy").read_bytes()
    for broken in (content[:-100], b"nonsense"):
        (place / "images.npy").write_bytes(broken)
        with pytest.raises(ValueError, match=r"is not a readable image cache .*; delete that folder"):
            build_cache(source_of(photos), SIZE, tmp_path / "cache")
    np.save(place / "images.npy", np.zeros((3, SIZE, SIZE, 3), np.uint8))
    with pytest.raises(ValueError, match=r"is not a readable image cache .*; delete that folder"):
        build_cache(source_of(photos), SIZE, tmp_path / "cache")


def test_arrays_are_resized_too_and_used_as_they_are_where_they_fit(tmp_path):
    source = open_source("digits-mosaic", n_samples=5)
    assert build_cache(source, 16, tmp_path).images is source.items
    assert not list(tmp_path.iterdir())
    larger = build_cache(source, 24, tmp_path)
    expected = np.asarray(Image.fromarray(source.items[2]).resize((24, 24), Image.Resampling.BILINEAR))
    np.testing.assert_array_equal(larger.images[2], expected)
    other = build_cache(open_source("digits-mosaic", n_samples=5, random_state=1), 24, tmp_path)
    assert other.path != larger.path


def test_images_of_all_kinds_become_upright_rgb(tmp_path):
    half = Image.new("RGBA", (8, 8), (255, 0, 0, 0))
    half.paste((0, 0, 255, 255), (0, 0, 8, 4))
    half.save(tmp_path / "transparent.png")
    seen = decode_image(tmp_path / "transparent.png", 8)
    assert seen[0, 0].tolist() == [0, 0, 255]
    assert seen[7, 7].tolist() == [255, 255, 255]
    Image.fromarray(np.full((4, 4), 40_000, np.uint16)).save(tmp_path / "deep.png")
    assert decode_image(tmp_path / "deep.png", 4)[0, 0].tolist() == [40_000 >> 8] * 3
    Image.new("L", (4, 4), 90).save(tmp_path / "grey.png")
    assert decode_image(tmp_path / "grey.png", 4)[0, 0].tolist() == [90] * 3
    Image.new("CMYK", (4, 4), (0, 255, 255, 0)).save(tmp_path / "print.jpg", quality=100)
    assert decode_image(tmp_path / "print.jpg", 4)[0, 0, 0] > 240
    lying = Image.new("RGB", (8, 8))
    lying.paste((255, 255, 255), (0, 0, 8, 4))
    turned = lying.getexif()
    turned[0x0112] = 6  # the camera was held upright
    lying.save(tmp_path / "turned.jpg", exif=turned, quality=100)
    upright = decode_image(tmp_path / "turned.jpg", 8)
    assert upright[4, 7, 0] > 200 > 50 > upright[4, 0, 0]


def pgm(path, values):
    """A PGM of 16 bits, written by hand."""
    height, width = values.shape
    path.write_bytes(f"P5 {width} {height} 65535\n".encode() + values.astype(">u2").tobytes())


def test_deep_grey_is_scaled_or_refused_by_name(tmp_path):
    for value in (40_000, 200):
        pgm(tmp_path / "deep.pgm", np.full((4, 4), value))
        assert decode_image(tmp_path / "deep.pgm", 4)[0, 0].tolist() == [value >> 8] * 3
    for value, seen in ((40_000, 40_000 >> 8), (200, 200)):
        Image.fromarray(np.full((4, 4), value, np.int32)).save(tmp_path / "deep.tif")
        assert decode_image(tmp_path / "deep.tif", 4)[0, 0].tolist() == [seen] * 3
    for pixels, told in (
        (np.full((4, 4), 70_000, np.int32), "its pixels go from 70000 to 70000, beyond 16 bits"),
        (np.full((4, 4), -1, np.int32), "its pixels go from -1 to -1"),
        (np.full((4, 4), 0.5, np.float32), "its pixels are fractions"),
    ):
        Image.fromarray(pixels).save(tmp_path / "odd.tif")
        source = ImageSource("odd", (tmp_path / "odd.tif",), None, None, ("a",), "train")
        with pytest.raises(ValueError, match=rf"odd\.tif cannot be read \({told}.*save it with 8 or 16 bits"):
            build_cache(source, 4, None, on_error="error")


def test_broken_exif_is_as_good_as_none(tmp_path):
    Image.new("RGB", (8, 8), (200, 0, 0)).save(tmp_path / "plain.png")
    content = (tmp_path / "plain.png").read_bytes()
    chunk = b"eXIf" + b"no EXIF at all"
    broken = (len(chunk) - 4).to_bytes(4, "big") + chunk + zlib.crc32(chunk).to_bytes(4, "big")
    end_of_header = 8 + 25
    (tmp_path / "broken.png").write_bytes(content[:end_of_header] + broken + content[end_of_header:])
    torn = Image.Exif()
    torn[0x010F] = "a camera of some length"
    Image.new("RGB", (8, 8), (200, 0, 0)).save(tmp_path / "broken.jpg", exif=torn.tobytes()[:-20])
    paths = (tmp_path / "broken.png", tmp_path / "broken.jpg")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cached = build_cache(ImageSource("odd", paths, None, None, ("a",), "train"), 8, None)
    assert cached.skipped == ()
    assert all(red > 190 for red in reds(cached))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere names are text")
def test_names_that_are_no_text(photos, tmp_path):
    (photos / "00.png").rename(os.fsdecode(os.fsencode(photos) + b"/\xff.png"))
    assert len(build_cache(source_of(photos), SIZE, tmp_path / "cache")) == 12


def test_wrong_arguments_are_named(photos):
    with pytest.raises(ValueError, match="on_error is 'ignore'"):
        build_cache(source_of(photos), 8, None, on_error="ignore")
    with pytest.raises(ValueError, match="photos has no images"):
        build_cache(source_of(photos).take(slice(0)), 8, None)


def test_running_out_of_memory_is_not_a_damaged_image(photos, monkeypatch):
    def full(path, size):
        raise MemoryError

    monkeypatch.setattr(decoding, "decode_image", full)
    with pytest.raises(MemoryError):
        build_cache(source_of(photos), SIZE, None)


def test_without_locks_it_works_too(photos, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)
    assert len(build_cache(source_of(photos), SIZE, tmp_path / "cache")) == 12


def test_two_processes_decode_once(photos, tmp_path):
    code = textwrap.dedent(
        f"""
        import sys
        from pathlib import Path
        from propml.vision import decoding, image_cache
        from propml.vision.sources import ImageSource
        decode = decoding.decode_image
        def counted(path, size):
            Path(sys.argv[1]).open("a").write(path.name + "\\n")
            return decode(path, size)
        decoding.decode_image = counted
        paths = tuple(sorted(Path({str(photos)!r}).glob("*.png")))
        source = ImageSource("photos", paths, None, None, ("a",), "train")
        print(len(image_cache.build_cache(source, {SIZE}, {str(tmp_path / "cache")!r})))
        """
    )
    log = tmp_path / "log"
    log.touch()
    both = [
        subprocess.Popen([sys.executable, "-c", code, str(log)], stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    assert [process.communicate()[0].strip() for process in both] == ["12", "12"]
    assert len(log.read_text().splitlines()) == 12
