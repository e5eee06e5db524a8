"""Images are decoded once, whatever kills the run; those that cannot be read are named."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from propml.vision import image_cache
from propml.vision.image_cache import build_cache, decode_image, decode_images
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
    assert cached.describe() == "13 images"
    in_memory = build_cache(source_of(photos), SIZE, None, workers=3)
    np.testing.assert_array_equal(in_memory.images, cached.images)
    assert in_memory.path is None


def test_the_second_time_nothing_is_decoded(photos, tmp_path, monkeypatch):
    first = build_cache(source_of(photos), SIZE, tmp_path / "cache")
    monkeypatch.setattr(image_cache, "decode_image", lambda *_: pytest.fail("decoded again"))
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
        with pytest.raises(ValueError, match=r"03\.png cannot be read .*on_error=\"skip\""):
            build_cache(source, SIZE, folder, on_error="error")
    build_cache(source, SIZE, tmp_path / "cache")
    with pytest.raises(ValueError, match=r"03\.png cannot be read"):  # known from the cache
        build_cache(source, SIZE, tmp_path / "cache", on_error="error")


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
        from propml.vision import image_cache
        from propml.vision.sources import ImageSource
        image_cache.BLOCK = 4
        decode = image_cache.decode_image
        def stop_at_the_ninth(path, size):
            if path.name == "08.png":
                os.kill(os.getpid(), signal.SIGKILL)
            return decode(path, size)
        image_cache.decode_image = stop_at_the_ninth
        paths = tuple(sorted(Path({str(photos)!r}).glob("*.png")))
        source = ImageSource("photos", paths, None, None, ("a",), "train")
        image_cache.build_cache(source, {SIZE}, {str(tmp_path / "cache")!r}, workers=1)
        """
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == -9
    assert len(list((tmp_path / "cache").glob("*.partial"))) == 1
    decoded = []
    decode = image_cache.decode_image
    monkeypatch.setattr(image_cache, "BLOCK", 4)
    monkeypatch.setattr(image_cache, "decode_image", lambda p, size: decoded.append(p.name) or decode(p, size))
    cached = build_cache(source_of(photos), SIZE, tmp_path / "cache", workers=1)
    assert decoded == [f"{i:02}.png" for i in range(8, 12)]
    assert reds(cached) == [10 * i for i in range(12)]
    assert [path.name for path in (tmp_path / "cache").iterdir() if path.is_dir()] == [cached.path.name]
    assert sorted(path.name for path in cached.path.iterdir()) == ["images.npy", "index.json"]


def test_a_torn_line_of_the_journal_is_as_good_as_none(photos, tmp_path, monkeypatch):
    monkeypatch.setattr(image_cache, "BLOCK", 4)
    whole = build_cache(source_of(photos), SIZE, tmp_path / "cache")
    partial = whole.path.with_name(f"{whole.path.name}.partial")
    whole.path.rename(partial)
    (partial / "images.npy").rename(partial / "decoded.npy")
    (partial / "index.json").unlink()
    lines = [json.dumps({"start": start, "failed": {}}) for start in (0, 4, 8)]
    (partial / "journal.jsonl").write_text("\n".join([*lines[:2], lines[2][:9]]))
    stored = np.load(partial / "decoded.npy", mmap_mode="r+")
    stored[:] = 7
    stored.flush()
    again = build_cache(source_of(photos), SIZE, tmp_path / "cache")
    assert reds(again) == [7] * 8 + [80, 90, 100, 110]  # the last block was decoded again


def test_a_damaged_cache_is_not_taken(photos, tmp_path):
    place = build_cache(source_of(photos), SIZE, tmp_path / "cache").path
    content = (place / "images.npy").read_bytes()
    for broken in (content[:-100], b"nonsense"):
        (place / "images.npy").write_bytes(broken)
        with pytest.raises(ValueError, match=r"is damaged.*delete that folder"):
            build_cache(source_of(photos), SIZE, tmp_path / "cache")
    np.save(place / "images.npy", np.zeros((3, SIZE, SIZE, 3), np.uint8))
    with pytest.raises(ValueError, match="is damaged; delete that folder"):
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


def test_wrong_arguments_are_named(photos):
    with pytest.raises(ValueError, match="size is 0"):
        build_cache(source_of(photos), 0, None)
    with pytest.raises(ValueError, match="on_error is 'ignore'"):
        build_cache(source_of(photos), 8, None, on_error="ignore")
    with pytest.raises(ValueError, match="photos has no images"):
        build_cache(source_of(photos).take(slice(0)), 8, None)


def test_running_out_of_memory_is_not_a_damaged_image(photos, monkeypatch):
    def full(path, size):
        raise MemoryError

    monkeypatch.setattr(image_cache, "decode_image", full)
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
        from propml.vision import image_cache
        from propml.vision.sources import ImageSource
        decode = image_cache.decode_image
        def counted(path, size):
            Path(sys.argv[1]).open("a").write(path.name + "\\n")
            return decode(path, size)
        image_cache.decode_image = counted
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
