"""How ``--stream`` grows with the rows: seconds, processor seconds and peak memory.

    python benchmarks/streaming.py                                       # 100 000, 300 000 and 1 000 000 rows
    python benchmarks/streaming.py --rows 300000 --ray-address local     # on all cores of this machine
    python benchmarks/streaming.py --rows 100000000 --folder /data --keep --train-rows 100000 --options=

Each size is a folder of made-up Parquet files of 100 features and 200 labels (``benchmarks/audit_scale.py`` tells how
they are made), 100 000 rows in each. Every command runs in a process of its own. Its processor seconds and its peak
memory are told by the system, together with those of all processes that it waited for.
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
from audit_scale import COMMAND, N_FEATURES, _texts, made_rows

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


def write_logs(folder: Path, n_rows: int) -> None:
    """Items, features, candidates and true labels, in files of so many rows."""
    folder.mkdir(parents=True)
    start = 0
    for block in made_rows(n_rows):
        items = [f"item {start + i:09d}" for i in range(len(block.X))]
        columns = {f"feature {j:02d}": block.X[:, j].copy() for j in range(N_FEATURES)}
        table = pa.table({"item": items, **columns, "tags": _texts(block.candidates), "truth": _texts(block.truth)})
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 300_000, 1_000_000])
    parser.add_argument("--commands", nargs="+", default=["audit", "predict", "evaluate"])
    parser.add_argument("--train-rows", type=int, default=MODEL_ROWS, help="of each model of the audit")
    parser.add_argument("--ray-address", help="a Ray cluster, or local")
    parser.add_argument("--options", nargs="*", default=["--quick"], help="further options of fit and audit")
    parser.add_argument("--folder", type=Path, help="where files are made; by default a temporary folder")
    parser.add_argument("--keep", action="store_true", help="leave data there, and use what is there")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    where = ["--stream", *(["--ray-address", options.ray_address] if options.ray_address else [])]
    reading = ["--candidates", "tags", "--ignore", "truth", "--id", "item", *options.options]
    with tempfile.TemporaryDirectory() as temporary:
        base = options.folder or Path(temporary)
        small, model, printed = base / "fit", base / "model", base / "printed.txt"
        if not small.exists():
            write_logs(small, MODEL_ROWS)
        if not (model / "card.json").exists():
            measured(["fit", small, "--stream", "--out", model, *reading], printed)
        print(" ".join(f"{name:>10}" for name in ("command", "rows", "seconds", "CPU s", "GiB")), flush=True)
        for n_rows in options.rows:
            data, out = base / f"logs-{n_rows}", base / "out"
            if not data.exists():
                write_logs(data, n_rows)
            given = {
                "audit": [data, *reading, "--train-rows", options.train_rows, "--out", out],
                "predict": [model, data, "--out", out],
                "evaluate": [model, data, "--truth", "truth"],
            }
            for command in options.commands:
                shutil.rmtree(out, ignore_errors=True)
                seconds, cpu, memory = measured([command, *given[command], *where], printed)
                cells = [command, n_rows, f"{seconds:.0f}", f"{cpu:.0f}", f"{memory:.2f}"]
                print(" ".join(f"{cell:>10}" for cell in cells), flush=True)
            if not options.keep:
                shutil.rmtree(data)


if __name__ == "__main__":
    main()
