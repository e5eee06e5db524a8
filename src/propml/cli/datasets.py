"""``propml datasets``: which there are, whether the files at hand are right, and downloading them."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from propml.cli.file_options import group_of_commands, plain_table
from propml.datasets import REGISTRY, fetch, lookup, verify
from propml.datasets.catalogue import at_hand

app = group_of_commands(help="The datasets of the paper: list, check, download.")

DataDir = Annotated[Path | None, typer.Option(help="Folder of datasets; searched before PROPML_DATA and the cache.")]
Name = Annotated[str, typer.Argument(help="Name of a dataset, as `propml datasets list` shows it.")]


@app.command("list")
def list_datasets(data_dir: DataDir = None) -> None:
    """List all datasets, their sizes, and whether they are on this machine."""
    table = plain_table("name", "suite", numbers=("rows", "features", "labels", "true/row", "cand./row"), space=1)
    table.add_column("at hand")
    for entry in REGISTRY.values():
        facts = entry.facts[0]
        sizes = [facts.n_samples, facts.n_features, facts.n_labels, facts.mean_true, facts.mean_candidates]
        here = "yes" if at_hand(entry, data_dir) is not None else "-"
        table.add_row(entry.name, entry.suite, *map(_number, sizes), here)
    Console().print(table)


@app.command()
def show(name: Name, data_dir: DataDir = None) -> None:
    """Show where a dataset comes from, and check the files on this machine."""
    entry = lookup(name)
    console = Console(soft_wrap=True, markup=False, highlight=False)
    console.print(f"{entry.title} ({entry.suite})", style="bold")
    console.print(f"Source: {entry.source}")
    for file in entry.files:
        console.print(f"  {file.path}  {file.checksum or 'no published checksum'}\n    {file.url}")
    for facts in entry.facts:
        sizes = {"rows": facts.n_samples, "features": facts.n_features, "labels": facts.n_labels}
        shape = " × ".join(f"{size} {what}" for what, size in sizes.items() if size is not None)
        console.print(f"Known: {shape}{f' ({facts.copy})' if facts.copy else ''}")
    if entry.splits:
        console.print(f"Splits: {', '.join(entry.splits)}")
    if entry.note:
        console.print(entry.note)
    found = verify(entry.name, data_dir)
    if entry.needs:
        console.print(f"Found in {found.folder}")
    for path, state in found.files:
        console.print(f"  {path}: {state}")
    if found.facts.copy:
        console.print(f"This copy is {found.facts.copy}.")
    table = plain_table("", numbers=("expected", "found", ""))
    for check in found.checks:
        table.add_row(check.what, _number(check.expected), _number(check.found), "ok" if check.ok else "WRONG")
    console.print(table)
    if found.problems:
        raise ValueError(f"{entry.title} in {found.folder} is not as it should be: {'; '.join(found.problems)}")
    console.print("Everything is as it should be.")


@app.command("fetch")
def fetch_dataset(
    name: Name,
    data_dir: DataDir = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are not the published ones.")] = False,
) -> None:
    """Download a dataset, resuming an earlier attempt, and check the files."""
    entry = lookup(name)
    folder = fetch(entry.name, data_dir, force=force, verbose=sys.stderr.isatty())
    console = Console()
    console.print(f"{entry.title} is in {folder}", markup=False, soft_wrap=True)
    used = at_hand(entry, data_dir)
    if used is not None and used != folder:
        console.print(f"Note: {used} is searched first, and holds another copy.", markup=False, soft_wrap=True)


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.3f}".rstrip("0").rstrip(".")
