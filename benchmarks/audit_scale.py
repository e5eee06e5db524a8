"""How ``propml audit`` grows with the rows: seconds, peak memory, and whether its verdicts are right.

    python benchmarks/audit_scale.py                                        # 50 000, 200 000 and 1 000 000 rows
    python benchmarks/audit_scale.py --rows 200000 --options=--noise=auto  # nothing said of the noise
    python benchmarks/audit_scale.py --rows 1000000 --threads 1 --folder scale --keep

Each size is a made-up Parquet file of 100 features and 200 labels, written block by block; the command runs in a
process of its own, whose peak memory the system tells. Truth lies beside the file and is read afterwards only. A row
has one to three true labels, some of which are a hundred times as frequent as others; its features are the sum of their
prototypes under noise, a third of them without their sign. As many false candidates join them: four in five are
taken from the five labels that look alike, the others are drawn by frequency. The audit is told so: unless one says
that labels are confused, it takes what looks like a candidate for true, and drops nothing here.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from sklearn.metrics import average_precision_score

N_FEATURES, N_LABELS, ALIKE = 100, 200, 5
NOISE = 2.0
BLOCK = 50_000
LABELS = np.array([f"label {j:03d}" for j in range(N_LABELS)])
COMMAND = "from propml.cli import main; main()"


class Block(NamedTuple):
    """Features ``(n, 100)``, and truth and candidates ``(n, 200)``."""

    X: np.ndarray
    truth: np.ndarray
    candidates: np.ndarray


def made_rows(n_rows: int, seed: int = 0) -> Iterator[Block]:
    """Rows of a world whose truth is known, in blocks."""
    world = np.random.default_rng([seed, 0])
    families = np.repeat(world.normal(size=(N_LABELS // ALIKE, N_FEATURES)), ALIKE, axis=0)
    prototypes = 0.8 * families + 0.6 * world.normal(size=(N_LABELS, N_FEATURES))
    frequency = world.permutation(1 / (np.arange(N_LABELS) + 2.0))
    frequency /= frequency.sum()
    for start in range(0, n_rows, BLOCK):
        rng = np.random.default_rng([seed, 1, start])
        n = min(BLOCK, n_rows - start)
        truth = np.zeros((n, N_LABELS), dtype=bool)
        number = rng.integers(1, 4, size=n)
        for place in range(3):
            rows = np.flatnonzero(number > place)
            truth[rows, rng.choice(N_LABELS, size=len(rows), p=frequency)] = True
        X = truth @ prototypes + NOISE * rng.normal(size=(n, N_FEATURES))
        X[:, ::3] = np.abs(X[:, ::3])
        yield Block(X.astype(np.float32), truth, truth | _false_labels(truth, frequency, rng))


def _false_labels(truth: np.ndarray, frequency: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    false = np.zeros_like(truth)
    row, label = np.nonzero(truth)
    for _ in range(2):
        confused = rng.random(len(row)) < 0.5
        near = label[confused] // ALIKE * ALIKE + rng.integers(ALIKE, size=int(confused.sum()))
        false[row[confused], near] = True
    strange = np.flatnonzero(rng.random(len(truth)) < 0.4)
    false[strange, rng.choice(N_LABELS, size=len(strange), p=frequency)] = True
    return false


def write_data(data: Path, truth: Path, n_rows: int) -> None:
    """The file to audit (item, features, candidates) and the true labels beside it."""
    names = [f"feature {j:02d}" for j in range(N_FEATURES)]
    schema = pa.schema([("item", pa.string()), *((name, pa.float32()) for name in names), ("candidates", pa.string())])
    with pq.ParquetWriter(data, schema) as write, pq.ParquetWriter(truth, pa.schema([("true", pa.string())])) as aside:
        start = 0
        for block in made_rows(n_rows):
            items = [f"item {start + i:07d}" for i in range(len(block.X))]
            columns = [items, *(np.ascontiguousarray(column) for column in block.X.T), _texts(block.candidates)]
            write.write_table(pa.table([pa.array(column) for column in columns], schema=schema))
            aside.write_table(pa.table({"true": _texts(block.truth)}))
            start += len(items)


def _texts(marked: np.ndarray) -> list[str]:
    row, label = np.nonzero(marked)
    ends = np.searchsorted(row, np.arange(1, len(marked) + 1)).tolist()
    names = LABELS[label].tolist()
    return [";".join(names[a:b]) for a, b in zip([0, *ends], ends, strict=False)]


def run_audit(data: Path, out: Path, options: list[str], threads: int) -> tuple[float, float, float]:
    """Seconds, seconds of processor time, and peak memory in GiB of the command."""
    words = [sys.executable, "-c", COMMAND, "audit", str(data), "--candidates", "candidates", "--id", "item"]
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    start = time.perf_counter()
    with (out.parent / "printed.txt").open("w") as printed:
        process = subprocess.Popen(
            [*words, "--out", str(out), *options], env=environment, stdout=printed, stderr=subprocess.STDOUT
        )
        # wait4 tells the peak of this one child; getrusage would tell the largest of all so far.
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit((out.parent / "printed.txt").read_text()[-2000:])
    in_gib = 2**30 if sys.platform == "darwin" else 2**20
    return time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / in_gib


def judged(out: Path, truth: Path) -> dict[str, float]:
    """The verdicts beside the truth, which nobody has looked at so far."""
    told = pyarrow.csv.read_csv(out / "verdicts.csv").to_pydict()
    row = np.array([int(item.rpartition(" ")[2]) for item in told["item"]])
    label = np.array([int(name.rpartition(" ")[2]) for name in told["label"]])
    true = pq.read_table(truth)["true"].to_pylist()
    cells = {(i, int(name[-3:])) for i, names in enumerate(true) for name in names.split(";")}
    false = np.array([cell not in cells for cell in zip(row.tolist(), label.tolist(), strict=True)])
    verdict, probability = np.array(told["verdict"]), np.array(told["probability"])
    dropped, kept = verdict == "drop", verdict == "keep"
    return {
        "false": float(false.mean()),
        "AP": float(average_precision_score(false, -probability)),
        "precision": float(false[dropped].mean()),
        "recall": float(dropped[false].mean()),
        "false kept": float(false[kept].mean()),
    }


def missed(found: dict[str, float]) -> list[str]:
    """What an audit that works must reach here, and this one does not."""
    reached = {
        "AP": found["AP"] > found["false"] + 0.2,
        "precision": found["precision"] > found["false"] + 0.2,
        "false kept": found["false kept"] < 0.8 * found["false"],
    }
    return [f"{name} {found[name]:.3f}" for name, well in reached.items() if not well]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[50_000, 200_000, 1_000_000])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--options", nargs="*", default=["--noise=confusions"], help="of propml audit")
    parser.add_argument("--folder", type=Path, help="where files are made; by default a temporary folder")
    parser.add_argument("--keep", action="store_true", help="leave the files there, and use those that are there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        base = options.folder or Path(temporary)
        measures = ("false", "AP", "precision", "recall", "false kept")
        columns = ("rows", "seconds", "CPU s", "GiB", *measures, "page MB", "files MB")
        print(" ".join(f"{name:>10}" for name in columns), flush=True)
        short: list[str] = []
        for n_rows in options.rows:
            here = base / str(n_rows)
            here.mkdir(parents=True, exist_ok=True)
            data, truth, out = here / "data.parquet", here / "truth.parquet", here / "audit"
            if not (options.keep and truth.exists()):
                write_data(data, truth, n_rows)
            seconds, cpu, memory = run_audit(data, out, options.options, options.threads)
            found = judged(out, truth)
            page = (out / "review.html").stat().st_size / 1e6
            files = sum(path.stat().st_size for path in out.rglob("*") if path.is_file()) / 1e6
            cells = [f"{n_rows}", f"{seconds:.0f}", f"{cpu:.0f}", f"{memory:.2f}"]
            cells += [f"{found[name]:.3f}" for name in measures]
            print(" ".join(f"{cell:>10}" for cell in [*cells, f"{page:.0f}", f"{files:.0f}"]), flush=True)
            short += [f"{n_rows} rows: {', '.join(names)}" for names in [missed(found)] if names]
            if not options.keep:
                for path in (data, truth):
                    path.unlink()
    if short:
        raise SystemExit(f"below what an audit must reach (see missed): {'; '.join(short)}")


if __name__ == "__main__":
    main()
