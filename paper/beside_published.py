"""Our baselines beside the published numbers, as Markdown: ``python paper/beside_published.py OURS.csv PUBLISHED.csv``.

The second file has the columns suite, dataset, noise, method, metric, mean, std.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from propml.methods import METHODS


def main(ours: Path, published: Path) -> None:
    with published.open(newline="") as file:
        known = {
            (row["dataset"].lower(), row["noise"] or "0", row["method"]): float(row["mean"])
            for row in csv.DictReader(file)
            if row["metric"] == "average_precision"
        }
    with ours.open(newline="") as file:
        rows = list(csv.DictReader(file))
    methods = [name for name in METHODS if any(row["method"] == name for row in rows)]
    print("| dataset | noise % |", " | ".join(METHODS[name].title for name in methods), "|")
    print("|---" * (2 + len(methods)) + "|")
    for dataset, noise in dict.fromkeys((row["dataset"], row["noise"]) for row in rows):
        cells = []
        for name in methods:
            mine = [r for r in rows if (r["dataset"], r["noise"], r["method"]) == (dataset, noise, name)]
            theirs = known.get((dataset, noise, METHODS[name].title))
            cells.append(
                (f"{float(mine[0]['average_precision']):.1f}" if mine else "") + (f" ({theirs:.1f})" if theirs else "")
            )
        print(f"| {dataset} | {'' if noise == '0' else noise} |", " | ".join(cells), "|")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
