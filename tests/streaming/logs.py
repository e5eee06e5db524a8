"""Folders of Parquet files for tests: the embedded mosaic as a log of tags, in any order and any number of files."""

import os
import signal
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from propml.datasets import digits_mosaic
from propml.streaming.audit import judge_part
from propml.streaming.folders import Folder

READING = {"candidates": "tags", "sep": ";", "id_column": "item"}
# One small network for each fold, which learns the mosaic well enough.
SMALL = {"hidden": (32,), "effort": "fast", "n_models": 1, "forest": False, "epochs": 20, "lam": 0.1}


def mosaic(n=300):
    return digits_mosaic(n)


def tag_log(n=300):
    """Every fourth pixel as a column, a colour, candidate and true tags of a mosaic."""
    data = mosaic(n)
    X = np.asarray(data.X, dtype=np.float32)
    columns = {f"pixel {j:02d}": X[:, j] for j in range(X.shape[1])}
    words = [[f"digit {name}" for name in names] for names in data.candidates.to_lists()]
    true = [[f"digit {j}" for j in np.flatnonzero(row)] for row in data.truth]
    return pa.table(
        {
            "item": [f"photo {i:04d}" for i in range(n)],
            **columns,
            "colour": [("red", "green", None)[i % 3] for i in range(n)],
            "tags": [";".join(names) for names in words],
            "truth": true,
        }
    )


def write_log(folder, table=None, files=1, seed=None, group=1_000_000):
    """The rows in so many files; shuffled where there is a seed."""
    table = tag_log() if table is None else table
    order = np.arange(len(table)) if seed is None else np.random.default_rng(seed).permutation(len(table))
    Path(folder).mkdir(parents=True)
    for number, rows in enumerate(np.array_split(order, files)):
        pq.write_table(table.take(pa.array(rows)), Path(folder, f"log-{number}.parquet"), row_group_size=group)
    return str(folder)


def rows_in(folder):
    """All rows of the Parquet files in a folder, sorted."""
    rows = [row for path in sorted(Path(folder).iterdir()) for row in pq.read_table(path).to_pylist()]
    return sorted((tuple(row.values()) for row in rows), key=repr)


def judge_and_die_once(job, number):
    """Judges a part; the first worker that gets part 1 is killed in the middle of it."""
    flag = Path(job.settings["flag"])
    if number == 1 and not flag.exists():
        flag.touch()
        with Folder(job.out).writing("verdicts/part-00001.parquet") as file:
            file.write(b"half a part")
            os.kill(os.getpid(), signal.SIGKILL)
    judge_part(job, number)


def judge_slowly(job, number):
    time.sleep(0.5)
    judge_part(job, number)
