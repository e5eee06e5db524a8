"""How ``--stream`` grows with the rows: seconds, processor seconds and peak memory.

    python benchmarks/streaming.py                                       # 100 000, 300 000 and 1 000 000 rows
    python benchmarks/streaming.py --rows 300000 --ray-address local     # on all cores of this machine
    python benchmarks/streaming.py --rows 100000000 --folder /data --keep --train-rows 100000 --options=
    python benchmarks/streaming.py --rows 200000 --labels 100000 --commands audit --options=--noise=0.75
    python benchmarks/streaming.py --rows 200000 --labels 100000 --false 26 --commands fit predict evaluate

Each size is a folder of made-up Parquet files of 100 features and 200 labels (``benchmarks/audit_scale.py`` tells how
they are made), 100 000 rows in each. With ``--labels`` a row has about 14 candidates of so many labels, of which about
four are true (``benchmarks/many_labels.py``), and more with ``--false``; its features are the sum of their vectors,
which labels of a topic partly share, under noise. With ``fit`` the model is one of these rows, otherwise of 20 000
others. Every command runs in a process of its own. Its processor seconds and its peak memory are told by
the system, together with those of all processes that it waited for. "AP" is how well an audit ranks false candidates,
by true labels that it does not read; "false" is the share of them, which is the AP of chance.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import many_labels
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from audit_scale import BLOCK, COMMAND, N_FEATURES, _texts, made_rows
from sklearn.metrics import average_precision_score

FILE_ROWS, MODEL_ROWS = 100_000, 20_000
# Starts a command, and prints what it used; in a process of its own, whose children are those of this command alone.
MEASURED = """
import os, resource, subprocess, sys
done = subprocess.Popen([sys.executable, "-c", sys.argv[1], *sys.argv[2:]])
code = done.wait()
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print("USED", used.ru_utime + used.ru_stime, used.ru_maxrss)
sys.exit(code)
"""


def blocks(n_rows: int, n_labels: int | None, n_false: int) -> Iterator[tuple[np.ndarray, list[str], list[str]]]:
    """Features, candidates and true labels of some rows after the other."""
    if n_labels is None:
        yield from ((block.X, _texts(block.candidates), _texts(block.truth)) for block in made_rows(n_rows))
        return
    world, n_topics = np.random.default_rng(3), max(20, n_labels // 100)
    topic = np.arange(n_labels) * n_topics // n_labels
    vectors = 0.8 * world.normal(size=(n_topics, N_FEATURES))[topic] + 0.6 * world.normal(size=(n_labels, N_FEATURES))
    names = np.array([f"label {j:06d}" for j in range(n_labels)])
    for start in range(0, n_rows, BLOCK):
        rows = many_labels.made_rows(min(BLOCK, n_rows - start), 100, n_labels, n_topics, 5, n_false, seed=start)
        X = rows.truth @ vectors + np.random.default_rng(start).normal(size=(rows.truth.shape[0], N_FEATURES))
        tags = [[";".join(names[each.indices[a:b]]) for a, b in pairwise(each.indptr)] for each in rows[:0:-1]]
        yield X.astype(np.float32), *tags


def write_logs(folder: Path, n_rows: int, *kind: Any) -> None:
    """Items, features, candidates and true labels, in files of so many rows."""
    folder.mkdir(parents=True)
    start = 0
    for X, tags, truth in blocks(n_rows, *kind):
        items = [f"item {start + i:09d}" for i in range(len(X))]
        columns = {f"feature {j:02d}": X[:, j].copy() for j in range(N_FEATURES)}
        table = pa.table({"item": items, **columns, "tags": tags, "truth": truth})
        if start % FILE_ROWS == 0:
            writer = pq.ParquetWriter(folder / f"log-{start // FILE_ROWS:05d}.parquet", table.schema)
        writer.write_table(table)
        start += len(items)
        if start % FILE_ROWS == 0 or start == n_rows:
            writer.close()


def measured(words: list[object], printed: Path) -> tuple[float, float, float]:
    """Seconds, processor seconds and peak memory in GiB of a command; its largest process counts."""
    start = time.perf_counter()
    with printed.open("w") as file:
        command = [sys.executable, "-c", MEASURED, COMMAND, *map(str, words)]
        done = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, check=False)
    text = printed.read_text()
    if done.returncode:
        raise SystemExit(text[-2000:])
    cpu, memory = (float(part) for part in text.rpartition("USED")[2].split())
    return time.perf_counter() - start, cpu, memory / (2**30 if sys.platform == "darwin" else 2**20)


def ranked(data: Path, out: Path) -> tuple[float, float]:
    """AP of finding false candidates by P(true), and their share."""
    false, probability = [], []
    for log, told in zip(sorted(data.iterdir()), sorted((out / "verdicts").iterdir()), strict=True):
        rows = pq.read_table(log, columns=["item", "truth"]).to_pydict()
        true = {(item, tag) for item, tags in zip(*rows.values(), strict=True) for tag in tags.split(";")}
        verdicts = pq.read_table(told, columns=["item", "label", "probability"]).to_pydict()
        false += [cell not in true for cell in zip(verdicts["item"], verdicts["label"], strict=True)]
        probability += verdicts["probability"]
    return average_precision_score(false, -np.array(probability)), float(np.mean(false))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 300_000, 1_000_000])
    parser.add_argument("--labels", type=int, help="many of them; by default 200")
    parser.add_argument("--false", type=int, default=15, help="draws of false candidates in a row, with --labels")
    parser.add_argument("--commands", nargs="+", default=["audit", "predict", "evaluate"])
    parser.add_argument("--train-rows", type=int, default=MODEL_ROWS, help="of each model of the audit")
    parser.add_argument("--ray-address", help="a Ray cluster, or local")
    parser.add_argument("--options", nargs="*", default=["--quick"], help="further options of fit and audit")
    parser.add_argument("--folder", type=Path, help="where files are made; by default a temporary folder")
    parser.add_argument("--keep", action="store_true", help="leave data there, and use what is there")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    where = ["--stream", *(["--ray-address", options.ray_address] if options.ray_address else [])]
    reading = ["--candidates", "tags", "--ignore", "truth", "--id", "item", *filter(None, options.options)]
    with tempfile.TemporaryDirectory() as temporary:
        base = options.folder or Path(temporary)
        small, model, printed = base / "fit", base / "model", base / "printed.txt"
        kind = (options.labels, options.false)
        ready = options.commands == ["audit"] or "fit" in options.commands or (model / "card.json").exists()
        if not ready:
            if not small.exists():
                write_logs(small, MODEL_ROWS, *kind)
            measured(["fit", small, "--stream", "--out", model, *reading], printed)
        print(
            " ".join(f"{name:>10}" for name in ("command", "rows", "seconds", "CPU s", "GiB", "AP", "false")),
            flush=True,
        )
        for n_rows in options.rows:
            data, out = base / f"logs-{n_rows}", base / "out"
            if not data.exists():
                write_logs(data, n_rows, *kind)
            given = {
                "fit": [data, *reading, "--out", model],
                "audit": [data, *reading, "--train-rows", options.train_rows, "--out", out],
                "predict": [model, data, "--out", out],
                "evaluate": [model, data, "--truth", "truth"],
            }
            for command in options.commands:
                shutil.rmtree(model if command == "fit" else out, ignore_errors=True)
                seconds, cpu, memory = measured([command, *given[command], *where], printed)
                cells = [command, n_rows, f"{seconds:.0f}", f"{cpu:.0f}", f"{memory:.2f}"]
                cells += [f"{share:.3f}" for share in ranked(data, out)] if command == "audit" else []
                print(" ".join(f"{cell:>10}" for cell in cells), flush=True)
            if not options.keep:
                shutil.rmtree(data)


if __name__ == "__main__":
    main()
