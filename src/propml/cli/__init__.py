"""The command line, ``propml …``: one file per group of commands, each of them thin."""

import io
import os
import sys

from propml.cli.app import app
from propml.cli.file_options import OTHER_NAMES
from propml.cli.stopping import hears_sigterm
from propml.messages import called_as_options

__all__ = ["app", "main"]


def main() -> None:
    """Run the command line; a user's mistake becomes one sentence, never a stack trace.

    Set ``PROPML_DEBUG=1`` to see the trace as well.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # not every encoding has a λ
    try:
        with hears_sigterm(), called_as_options(OTHER_NAMES):
            app()
    except (ValueError, OSError, ImportError) as error:
        if os.environ.get("PROPML_DEBUG"):
            raise
        sys.stderr.write(f"error: {error}\n")
        sys.exit(1)
