"""Small whole files of every foreign format, and the ways in which a user's files are read."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import random
import tarfile
import warnings
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet as pq
import scipy.io
import scipy.sparse as sp
from PIL import Image

from propml.auditing.evidence import thumbnails
from propml.corruption.files import read_clean
from propml.datasets import read_mat, read_mulan
from propml.datasets.images import read_coco, read_voc
from propml.datasets.locations import extract
from propml.extras import installed
from propml.tables import read_dataset
from propml.tables.features import learn_features
from propml.tables.files import read_table as read_user_table
from propml.tables.files import write_cleaned
from propml.tables.sources import open_table
from propml.vision.image_cache import build_cache
from propml.vision.sources import ImageSource, read_own_images
from storm.byte_damage import damaged

Damage = Callable[[bytes, random.Random], bytes]


@dataclass(frozen=True)
class Kind:
    """A format: what is whole, how it is damaged, where the file goes, and who reads it.

    Attributes
    ----------
    file : str
        The path of the file that is damaged, seen from a folder; a message must contain its name.
    content : bytes
        What stands in it while it is whole.
    readers : tuple of callable
        From the path to anything.
    damage : callable
        By default of the bytes as they are; for a packed file also of what is in the package.
    beside : dict of str to bytes
        Other files of the folder.
    """

    file: str
    content: bytes
    readers: tuple[Callable[[Path], Any], ...]
    damage: Damage = damaged
    beside: tuple[tuple[str, bytes], ...] = ()


def within_gzip(content: bytes, rng: random.Random) -> bytes:
    return gzip.compress(damaged(gzip.decompress(content), rng), 1)


def within_zip(content: bytes, rng: random.Random) -> bytes:
    """A member or a name damaged, with checksums that are right."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(made, "w") as new:
        chosen = rng.choice(old.namelist())
        for name in old.namelist():
            body = old.read(name)
            if name == chosen and rng.random() < 0.1:
                name = damaged(name.encode(), rng).decode("latin-1").lstrip("\0") or "x"
            elif name == chosen:
                body = damaged(body, rng)
            new.writestr(name[:60_000], body)
    return made.getvalue()


def within_mat(content: bytes, rng: random.Random) -> bytes:
    """The variables of a MATLAB file damaged before they are deflated."""
    size = int.from_bytes(content[132:136], "little")
    body = zlib.compress(damaged(zlib.decompress(content[136 : 136 + size]), rng), 1)
    return content[:132] + len(body).to_bytes(4, "little") + body + content[136 + size :]


ROWS = 12
TABLE = "id,x,y,when,words,tags,photo\n" + "".join(
    f"{i},{i * 0.5},{i % 3},2024-01-{i + 1:02d},sun and sea {i % 4},{'a;b' if i % 2 else 'b'},{i % 3}.png\n"
    for i in range(ROWS)
)
VOTES = "item,annotator,label\n" + "".join(f"{i},{who},{'ab'[i % 2]}\n" for i in range(ROWS) for who in ("ann", "bob"))
X = np.random.default_rng(0).normal(size=(ROWS, 4)) * (np.random.default_rng(1).random((ROWS, 4)) < 0.6)
GIVEN = (np.arange(ROWS * 3).reshape(ROWS, 3) % 3 == 0).astype(np.int8)
GIVEN[:, 0] = 1
ARFF = (
    "@relation 'toy: -C 2'\n@attribute x numeric\n@attribute kind {red,'light blue'}\n"
    "@attribute a {0,1}\n@attribute b {0,1}\n@data\n" + "0.5,red,1,0\n1.5,'light blue',0,1\n" * 5
)
SPARSE_ARFF = (
    ARFF.partition("@data")[0].replace("{red,'light blue'}", "{0,1,2}") + "@data\n" + "{0 1.5,3 1}\n{1 2,2 1}\n{}\n" * 4
)
XML = b'<?xml version="1.0"?><labels xmlns="http://mulan"><label name="a"/><label name="b"></label></labels>'
SVM = "".join(f"{i % 2},{2 + i % 3} 1:{i * 0.5} 3:1 7:{i}\n" for i in range(ROWS))
COCO = {
    "images": [{"id": i, "file_name": f"{i}.jpg"} for i in range(5)],
    "categories": [{"id": 1, "name": "cat"}, {"id": 7, "name": "dog"}],
    "annotations": [{"image_id": i, "category_id": 1 if i % 2 else 7} for i in range(5)],
}
OBJECT = b"<annotation><filename>000001.jpg</filename><object><name>cat</name></object></annotation>"
LISTING = b"000001\n000002 1\n000003 -1\n"


