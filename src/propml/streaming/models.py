"""``propml fit --stream`` and ``predict --stream``: a model of a sample, and what a saved model says of every row."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from propml.auditing.model_card import MODEL, SavedModel, make_card, read_model, write_model
from propml.extras import require
from propml.methods.base import CandidateClassifier
from propml.streaming.folders import Folder
from propml.streaming.judging import StreamFeatures
from propml.streaming.rows import tables_of
from propml.streaming.sample import draw_sample, read_sample, sampled
from propml.streaming.scores import in_blocks
from propml.streaming.work import Job, begin, do_parts, part_name, workers
from propml.tables.embeddings import Embedded
from propml.tables.features import learn_features
from propml.tables.treatments import Matrix, Text

__all__ = ["Fitted", "saved_model", "stream_fit", "stream_predict", "with_model"]

# The model of the run that this process works for.
_KEPT: dict[str, SavedModel] = {}


class Fitted(NamedTuple):
    """A model that was fitted on a sample: its folder, what became of columns, notes, and what was drawn."""

    folder: Path
    columns: dict[str, str]
    notes: list[str]
    sample: dict[str, Any]


def stream_fit(
    data: str,
    out: str | Path,
    model: CandidateClassifier,
    *,
    reading: Mapping[str, Any],
    categorical: Sequence[str] | None = None,
    seed: int = 0,
    ray_address: str | None = None,
    **settings: Any,
) -> Fitted:
    """Fit a model on a sample of a folder of Parquet files, and save it; the sample is kept in ``out/stream``.

    Parameters
    ----------
    model : CandidateClassifier
        It is fitted here, in this process.
    settings : dict
        What else the card of the model should tell.

    The other parameters are those of :func:`~propml.streaming.audit.stream_audit`.
    """
    asked = {"seed": seed, "categorical": categorical}
    job = begin("fit", data, str(Path(out, "stream")), reading=reading, settings=asked)
    with workers(ray_address) as run:
        draw_sample(run, job, None)
    table = read_sample(job)
    learned = learn_features(table, categorical=categorical or (), verbose=True)
    model.fit(learned.X, table.candidates)
    drawn = sampled(job)
    card = make_card(model, table, learned.features, seed=seed, reading=dict(reading), sample=drawn, **settings)
    folder = write_model(out, model, learned.features, card)
    return Fitted(folder, learned.features.describe(), table.notes, drawn)


def stream_predict(
    model: str | Path,
    data: str,
    out: str,
    *,
    top: int | None = None,
    probabilities: bool = False,
    reading: Mapping[str, Any],
    ray_address: str | None = None,
) -> int:
    """Write the predicted labels of all rows, one Parquet file for each part; the number of rows is returned.

    Parameters
    ----------
    model : path
        A folder that ``propml fit`` wrote.
    top : int, optional
        So many labels of each row, however probable.
    probabilities : bool
        Also the probability of every label.
    reading : mapping
        ``id_column``, ``decimal`` and ``missing``.
    """
    job = with_model("predict", model, data, out, reading, {"top": top, "probabilities": probabilities})
    with workers(ray_address) as run:
        do_parts(run, predict_part, job, "predictions", len(job.parts))
    return job.n_rows


def predict_part(job: Job, number: int) -> None:
    """The predictions of a part."""
    pyarrow, parquet = require("pyarrow", "data"), require("pyarrow.parquet", "data")
    saved, features = saved_model(job)
    names = [str(label) for label in saved.model.labels_]
    shares = [pyarrow.field(f"p({name})", pyarrow.float32()) for name in names if job.settings["probabilities"]]
    predicted = pyarrow.field("predicted", pyarrow.list_(pyarrow.string()))
    schema = pyarrow.schema([pyarrow.field(job.id_column or "item", pyarrow.string()), predicted, *shares])
    columns = [*job.columns, *([job.id_column] if job.id_column else [])]
    with (
        Folder(job.out).writing(part_name("predictions", number)) as file,
        parquet.ParquetWriter(file, schema) as write,
    ):
        for table in tables_of(Folder(job.data), job.parts[number], columns):
            X, _ = features.apply(table, None, job.reading)
            proba = in_blocks(saved.model.predict_proba, X)
            order = np.argsort(-proba, axis=1, kind="stable")
            passed = np.take_along_axis(proba > saved.model.thresholds_, order, axis=1)
            if job.settings["top"] is not None:
                passed = np.broadcast_to(np.arange(len(names)) < job.settings["top"], proba.shape)
            ends = np.concatenate([[0], np.cumsum(np.count_nonzero(passed, axis=1))]).astype(np.int32)
            chosen = pyarrow.ListArray.from_arrays(ends, pyarrow.array(names).take(pyarrow.array(order[passed])))
            given = [table.items(job.id_column), chosen, *(proba.T.astype(np.float32) if shares else ())]
            write.write_table(pyarrow.table([pyarrow.array(own) for own in given], schema=schema))


def with_model(
    kind: str, folder: str | Path, data: str, out: str | None, reading: Mapping[str, Any], settings: dict[str, Any]
) -> Job:
    """A run of a saved model, which goes to the workers with it."""
    saved = read_model(folder)
    if isinstance(saved.features.treatments[0], Matrix):
        raise ValueError(f"the model in {folder} was trained on a matrix of features, and a stream has columns")
    if embedded := [each.name for each in saved.features.treatments if isinstance(each, Embedded)]:
        raise ValueError(f"the model in {folder} embeds the text in {embedded[0]!r}, which is not done in a stream")
    content = Path(folder, MODEL).read_bytes()
    known = saved.card["settings"].get("reading", {})
    used = {"decimal": reading.get("decimal") or known.get("decimal"), "missing": known.get("missing", ())}
    used |= {name: value for name, value in reading.items() if name != "decimal" and value is not None}
    columns = [each.name for each in saved.features.treatments if each.features]
    settings = settings | {"model": hashlib.sha256(content).hexdigest()}
    job = begin(kind, data, out, reading=used, settings=settings, columns=columns, former_id=known.get("id_column"))
    return replace(job, model=content)


def saved_model(job: Job) -> tuple[SavedModel, StreamFeatures]:
    """The model of a run, kept from one part to the next."""
    if (key := job.settings["model"]) not in _KEPT:
        with TemporaryDirectory() as folder:
            Path(folder, MODEL).write_bytes(job.model)
            saved = read_model(folder)
        if hasattr(saved.model, "device"):
            saved.model.device = "cpu"
        _KEPT.clear()
        _KEPT[key] = saved
    saved = _KEPT[key]
    # Words are many and mostly absent; which batches hold few of them must not matter.
    return saved, StreamFeatures(saved.features, any(isinstance(each, Text) for each in saved.features.treatments))
