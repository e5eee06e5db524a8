"""``propml audit``: which of these candidate labels are wrong? And ``propml review``: the page on which one decides."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer
from rich.console import Console

from propml.cli import file_options as opt
from propml.cli.models import print_columns
from propml.cli.stopping import told_when_stopped
from propml.vision.recipe import VisionRecipe

if TYPE_CHECKING:
    from propml.auditing.decisions import Decision
    from propml.auditing.noise import AssumedNoise
    from propml.auditing.report import AuditReport

WORST = 10


@dataclass(frozen=True)
class Settings:
    """How an audit is done; its record keeps them, by which ``--again`` does the same."""

    noise: str = opt.labels(
        "How false labels arise: auto (assume little), uniform (one rate for all), by-label (a rate for each), "
        "confusions (they look like true ones), or the share that is false (0.2, or cat=0.2,dog=0.05).",
        default="auto",
    )
    incomplete: bool = opt.labels("True labels may be missing from the candidates: propose those, too.", default=False)
    seed: int = opt.seed_option()
    quick: bool = opt.quick_option()
    train_rows: int | None = opt.model(
        "Train each model on so many rows at most; 0: all. Every row is judged.", min=0, show_default="100000 or fewer"
    )
    backbone: str | None = opt.model("The timm model for images.", metavar="NAME", show_default=VisionRecipe.backbone)
    weights: str | None = opt.model("File of its weights.", metavar="FILE", show_default="pretrained, downloaded")
    categorical: list[str] | None = opt.categorical_option()


@opt.grouped
def audit(
    reading: opt.Reading,
    settings: Settings,
    data: Annotated[str | None, typer.Argument(help=f"{opt.DATA}; not needed with --apply and --again.")] = None,
    out: str = opt.plain("Folder for everything that is written.", default="audit", metavar="FOLDER"),
    apply: list[Path] | None = opt.plain(
        "After the review: write the labels as your decisions leave them, and stop. Repeat it for several reviewers: "
        "the majority decides, and conflicts are listed.",
        metavar="DECISIONS",
    ),
    again: list[Path] | None = opt.plain(
        "During a review: audit the same file again, taking your decisions as true. This ranks the other labels again "
        "and rewrites OUT.",
        metavar="DECISIONS",
    ),
    undecided: Literal["verdict", "keep", "drop"] = opt.plain(
        "With --apply, for labels without a decision: follow the verdict, keep all, or drop all it does not keep.",
        default="verdict",
    ),
    image: str | None = opt.columns(
        "Column of image paths for the review; also learned from if alone, or with --backbone.", metavar="COLUMN"
    ),
    allow_outside: bool = opt.allow_outside_option(),
    *,
    running: opt.Running,
) -> None:
    """Find the candidate labels that are wrong, in your own file.

    Models that never saw a row judge its labels: keep, doubtful or drop, each with a confidence.
    Open OUT/review.html, keep or drop with the keyboard, download your decisions, and give them to --apply.

    Examples:

    [bold]propml audit photos.csv --candidates tags --id file[/bold]

    [bold]propml audit photos.csv --candidates tags --image path[/bold]  (learned from the pictures)

    [bold]propml audit photos/[/bold]  (a table and pictures, or one folder of pictures for each label)

    [bold]propml audit items.csv --id item --votes votes.csv[/bold]  (who proposed what: item, annotator, label)

    [bold]propml audit survey.parquet --label-columns 'y_*' --incomplete --out audit[/bold]

    [bold]propml audit logs/ --candidates tags --id item --stream[/bold]  (more rows than fit into memory)

    [bold]propml audit --again decisions.csv --out audit[/bold]  (learn from the decisions, and rank the rest again)

    [bold]propml audit --apply decisions.csv --out audit[/bold]
    """
    folder, file = Path(out), None if data is None else Path(data)
    moved = {"data": file, "votes": reading.votes, "xml": reading.xml}
    streamed = "://" in out or (folder / "plan.json").is_file()
    if again and streamed:
        raise ValueError(f"{out} holds the audit of a stream, which is not done again; give the decisions to --apply")
    if apply:
        path: str | Path
        conflicts: str | Path | None
        if streamed:
            from propml.streaming import stream_apply
            from propml.streaming.folders import Folder

            path, counts, conflicts = stream_apply(out, apply, undecided=undecided, ray_address=running.ray_address)
            listed = Folder(out).read(Path(conflicts).name) if conflicts else b""
        else:
            from propml.auditing.folder import apply_review

            path, counts, conflicts = apply_review(folder, apply, **moved, undecided=undecided)
            listed = conflicts.read_bytes() if conflicts else b""
        if conflicts is not None:
            _print_conflicts(str(conflicts), listed)
        typer.echo(f"{counts} (--undecided {undecided})" if counts.undecided else str(counts))
        typer.echo(f"labels after your review: {path}")
        return
    if again:
        _audit_again(folder, again, moved)
        return
    if data is None or file is None:
        raise typer.BadParameter("name the file to audit, or decisions with --apply", param_hint="DATA")
    if undecided != "verdict":
        raise ValueError(f"--undecided {undecided} works only with --apply; leave it out")
    if reading.candidates is None and reading.sep != opt.SEP:
        raise ValueError(f"--sep {reading.sep} is for the column that --candidates names; name one, or leave it out")
    if settings.incomplete and reading.candidates is not None and not opt.separator(reading.sep):
        raise ValueError("--incomplete adds labels, and with --sep none a cell holds one; leave out one of the two")
    noise = _noise(settings.noise)  # a slip in it is told before anything is read
    opt.checked_device(running.device)
    told = reading.options() | {"image": image, "allow_outside": allow_outside}
    if running.streams(data):
        from propml.streaming import stream_audit

        how = {name: vars(settings)[name] for name in ("incomplete", "categorical", "train_rows", "seed")}
        how |= {"params": opt.QUICK if settings.quick else {}, "ray_address": running.ray_address}
        with told_when_stopped("what is finished is kept; run the same command again to go on"):
            found = stream_audit(data, out, reading=told, noise=noise, **how)
        _print_found(found.columns, found.rows, found.counts, found.notes, found.worst, found.files)
        return
    if file.is_dir():
        from propml.vision.sources import table_in_folder

        file, pictures = table_in_folder(file, folder)
        told |= {name: value for name, value in pictures.items() if not told.get(name) or name == "sep"}
    if (settings.backbone or settings.weights) and not told["image"]:
        raise ValueError("--backbone and --weights need pictures, and no column of them is named; add --image COLUMN")
    _run(file, folder, told, {**vars(settings), "device": running.device})


def _audit_again(out: Path, again: list[Path], moved: dict[str, Path | None]) -> None:
    """The audit in this folder once more, with what was decided since and before."""
    from propml.auditing.decisions import merge_decisions, read_decisions
    from propml.auditing.folder import DECIDED, read_audit

    agreed, conflicts = merge_decisions(read_decisions(path) for path in again)
    if conflicts:
        first = conflicts[0]
        raise ValueError(
            f"{len({(each.item, each.label) for each in conflicts})} labels are both kept and dropped in these files, "
            f"first {first.label!r} of {first.item!r}; settle that first, --apply lists them all"
        )
    record = read_audit(out, **moved)
    before = read_decisions(out / DECIDED) if DECIDED in record["files"] else []
    # Whoever decides on a label once more has changed their mind.
    decided = {(each.item, each.label): each for each in (*before, *agreed)}
    _run(Path(record["data"]), out, record["reading"], record["settings"], list(decided.values()))


def _run(
    data: Path, out: Path, reading: dict[str, Any], settings: dict[str, Any], decided: Sequence[Decision] = ()
) -> None:
    from propml.auditing import audit as run_audit
    from propml.auditing.crossfit import default_auditor
    from propml.auditing.folder import check_folder, check_sources, write_audit
    from propml.tables.features import learn_features
    from propml.tables.files import read_table

    check_folder(out)
    check_sources(out, data, reading["votes"])
    table = read_table(data, **reading)
    device = opt.checked_device(settings["device"])
    others = not table.images or bool(table.feature_columns)
    learned = learn_features(table, categorical=settings["categorical"] or (), verbose=True) if others else None
    backbone, weights = settings.get("backbone"), settings.get("weights")
    if learned is None or backbone is not None or weights is not None:
        from propml.vision.deep_features import learn_pictures

        learned = learn_pictures(table, reading["image"], learned, backbone=backbone, weights=weights, device=device)
    opt.echo_notes(table.notes)
    model = default_auditor(settings["seed"], verbose=True)
    model.set_params(device=device, **(opt.QUICK if settings["quick"] else {}))
    with told_when_stopped("nothing was written; run the same command again, or with --quick for a first look"):
        report = run_audit(
            learned.X,
            table.candidates,
            noise=_noise(settings["noise"]),
            incomplete=settings["incomplete"],
            reviewed=decided,
            model=model,
            train_rows="auto" if settings["train_rows"] is None else settings["train_rows"] or None,
            random_state=settings["seed"],
            verbose=True,
        )
    if (learned_from := report.settings["train_rows"]) is not None:
        opt.echo_notes([f"each model trained on {learned_from} random rows, none of which it judges"])
    with warnings.catch_warnings(record=True) as caught:  # pictures that cannot be shown
        warnings.simplefilter("always", UserWarning)
        files = write_audit(
            out, report, table, learned.features, reading=reading, settings=settings, X=learned.X, decided=decided
        )
    opt.echo_notes([str(warning.message) for warning in caught])
    counts = report.verdicts().counts()
    _print_found(learned.features.describe(), len(report.item_ids), counts, report.notes(), report, files)
    command = f"propml audit --apply decisions.csv --out {shlex.quote(str(out))}"
    typer.echo(f"next: open {files[0]}, decide, download your decisions, then: {command}")


def _print_conflicts(path: str, content: bytes) -> None:
    """What reviewers disagree on; nobody has decided that."""
    import csv

    rows = list(csv.DictReader(content.decode("utf-8-sig").splitlines(keepends=True)))
    typer.echo(f"{len(rows)} conflicts, which count as undecided:", err=True)
    for row in rows[:WORST]:
        typer.echo(opt.plain_text("  " + " · ".join(row[name] for name in ("item", "label", "note"))), err=True)
    more = f"all {len(rows)} of them are in {path}; " if len(rows) > WORST else ""
    typer.echo(f"{more}load {path} into the page, filter by note, decide, and give --apply that file, too", err=True)


def _print_found(columns: Any, items: int, counts: Any, notes: list[str], report: AuditReport, files: Any) -> None:
    """What became of columns, the number of verdicts of each kind, notes, the most suspicious labels, and the files."""
    print_columns(columns)
    told = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    typer.echo(f"\n{items} items, {sum(counts.values())} labels judged: {told}")
    opt.echo_notes(notes)
    names = ("item", "label", "verdict", "confidence", "probability")
    worst = [report.worst(WORST, "columns")[name] for name in names] if report.item_ids else []
    rows = [row for row in zip(*worst, strict=True) if row[2] != "keep"]
    if rows:
        table = opt.plain_table("most suspicious", "label", "verdict", numbers=("confidence", "P(true)"))
        for item, label, verdict, *numbers in rows:
            table.add_row(opt.printable(item), opt.printable(label), verdict, *(f"{number:.2f}" for number in numbers))
        Console(soft_wrap=True).print(table)
    for path in files:
        typer.echo(f"wrote {path}")


def _noise(text: str) -> AssumedNoise:
    """A kind of noise by name, a share, or shares as label=share,label=share."""
    if "=" not in text:
        try:
            return float(text)
        except ValueError:
            return cast("AssumedNoise", text)  # a name, or what audit() refuses with a sentence
    shares = {}
    for part in text.split(","):
        label, _, share = part.rpartition("=")
        try:
            shares[label.strip()] = float(share)
        except ValueError:
            raise ValueError(f"--noise: {part.strip()!r} is not LABEL=SHARE, such as cat=0.2") from None
    return shares


@opt.grouped
def review(
    folder: Annotated[Path, typer.Argument(help="What `propml audit` wrote.")] = Path("audit"),
    serve: bool = opt.plain("Serve the page, and save decisions in FOLDER/decisions.csv.", default=False),
    host: str = opt.plain(
        "With --serve: address to listen on; others let other machines connect.", default="127.0.0.1", metavar="ADDRESS"
    ),
    port: int = opt.plain("With --serve: port to listen on; 0: any free one.", default=0, min=0, max=65535),
) -> None:
    """Review an audit: keep or drop labels, on a page in your browser.

    The page needs no server: open FOLDER/review.html and download your decisions. With --serve they are saved for you.
    """
    from propml.auditing.server import DECISIONS, ReviewServer, page_in

    if not serve:
        if host != "127.0.0.1" or port:
            raise ValueError("--host and --port work only with --serve; add it, or leave them out")
        typer.echo(f"open {page_in(folder).resolve().as_uri()}")
        return
    with ReviewServer(folder, host, port) as server:
        typer.echo(f"open {server.address}")
        typer.echo(f"decisions are saved in {folder / DECISIONS}; Ctrl-C stops the server")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            typer.echo(f"\nstopped; next: propml audit --apply {folder / DECISIONS} --out {folder}", err=True)
