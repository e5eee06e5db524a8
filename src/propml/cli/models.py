"""``propml fit``, ``propml predict`` and ``propml evaluate``: a model of one's own files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Column

from propml import file_errors
from propml.cli import file_options as opt
from propml.cli.stopping import told_when_stopped

if TYPE_CHECKING:
    import numpy as np

    from propml.auditing.model_card import SavedModel
    from propml.methods.base import CandidateClassifier
    from propml.metrics import Evaluation
    from propml.streaming.models import TopEvaluation
    from propml.targets import Candidates

# Rows that are predicted and written at a time.
BLOCK_ROWS = 16_384
# Rows × labels that methods with a matrix of them are given at most: 4 GB of scores.
MOST_CELLS = 10**9


@opt.grouped
def fit(
    data: Annotated[str, typer.Argument(help=f"{opt.DATA}.")],
    *,
    reading: opt.Reading,
    out: Path = opt.plain("Folder for the model; created if needed.", default=Path("model")),
    categorical: list[str] | None = opt.categorical_option(),
    method: str | None = opt.model("propml, ridge, … (docs/methods.md).", show_default="propml, or many-labels"),
    tuned: Path | None = opt.model("Take the arguments from this best.toml of `propml tune table`.", metavar="FILE"),
    seed: int = opt.seed_option(),
    quick: bool = opt.quick_option(),
    running: opt.Running,
) -> None:
    """Train a model on the candidate labels of your own file.

    Numbers, categories, text, dates and missing values are recognised.
    The folder then holds model.safetensors and card.json, which describes columns, the choice of λ and versions.

    Examples:

    [bold]propml fit photos.csv --candidates tags --id file --out model[/bold]

    [bold]propml fit survey.parquet --label-columns 'y_*' --ignore comment --method ridge[/bold]

    [bold]propml fit items.csv --id item --votes votes.csv --min-votes 2[/bold]

    [bold]propml tune table photos.csv --candidates tags --id file --out tuned[/bold], then
    [bold]propml fit photos.csv --candidates tags --id file --tuned tuned/best.toml[/bold]
    """
    from propml.auditing.folder import check_folder
    from propml.auditing.model_card import make_card, write_model
    from propml.streaming.sample import MANY
    from propml.tables.features import learn_features
    from propml.tables.files import read_table

    check_folder(out)
    asked = _model(method or "propml", seed, quick, running.device)
    if tuned is not None:
        with file_errors.reading(tuned, "file of arguments", "give the best.toml that `propml tune` wrote"):
            asked.set_params(**_tuned(tuned, method or "propml", quick))

    def suited(candidates: Candidates) -> CandidateClassifier:
        n_rows, n_labels = candidates.shape
        if method is None and tuned is None and n_labels > MANY:
            opt.echo_notes([f"{n_labels} labels are many: --method many-labels is taken, see docs/many_labels.md"])
            return _model("many-labels", seed, quick, running.device)
        if method != "many-labels" and n_rows * n_labels > MOST_CELLS:
            raise ValueError(
                f"--method {method or 'propml'} makes a matrix of {n_rows} rows × {n_labels} labels, which is too "
                f"large; give --method many-labels"
            )
        return asked

    told = reading.options()
    if running.streams(data):
        from propml.streaming import stream_fit

        with told_when_stopped("no model was written; run the same command again to go on"):
            how: dict[str, Any] = {"categorical": categorical, "seed": seed, "quick": quick}
            fitted = stream_fit(data, out, suited, reading=told, ray_address=running.ray_address, **how)
        opt.echo_notes(fitted.notes)
        print_columns(fitted.columns)
        drawn = f"{fitted.sample['rows_drawn']} of {fitted.sample['rows']} rows"
        typer.echo(f"learned from {drawn}; model: {opt.plain_text(fitted.folder)}")
        return
    table = read_table(Path(data), **told)
    learned = learn_features(table, categorical=categorical or (), verbose=True)
    opt.echo_notes(table.notes)
    with told_when_stopped("nothing was written"):
        model = suited(table.candidates).fit(learned.X, table.candidates)
    card = make_card(model, table, learned.features, seed=seed, quick=quick, reading=told)
    folder = write_model(out, model, learned.features, card)
    print_columns(learned.features.describe())
    rows, labels = table.candidates.shape
    shape = f"{rows} rows, {len(learned.features.names)} features, {labels} labels"
    typer.echo(f"{shape}; model: {opt.plain_text(folder)}")


@opt.grouped
def predict(
    model: opt.ModelFolder,
    data: Annotated[str, typer.Argument(help="File with the same columns; labels are not needed.")],
    *,
    out: str | None = opt.plain(
        "Where to write: .csv, .tsv, .json, .jsonl, .xlsx, .parquet or .feather; with --stream a folder.",
        metavar="FILE",
        show_default="predictions, in the format of DATA",
    ),
    probabilities: bool = opt.plain("Add the probability of every label, one column each.", default=False),
    top: int | None = opt.plain("Predict the N best labels, however probable; many-labels: 5.", metavar="N", min=1),
    id_column: str | None = opt.id_option(),
    manner: opt.Manner,
    running: opt.Running,
) -> None:
    """Predict the labels of new rows.

    The result has one entry per row: its identifier (or number) and its predicted labels. These are written as
    beach;sunset, or as lists in JSON, Parquet and Feather. Models of many labels add the probabilities of these labels.

    Examples:

    [bold]propml predict model new.csv --out predictions.csv[/bold]

    [bold]propml predict model new.csv --top 3 --probabilities[/bold]
    """
    from propml.auditing.folder import check_folder, check_not_read
    from propml.progress import progress_bar
    from propml.tables.sources import LISTS, check_ending, like, write_rows

    if running.streams(data):
        from propml.streaming import stream_predict

        place = out or "predictions"
        how: dict[str, Any] = {"top": top, "probabilities": probabilities, "ray_address": running.ray_address}
        with told_when_stopped("what is finished is kept; run the same command again to go on"):
            told = {"id_column": id_column, **manner.options()}
            rows_done = stream_predict(model, data, place, reading=told, **how)
        typer.echo(f"{rows_done} rows; predictions: {place}/predictions")
        return
    file = like(Path(data), Path("predictions")) if out is None else Path(out)
    check_ending(file)
    if file.is_dir():
        raise IsADirectoryError(f"{file} is a folder, and predictions are written as one file; choose another name")
    check_folder(file.parent)
    check_not_read([file], [data])
    saved = _saved(model, running.device)
    if many := hasattr(saved.model, "predict_top"):
        from propml.streaming.models import labels_on_top

        top = labels_on_top(saved.model, model, top, probabilities)
    source = _opened(data, manner)
    X = _features(saved, source, manner)
    reading = saved.card["settings"].get("reading", {})
    name, ids = _identifiers(source, id_column, reading.get("id_column"))
    sep = reading.get("sep") or ";"
    labels = [str(label) for label in saved.model.labels_]
    number = str if file.suffix.lower() in (".csv", ".tsv", *([".xlsx"] if many else [])) else float
    if file.suffix.lower() not in LISTS and (clash := next((label for label in labels if sep in label), None)):
        raise ValueError(f"label {clash!r} contains {sep!r}, which stands between two predicted labels; rename it")
    header = [name, "predicted", *(["probability"] if many else [f"p({label})" for label in labels if probabilities])]
    with progress_bar("predicting", X.shape[0]) as bar:

        def rows() -> Iterator[list[Any]]:
            for start in range(0, X.shape[0], BLOCK_ROWS):
                block = X[start : start + BLOCK_ROWS]
                proba, chosen = _predicted(saved, block, top)
                for row, own in enumerate(chosen):
                    shares = [number(f"{p:.6g}") for p in proba[row]] if many or probabilities else []
                    yield [ids[start + row], [labels[j] for j in own], *([shares] if many else shares)]
                bar.advance(block.shape[0])

        write_rows(file, header, rows(), sep)
    typer.echo(f"{X.shape[0]} rows; predictions: {file}")


@opt.grouped
def evaluate(
    model: opt.ModelFolder,
    data: Annotated[str, typer.Argument(help="File with the same columns, and with true labels.")],
    *,
    truth: str | None = opt.labels("Column of true labels, separated by --sep.", metavar="COLUMN"),
    sep: str = opt.sep_option(),
    label_columns: list[str] | None = opt.label_columns_option(),
    xml: Path | None = opt.xml_option(),
    ignore_unseen: bool = opt.labels("Ignore true labels that the model was not trained on.", default=False),
    as_json: bool = opt.plain("Print JSON, with values as fractions.", "--json", default=False),
    manner: opt.Manner,
    running: opt.Running,
) -> None:
    """Evaluate a model on true labels, with all metrics; a model of many labels by the best labels of each row.

    Examples:

    [bold]propml evaluate model test.csv --truth tags[/bold]

    [bold]propml evaluate model test.parquet --label-columns 'y_*' --json[/bold]
    """
    where: dict[str, Any] = {"sep": opt.separator(sep), "label_columns": label_columns, "xml": xml}
    metrics: Evaluation | TopEvaluation
    if running.streams(data):
        from propml.streaming import stream_evaluate

        told = {"candidates": truth, **where, **manner.options()}
        address = running.ray_address
        metrics = stream_evaluate(model, data, reading=told, ignore_unseen=ignore_unseen, ray_address=address)
    else:
        from propml.tables.dataset import true_labels

        saved = _saved(model, running.device)
        source = _opened(data, manner, plain=truth is not None or label_columns is not None)
        merge = saved.card["settings"].get("reading", {}).get("merge_labels", False)
        how = {**where, "merge_labels": merge, "ignore_unseen": ignore_unseen}
        true = true_labels(source, saved.model.labels_, truth, **how)
        X = _features(saved, source, manner)
        if not true.sizes().any():
            raise ValueError(f"{data}: no row has a true label that the model knows, so nothing can be judged")
        metrics = _judged(saved, X, true)
    told = {"metrics": dict(metrics), "counts": metrics.counts()}
    typer.echo(json.dumps(told, indent=2) if as_json else str(metrics))


def _judged(saved: SavedModel, X: Any, true: Candidates) -> Evaluation | TopEvaluation:
    """The metrics of what a model predicts; of many labels, only those on top of each row are looked at."""
    import numpy as np

    from propml.metrics import evaluate as all_metrics

    blocks = [X[start : start + BLOCK_ROWS] for start in range(0, X.shape[0], BLOCK_ROWS)]
    if hasattr(saved.model, "predict_top"):
        from propml.streaming.models import JUDGED, top_evaluation, top_sums

        most = min(JUDGED[-1], len(saved.model.labels_))
        top = np.concatenate([saved.model.predict_top(block, most)[0] for block in blocks])
        return top_evaluation(top_sums(true.states, top, saved.card))
    scores = np.concatenate([saved.model.predict_proba(block) for block in blocks])
    return all_metrics(true.states, scores, np.concatenate([saved.model.predict(block) for block in blocks]))


def print_columns(described: dict[str, str]) -> None:
    """What became of every column; long tables of numbers are cut."""
    table, most = opt.plain_table(Column("column", no_wrap=True), "what became of it"), 40
    for name, sentence in list(described.items())[:most]:
        table.add_row(opt.printable(name), opt.printable(sentence))
    Console(soft_wrap=True).print(table)
    if len(described) > most:
        typer.echo(f"… and {len(described) - most} more")


def _model(method: str, seed: int, quick: bool, device: str) -> CandidateClassifier:
    from propml.methods.registry import method_class

    kind = method_class(method)
    known = kind().get_params()
    given: dict[str, Any] = {"random_state": seed, "verbose": True}
    if device != "auto":
        if "device" not in known:
            raise ValueError(f"--device is for networks, and --method {method} has none; leave it out")
        given["device"] = opt.checked_device(device)
    if quick:
        if "hidden" not in known:
            raise ValueError(f"--quick makes the networks of --method propml small, and the method is {method}")
        given |= opt.QUICK
    return kind(**{name: value for name, value in given.items() if name in known})


def _tuned(path: Path, method: str, quick: bool) -> dict[str, Any]:
    """The arguments that a search found best."""
    from propml.tuning.result import read_best

    if quick:
        raise ValueError(f"--quick gives the networks a size, and so does --tuned {path}; choose one")
    method_name, params = read_best(path)
    if method_name == "vision":
        raise ValueError(f"{path} holds a recipe for images; give it to propml vision train --tuned")
    if method_name != "propml":
        raise ValueError(
            f"{path} holds arguments of {method_name} on features scaled to [-1, 1], which propml fit does not do; "
            f"run it with propml benchmark run, or in Python with SearchResult.estimator()"
        )
    if method != "propml":
        raise ValueError(f"{path} holds arguments of propml, and --method is {method}; leave one of them out")
    return params


def _saved(folder: Path, device: str) -> SavedModel:
    """The model where it is to run now, wherever it was trained."""
    from propml.auditing.model_card import read_model

    saved = read_model(folder)
    if hasattr(saved.model, "device"):
        saved.model.device = opt.checked_device(device)
    elif device != "auto":
        raise ValueError(f"--device is for networks, and the model in {folder} has none; leave it out")
    return saved


def _opened(data: str, manner: opt.Manner, *, plain: bool = False) -> Any:
    from propml.tables.sources import open_table

    how = {name: manner.options()[name] for name in ("file_format", "delimiter", "encoding")}
    return open_table(Path(data), plain=plain, **how)


def _features(saved: SavedModel, source: Any, manner: opt.Manner) -> Any:
    """The features of new rows; numbers and missing values are written as somebody says now, or as in training."""
    reading = saved.card["settings"].get("reading", {})
    missing = reading.get("missing", ()) if manner.missing is None else manner.options()["missing"]
    decimal = manner.decimal or reading.get("decimal")
    X, notes = saved.features.apply(source, decimal=decimal, missing=missing, verbose=True)
    opt.echo_notes(notes)
    return X


def _identifiers(source: Any, asked: str | None, known: str | None) -> tuple[str, list[str]]:
    """The column of identifiers that was asked for, or the one of training if it is here, or row numbers."""
    from propml.tables.votes import identifier

    name = asked or (known if known in getattr(source, "names", ()) else None)
    if name is None:
        return "row", [str(row) for row in range(source.n_rows)]
    if not hasattr(source, "cells"):
        raise ValueError(f"{source.path} has no columns, so no column of identifiers; leave out --id")
    return name, [identifier(cell) for cell in source.cells(name)]


def _predicted(saved: SavedModel, X: Any, top: int | None) -> tuple[np.ndarray, list[np.ndarray]]:
    """Probabilities, of many labels those on top, and for each row the positions of its labels, the best first."""
    import numpy as np

    if hasattr(saved.model, "predict_top"):
        label, proba = saved.model.predict_top(X, top)
        return proba, list(label)
    proba = saved.model.predict_proba(X)
    order = np.argsort(-proba, axis=1, kind="stable")
    if top is not None:
        return proba, list(order[:, :top])
    above = saved.model.predict(X).astype(bool)
    return proba, [own[above[row, own]] for row, own in enumerate(order)]
