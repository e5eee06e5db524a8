"""``propml`` called in this process as a shell would call it: exit code and everything it prints."""

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple
from unittest.mock import patch

import numpy as np

from propml.cli import main

LABELS = ("beach", "city", "night", "sea", "snow")


class Printed(NamedTuple):
    code: int
    out: str
    err: str


def propml(*arguments):
    """Run the command line."""
    out, err = io.StringIO(), io.StringIO()
    words = ["propml", *map(str, arguments)]
    with patch.object(sys, "argv", words), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = stop.code
    return Printed(code, out.getvalue(), err.getvalue())


def told(printed):
    """The sentence of an error: one line, and no trace."""
    assert printed.code == 1, printed
    lines = printed.err.strip().splitlines()
    assert lines[-1].startswith("error: ")
    assert "Traceback" not in printed.err
    return lines[-1].removeprefix("error: ")


def write_photos(path, n=120, seed=0, false=0.25):
    """A CSV of mixed columns whose true labels can be learned, and whose tags hold some false ones."""
    rng = np.random.default_rng(seed)
    weights = np.random.default_rng(7).normal(size=(len(LABELS), 3))
    lines = ["id,a,b,c,camera,tags,truth"]
    for i in range(n):
        x = rng.normal(size=3)
        scores = weights @ x
        true = {LABELS[j] for j in np.flatnonzero(scores > 0.8)} | {LABELS[int(scores.argmax())]}
        tags = true | {label for label in LABELS if rng.random() < false}
        cells = [f"p{i}", *(f"{value:.3f}" for value in x[:2]), "" if i % 11 == 0 else f"{x[2]:.3f}"]
        cells += [("Canon", "Nikon", "phone")[i % 3], ";".join(sorted(tags)), ";".join(sorted(true))]
        lines.append(",".join(cells))
    path.write_text("\n".join(lines) + "\n")
    return path
