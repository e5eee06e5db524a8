"""``propml review``: the page on which a person decides, opened from disk or served by a server that saves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["review"]


def review(
    folder: Annotated[Path, typer.Argument(help="What `propml audit` wrote.")] = Path("audit"),
    serve: Annotated[
        bool,
        typer.Option("--serve", help="Serve the page, and save decisions in FOLDER/decisions.csv as you make them."),
    ] = False,
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="With --serve: address to listen on. Any other than the default lets other machines connect.",
        ),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="With --serve: port to listen on; 0: any free one.")] = 0,
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
