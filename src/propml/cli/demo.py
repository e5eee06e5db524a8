"""``propml demo``: the whole story on the embedded dataset, in a minute or two."""

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["demo"]


def demo(
    out: Annotated[Path, typer.Option(help="Folder for results and report; created if needed.")] = Path("demo"),
    methods: Annotated[
        list[str] | None, typer.Option(help="Only these, by their names in the tables.", metavar="A,B")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Local processes, with one thread each.")] = 2,
) -> None:
    """Corrupt the embedded digits mosaic, train every method on its candidate labels alone, and write a report.

    Then an audit of the candidate labels: review.html shows which of them are wrong, to keep or drop.
    Needs no data and no network. The first part is [bold]propml benchmark run quick[/bold] and its report.

    Example: [bold]propml demo --out demo --methods ProPML,BCE,Ridge[/bold]
    """
    from propml.benchmark import report
    from propml.cli.benchmark import run
    from propml.extras import require

    require("matplotlib", "report")
    require("jinja2", "report")
    run("quick", out=out / "results", methods=methods, workers=workers)
    report(out / "results", out, formats=["html", "md", "csv"], command="propml demo")
    _audit(out / "review.html")
    typer.echo(f"report: {out / 'report.html'}\nreview: {out / 'review.html'}")


def _audit(page: Path, n_samples: int = 600) -> None:
    """An audit of mosaics with as many false candidate labels as true ones, as a page with their pictures."""
    from propml import audit
    from propml.auditing.review import write_review
    from propml.corruption import svm_confusions
    from propml.datasets import digits_mosaic

    mosaics = digits_mosaic(n_samples)
    candidates = svm_confusions(mosaics.X, mosaics.truth, 1.0, labels=mosaics.label_names, verbose=True)
    report = audit(mosaics.X, candidates, noise="confusions", verbose=True)
    pictures = [(255 * (1 - row.reshape(16, 16) / mosaics.X.max())).astype("uint8") for row in mosaics.X]
    write_review(report, page, images=pictures, title="Which digits are not in the mosaic?")