def _npz(**arrays: Any) -> bytes:
    made = io.BytesIO()
    np.savez(made, **arrays)
    return made.getvalue()


def _mat(compress: bool, **variables: Any) -> bytes:
    made = io.BytesIO()
    scipy.io.savemat(made, variables, do_compression=compress)
    return made.getvalue()


def _columns() -> pa.Table:
    tags = [["a", "b"] if i % 2 else ["b"] for i in range(ROWS)]
    columns = {
        "id": np.arange(ROWS), "x": X[:, 0], "vector": X.tolist(), "words": ["sun and sea", "sea"] * (ROWS // 2),
        "tags": tags, "when": np.arange(ROWS).astype("datetime64[D]"), "gap": [None, 1] * (ROWS // 2),
    }  # fmt: skip
    return pa.table(columns)


def _parquet(**options: Any) -> bytes:
    made = io.BytesIO()
    pq.write_table(_columns(), made, **options)
    return made.getvalue()


def _arrow(in_stream: bool) -> bytes:
    """A Feather file without compression, or a stream of batches whose labels are numbers of classes."""
    made = io.BytesIO()
    if not in_stream:
        pyarrow.feather.write_feather(_columns(), made, compression="uncompressed")
        return made.getvalue()
    features = {"info": {"features": {"tags": {"feature": {"_type": "ClassLabel", "names": ["a", "b"]}}}}}
    labels = pa.table({"x": X[:, 0], "tags": [[0, 1], [1]] * (ROWS // 2)})
    labels = labels.replace_schema_metadata({"huggingface": json.dumps(features)})
    with pyarrow.ipc.new_stream(made, labels.schema) as file:
        file.write_table(labels, 5)
    return made.getvalue()


def _workbook() -> bytes:
    import openpyxl

    made, book = io.BytesIO(), openpyxl.Workbook()
    for line in TABLE.splitlines():
        book.active.append(line.split(","))
    book.save(made)
    return made.getvalue()


def _lines(*objects: Any) -> bytes:
    return "\n".join(json.dumps(each) for each in objects).encode()


OBJECTS = [{"id": i, "meta": {"tags": ["a", "b"][i % 2 :], "x": i * 0.5}, "text": "sun and sea"} for i in range(ROWS)]
TASKS = [
    {"id": i, "data": {"text": "sun and sea", "x": i}, "predictions": [], "annotations": [
        {"completed_by": who, "was_cancelled": False, "result": [
            {"type": "choices", "from_name": "t", "to_name": "x", "value": {"choices": ["a", "b"][i % 2 :]}}]}
        for who in (1, 2)]}
    for i in range(ROWS)
]  # fmt: skip
CHOICES = [
    {"text": f"sun and sea {i % 3}", "_input_hash": i // 2, "accept": ["a", "b"][i % 2 :], "answer": "accept",
     "_annotator_id": f"u{i % 2}", "x": i}
    for i in range(ROWS)
]  # fmt: skip
RECORDS = [
    {"id": f"r{i}", "fields": {"text": "sun and sea"}, "metadata": {"x": i},
     "suggestions": {"q": {"value": ["a"], "score": [0.5], "agent": "m"}},
     "responses": {"q": [{"value": ["a", "b"][i % 2 :], "user_id": "u"}]}}
    for i in range(ROWS)
]  # fmt: skip
FLAT_RECORDS = [
    {"id": f"r{i}", "text": "sun and sea", "x": i, "q.suggestion": ["a"], "q.suggestion.score": [0.5],
     "q.suggestion.agent": "m", "q.responses": [["a", "b"][i % 2 :]], "q.responses.users": ["u"]}
    for i in range(ROWS)
]  # fmt: skip
ANSWERS = [
    {"item": str(i), "model": who, "labels": ["a", "b"][i % 2 :], "confidence": {"a": 0.5, "b": 0.25}}
    for i in range(ROWS) for who in ("m", "n")
]  # fmt: skip


def _matrix() -> bytes:
    made = io.BytesIO()
    np.save(made, np.arange(ROWS * 3).reshape(ROWS, 3) % 4 - 1)
    return made.getvalue()


def _picture(form: str) -> bytes:
    made = io.BytesIO()
    pixels = np.random.default_rng(2).integers(0, 255, (24, 20, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(made, form)
    return made.getvalue()


def _zip() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name in ("set/", "set/a.txt", "set/b/c.txt"):
            zipped.writestr(name, "" if name.endswith("/") else "content " * 20)
    return made.getvalue()


def _tar() -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name in ("set/a.txt", "set/" + "long/" * 30 + "c.txt"):
            member = tarfile.TarInfo(name)
            member.size = 160
            tar.addfile(member, io.BytesIO(b"content " * 20))
    return made.getvalue()


def _doccano_zip() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as zipped:
        for name in ("ann", "bob"):
            lines = [{"id": i, "text": "sun and sea", "x": i, "label": ["a", name][i % 2 :]} for i in range(ROWS)]
            zipped.writestr(f"{name}.jsonl", _lines(*lines))
    return made.getvalue()


def _user(path: Path, **options: Any) -> None:
    learn_features(read_user_table(path, **options))


def _voted(path: Path) -> None:
    read_user_table(path.with_name("items.csv"), id_column="id", votes=path)


def _exported(path: Path) -> None:
    """Read as the export of a tool, and written again with all labels."""
    table = read_user_table(path)
    write_cleaned(table, table.candidates, path.with_name("again"))
    learn_features(table)


def _unpacked(path: Path) -> None:
    extract([path], path.parent / "unpacked", verbose=False)


def _decoded(path: Path) -> None:
    source = ImageSource("photos", (path,), None, None, (), "train")
    build_cache(source, 8, None, on_error="error", workers=1, verbose=False)


def _shown(path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        thumbnails([str(path)], [0])


def _labelled(path: Path) -> None:
    read_own_images(path, path="photo", candidates="tags")


_user_tags = partial(_user, candidates="tags")
_own_tags = partial(read_dataset, candidates="tags", features=["x", "y"])
_arff = (read_mulan_beside := lambda path: read_mulan(path, path.with_name("toy.xml")), _user)
_npz_readers = (read_dataset, _user, read_clean)
_words = (_user_tags, partial(_user, candidates="words", sep=" "))
_text, _xml = TABLE.encode(), (("toy.xml", XML),)
_dense = _npz(X=X, candidates=GIVEN, truth=GIVEN, label_names=["a", "b", "c"])
_csr = sp.csr_array(X)
_sparse = _npz(
    X_data=_csr.data, X_indices=_csr.indices, X_indptr=_csr.indptr, X_shape=_csr.shape, candidates=GIVEN, truth=GIVEN
)
_labels = {"partial_labels": GIVEN.T.astype(float), "target": GIVEN.T.astype(float)}
_main = "VOC2007/ImageSets/Main/trainval.txt"
_annotations = tuple((f"VOC2007/Annotations/00000{i}.xml", OBJECT) for i in (1, 2, 3))
_voc = (lambda path: read_voc(path.parents[path.parts[::-1].index("VOC2007") - 1], missing="keep"),)

KINDS: dict[str, Kind] = {
    "csv": Kind("data.csv", _text, (_user_tags, _own_tags, _labelled)),
    "tsv": Kind("data.tsv", _text.replace(b",", b"\t"), (_user_tags, _own_tags)),
    "csv.gz": Kind("data.csv.gz", gzip.compress(_text), (_user_tags, _own_tags)),
    "csv.gz, within": Kind("data.csv.gz", gzip.compress(_text), (_user_tags, _own_tags), within_gzip),
    "votes": Kind("votes.csv", VOTES.encode(), (_voted,), beside=(("items.csv", _text),)),
    "parquet": Kind("data.parquet", _parquet(), (_user_tags, partial(read_dataset, candidates="tags", features=["x"]))),
    "parquet, plain": Kind(
        "data.parquet", _parquet(compression="none", use_dictionary=False), _words
    ),
    "feather": Kind("data.feather", _arrow(in_stream=False), _words),
    "arrow": Kind("data.arrow", _arrow(in_stream=True), (_user_tags,)),
    **({
        "xlsx": Kind("data.xlsx", _workbook(), (_user_tags, _own_tags)),
        "xlsx, within": Kind("data.xlsx", _workbook(), (_user_tags,), within_zip),
    } if installed("formats") else {}),
    "json": Kind("data.json", json.dumps(OBJECTS, indent=1).encode(), (partial(_user, candidates="meta.tags"),)),
    "jsonl": Kind("data.jsonl", _lines(*OBJECTS), (partial(_user, candidates="meta.tags", id_column="id"),)),
    "label studio": Kind("export.json", json.dumps(TASKS).encode(), (_exported,)),
    "prodigy": Kind("export.jsonl", _lines(*CHOICES), (_exported,)),
    "argilla": Kind("export.json", json.dumps(RECORDS).encode(), (_exported,)),
    "argilla, flat": Kind("export.jsonl", _lines(*FLAT_RECORDS), (_exported,)),
    "doccano, zip": Kind("export.zip", _doccano_zip(), (_exported,)),
    "doccano, zip, within": Kind("export.zip", _doccano_zip(), (_exported,), within_zip),
    "answers of a model": Kind("votes.jsonl", _lines(*ANSWERS), (_voted,), beside=(("items.csv", _text),)),
    "label matrix": Kind("votes.npy", _matrix(), (_voted,), beside=(("items.csv", _text),)),
    "arff": Kind("toy.arff", ARFF.encode(), _arff, beside=_xml),
    "arff, sparse": Kind("toy.arff", SPARSE_ARFF.encode(), _arff, beside=_xml),
    "arff.gz": Kind("toy.arff.gz", gzip.compress(ARFF.encode()), _arff, beside=_xml),
    "xml": Kind("toy.xml", XML, tuple(
        lambda path, read=read: read(path.with_name("toy.arff")) for read in _arff
    ), beside=(("toy.arff", ARFF.encode()),)),
    "npz": Kind("data.npz", _dense, _npz_readers),
    "npz, within": Kind("data.npz", _dense, _npz_readers, within_zip),
    "npz, sparse": Kind("data.npz", _sparse, _npz_readers),
    "npz, sparse, within": Kind("data.npz", _sparse, _npz_readers, within_zip),
    "svmlight": Kind("data.svm", SVM.encode(), (read_dataset, _user)),
    "svmlight.gz": Kind("data.svm.gz", gzip.compress(SVM.encode()), (read_dataset, _user), within_gzip),
    "mat": Kind("data.mat", _mat(False, data=X, **_labels), (read_mat, open_table)),
    "mat, sparse": Kind("data.mat", _mat(False, data=sp.csc_array(X), **_labels), (read_mat, open_table)),
    "mat, deflated": Kind("data.mat", _mat(True, data=X, **_labels), (read_mat, open_table)),
    "mat, within": Kind("data.mat", _mat(True, data=sp.csc_array(X), **_labels), (read_mat, open_table), within_mat),
    "coco": Kind("coco/annotations/instances_train2014.json", json.dumps(COCO).encode(), (
        lambda path: read_coco(path.parents[1], missing="keep"),
    )),
    "voc, listing": Kind(_main, LISTING, _voc, beside=_annotations),
    "voc, annotation": Kind(_annotations[1][0], OBJECT, _voc, beside=((_main, LISTING), *_annotations)),
    "zip": Kind("archive.zip", _zip(), (_unpacked,)),
    "zip, within": Kind("archive.zip", _zip(), (_unpacked,), within_zip),
    "tar": Kind("archive.tar", _tar(), (_unpacked,)),
    "tar.gz": Kind("archive.tar.gz", gzip.compress(_tar()), (_unpacked,), within_gzip),
    "tar.xz": Kind("archive.tar.xz", lzma.compress(_tar()), (_unpacked,)),
    **{
        f"image, {form}": Kind(f"photo.{form.lower()}", _picture(form), (_decoded, _shown))
        for form in ("JPEG", "PNG", "GIF", "TIFF", "WEBP", "BMP", "PPM")
    },
}  # fmt: skip
