"""How ``--stream`` grows with the rows: seconds, rows a minute, and the peak memory of each process.

    python benchmarks/streaming.py                                       # 100 000, 300 000 and 1 000 000 rows
    python benchmarks/streaming.py --rows 300000 --ray-address local     # on all cores of this machine
    python benchmarks/streaming.py --rows 100000000 --folder /data --keep --train-rows 100000 --options=

Each size is a folder of made-up Parquet files of 100 features and 200 labels (``benchmarks/audit_scale.py`` tells how
they are made), 100 000 rows in each file. ``fit``, ``predict`` and ``audit`` run in processes of their own, whose peak
memory the system tells; with Ray that is the driver's, and the largest of its workers' is shown beside it. The true
labels lie beside the data and are read by ``evaluate`` only.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from audit_scale import COMMAND, LABELS, N_FEATURES, _texts, made_rows

FILE_ROWS = 100_000


def write_logs(folder: Path, n_rows: int) -> None:
    """Items, features, candidates and true labels, in files of so many rows."""
    folder.mkdir(parents=True)
    names = [f"feature {j:02d}" for j in range(N_FEATURES)]
    start = 0
    writer = None
    for block in made_rows(n_rows):
        items = [f"item {start + i:09d}" for i in range(len(block.X))]
        columns = {name: block.X[:, j].copy() for j, name in enumerate(names)}
        table = pa.table({"item": items, **columns, "tags": _texts(block.candidates), "truth": _texts(block.truth)})
        if start % FILE_ROWS == 0:
            if writer is not None:
                writer.close()
            writer = pq.ParquetWriter(folder / f"log-{start // FILE_ROWS:05d}.parquet", table.schema)
        writer.write_table(table)
        start += len(items)
    writer.close()


def measured(words: list[str], printed: Path) -> tuple[float, float, float]:
    """Seconds and peak GiB of a command, and the peak of the largest process that it started."""
    start = time.perf_counter()
    # A shell of its own would be the largest child of all commands before, too: each is measured by an own process.
    code = (
        "import resource, subprocess, sys\n"
        "done = subprocess.Popen([sys.executable, '-c', sys.argv[1], *sys.argv[2:]])\n"
        "import os; _, status, usage = os.wait4(done.pid, 0)\n"
        "print('PEAK', usage.ru_maxrss, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
        "sys.exit(os.waitstatus_to_exitcode(status))"
    )
    with printed.open("w") as file:
        done = subprocess.run([sys.executable, "-c", code, COMMAND, *words], stdout=file, stderr=subprocess.STDOUT)
    text = printed.read_text()
    if done.returncode:
        raise SystemExit(text[-2000:])
    own, largest = (int(part) for part in text.rpartition("PEAK")[2].split())
    in_gib = 2**30 if sys.platform == "darwin" else 2**20
    return time.perf_counter() - start, own / in_gib, largest / in_gib


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 300_000, 1_000_000])
    parser.add_argument("--commands", nargs="+", default=["audit", "predict", "evaluate"])
    parser.add_argument("--train-rows", type=int, default=20_000, help="of the audit; the model to predict has all")
    parser.add_argument("--ray-address", help="a Ray cluster, or local")
    parser.add_argument("--options", nargs="*", default=["--quick"], help="further options of fit and audit")
    parser.add_argument("--folder", type=Path, help="where files are made; by default a temporary folder")
    parser.add_argument("--keep", action="store_true", help="leave data there, and use what is there")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    where = ["--stream", *(["--ray-address", options.ray_address] if options.ray_address else [])]
    with tempfile.TemporaryDirectory() as temporary:
        base = options.folder or Path(temporary)
        small, model, printed = base / "fit", base / "model", base / "printed.txt"
        if not small.exists():
            write_logs(small, 20_000)
        if not model.exists() and set(options.commands) & {"predict", "evaluate"}:
            words = [
                "fit",
                small,
                "--candidates",
                "tags",
                "--id",
                "item",
                "--ignore",
                "truth",
                "--stream",
                "--out",
                model,
            ]
            measured([*map(str, words), *options.options], printed)
        print(
            " ".join(f"{name:>10}" for name in ("command", "rows", "seconds", "rows/min", "GiB", "largest")), flush=True
        )
        for n_rows in options.rows:
            data, out = base / f"logs-{n_rows}", base / "out"
            if not data.exists():
                write_logs(data, n_rows)
            for command in options.commands:
                shutil.rmtree(out, ignore_errors=True)
                given = {
                    "audit": [data, "--candidates", "tags", "--ignore", "truth", "--id", "item", "--out", out,
                              "--train-rows", options.train_rows, *options.options],
                    "predict": [model, data, "--out", out],
                    "evaluate": [model, data, "--truth", "truth"],
                }[command]  # fmt: skip
                seconds, own, largest = measured([command, *map(str, given), *where], printed)
                cells = [
                    command,
                    n_rows,
                    f"{seconds:.0f}",
                    f"{60 * n_rows / seconds:.0f}",
                    f"{own:.2f}",
                    f"{largest:.2f}",
                ]
                print(" ".join(f"{cell:>10}" for cell in cells), flush=True)
            if not options.keep:
                shutil.rmtree(data)


if __name__ == "__main__":
    assert len(LABELS) == 200
    main()
