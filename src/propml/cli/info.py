"""``propml info``: what is installed, and where data is looked for."""

import typer
from rich.console import Console
from rich.table import Table

__all__ = ["info", "version"]


def info() -> None:
    """Print versions, the device that would be used, the data folders and the installed extras."""
    import torch

    from propml.datasets.locations import data_dirs
    from propml.extras import EXTRAS, installed, versions

    table = Table(show_header=False, box=None)
    for package, installed_version in versions().items():
        table.add_row(package, installed_version)
    gpu = torch.cuda.get_device_name(0) if torch.cuda.is_available() else ""
    table.add_row("device", f"cuda ({gpu})" if gpu else f"cpu ({torch.get_num_threads()} threads)")
    for number, folder in enumerate(data_dirs()):
        table.add_row("data folders" if number == 0 else "", f"{folder}{'' if folder.is_dir() else '  (not there)'}")
    for extra in EXTRAS:
        state = "installed" if installed(extra) else f"missing: pip install 'propml[{extra}]'"
        table.add_row(f"extra {extra}", state, style=None if installed(extra) else "dim")
    Console(soft_wrap=True).print(table, markup=False)


def version(show: bool) -> None:
    """Print the version and stop, for ``propml --version``."""
    if show:
        from propml import __version__

        typer.echo(__version__)
        raise typer.Exit
