"""A small file that becomes a large one is refused, and the sentence says how to allow it."""

import gzip
import io
import lzma
import tarfile
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from scipy.io import savemat

from propml import unpacking
from propml.auditing.evidence import thumbnails
from propml.datasets.locations import extract
from propml.tables import open_table, read_dataset
from propml.unpacking import TooLarge, open_unpacked
from propml.vision.image_cache import decode_images
from propml.vision.sources import ImageSource

MEBIBYTE = 2**20
ZEROS = bytes(4 * MEBIBYTE)
DENSE = np.zeros((1024, 512))


def tarred(content: bytes) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        member = tarfile.TarInfo("zeros")
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
    return made.getvalue()


def write_bomb(path):
    """A file of a few kilobytes that holds four mebibytes of zeros, of the format that its name tells."""
    kind = path.name.partition(".")[2]
    if kind == "npz":
        np.savez_compressed(path, X=DENSE, candidates=np.ones((1024, 2)))
    elif kind == "mat":
        savemat(path, {"data": DENSE, "partial_labels": np.ones((2, 1024))}, do_compression=True)
    elif kind == "parquet":
        pq.write_table(pa.table({"x": np.zeros(MEBIBYTE)}), path)
    elif kind == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
            zipped.writestr("zeros", ZEROS)
    elif kind.startswith("tar"):
        path.write_bytes((gzip if kind.endswith("gz") else lzma).compress(tarred(ZEROS)))
    else:
        start = {"svm.gz": b"1 1:1\n" * MEBIBYTE}.get(kind, b"x,tags\n")
        path.write_bytes(gzip.compress(start + ZEROS))
    assert path.stat().st_size < 100_000


READERS = {
    "bomb.csv.gz": (open_table, lambda path: read_dataset(path, candidates="tags")),
    "bomb.arff.gz": (open_table,),
    "bomb.svm.gz": (open_table, read_dataset),
    "bomb.npz": (open_table, read_dataset),
    "bomb.mat": (open_table,),
    "bomb.parquet": (open_table, lambda path: read_dataset(path, candidates="x")),
    "bomb.zip": (lambda path: extract([path], path.parent / "out", verbose=False),),
    "bomb.tar.gz": (lambda path: extract([path], path.parent / "out", verbose=False),),
    "bomb.tar.xz": (lambda path: extract([path], path.parent / "out", verbose=False),),
}


@pytest.mark.parametrize("name", READERS)
def test_what_becomes_larger_than_allowed_is_refused(name, tmp_path, monkeypatch):
    monkeypatch.setenv("PROPML_UNPACK_GIB", str(1 / 1024))
    write_bomb(tmp_path / name)
    for read in READERS[name]:
        with pytest.raises(TooLarge) as error:
            read(tmp_path / name)
        told = str(error.value)
        assert str(tmp_path / name) in told
        assert "1.0 MiB are allowed" in told
        assert "PROPML_UNPACK_GIB" in told
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["bomb.npz", "bomb.mat", "bomb.parquet", "bomb.zip", "bomb.tar.gz"])
def test_what_is_allowed_is_read(name, tmp_path, monkeypatch):
    monkeypatch.setenv("PROPML_UNPACK_GIB", "0.02")
    write_bomb(tmp_path / name)
    READERS[name][0](tmp_path / name)


def test_two_hundred_times_the_file_is_allowed_and_half_a_gibibyte_of_any(tmp_path, monkeypatch):
    monkeypatch.delenv("PROPML_UNPACK_GIB", raising=False)
    path = tmp_path / "zeros.csv.gz"
    path.write_bytes(gzip.compress(ZEROS * 4))  # 16 MiB in 16 kB, which is 1000 to one
    assert unpacking.AT_LEAST == 2**29
    with open_unpacked(path) as file:
        assert len(file.read()) == 16 * MEBIBYTE
    monkeypatch.setattr(unpacking, "AT_LEAST", MEBIBYTE)
    with open_unpacked(path) as file, pytest.raises(TooLarge, match=r"would become more than 3\.\d MiB in memory"):
        file.read()
    with path.open("ab") as file:  # a member that does not shrink, so that 200 times the file is 20 MiB
        file.write(gzip.compress(np.random.default_rng(0).bytes(MEBIBYTE // 10)))
    with open_unpacked(path) as file:
        assert len(file.read()) == 16 * MEBIBYTE + MEBIBYTE // 10


def test_a_setting_that_is_no_number_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("PROPML_UNPACK_GIB", "much")
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"x"))
    with pytest.raises(ValueError, match="PROPML_UNPACK_GIB is 'much' in the environment; give a number of GiB"):
        open_unpacked(tmp_path / "a.csv.gz")


def test_a_table_may_begin_like_an_archive(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"BZh9,tags\n1,a\n2,b\n")
    assert read_dataset(tmp_path / "a.csv", candidates="tags").feature_names == ("BZh9",)


def test_an_image_of_too_many_pixels_is_left_out_and_named(tmp_path, monkeypatch):
    Image.new("L", (1000, 1000)).save(tmp_path / "large.png")
    Image.new("L", (10, 10)).save(tmp_path / "small.png")
    paths = (tmp_path / "large.png", tmp_path / "small.png")
    monkeypatch.setenv("PROPML_UNPACK_GIB", str(1 / 1024))
    found = decode_images(ImageSource("photos", paths, None, None, (), "train"), 8, verbose=False)
    assert (found.kept.tolist(), len(found.skipped)) == ([1], 1)
    assert "1000 × 1000 pixels, and 349525 are allowed" in found.skipped[0][1]
    with pytest.warns(UserWarning, match="1 pictures cannot be shown, first that of row 0: it has 1000 × 1000 pixels"):
        assert list(thumbnails(paths, [0, 1])) == [1]


def test_pillows_own_limit_is_an_error_unless_more_is_allowed(tmp_path, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 5000)
    Image.new("L", (80, 80)).save(tmp_path / "a.png")
    source = ImageSource("photos", (tmp_path / "a.png",), None, None, (), "train")
    monkeypatch.delenv("PROPML_UNPACK_GIB", raising=False)
    assert "80 × 80 pixels, and 5000 are allowed" in decode_images(source, 8, verbose=False).skipped[0][1]
    monkeypatch.setenv("PROPML_UNPACK_GIB", "1")
    assert len(decode_images(source, 8, verbose=False)) == 1
