"""The paper's vision comparison on VOC2007: ``python paper/vision.py --out OUT --done paper``.

Flip rates 0.1, 0.2 and 0.4, seven methods, three seeds. **The setting is not the paper's**: small images (160 px), part
of the real set, a small network from random weights; published numbers come from TResNet-L, pretrained, at 224 px, with
λ and epoch chosen on test labels. Here λ is chosen once per flip rate and loss, on held-out candidates of seed 0; every
network then learns from all training images, to the last epoch, and no test label chooses anything.

Writes ``vision.csv`` (one row per flip rate, method, seed and metric), ``vision_lam.csv`` (the λ that were tried;
their test mAP stands beside, for the reader only), ``vision.md`` and ``vision.svg``. What stands in these files in
``--out`` or ``--done`` is not computed again, so a run that was stopped goes on. ``--quick`` tries everything on
mosaics of digits in a minute; ``--pilot`` compares a few recipes by test mAP before a long run: what is learned from it
(augmentation, length) is the same for all methods, and no method is chosen by it.
"""

from __future__ import annotations

import argparse
import csv
import json
import multiprocessing
import shutil
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from statistics import mean, pstdev

from propml.vision.recipe import METHODS, Recipe
from propml.vision.sources import ImageSource, open_source

NAMES = ("BCE", "ASL", "Query2Label", "CDCR", "ProPML", "Power mean", "Unbiased")
NOISE = (0.1, 0.2, 0.4)
COLUMNS = ("noise", "method", "seed", "lam", "metric", "value", "seconds")
LAM_COLUMNS = ("noise", "method", "lam", "held_out_mAP", "held_out_average_precision", "test_mAP", "chosen")
METRICS = ("mAP", "CF1", "OF1", "CF1@3", "OF1@3")

# From random weights AdamW learns faster than the paper's recipe, which starts from ImageNet.
SETTING = {
    "size": 160,
    "backbone": "resnet18",
    "epochs": 60,
    "batch_size": 128,
    "optimiser": "adamw",
    "lr": 2e-3,
    "weight_decay": 0.05,
    "augment": "crop",
    "ema_decay": 0.997,
    "warmup_epochs": 20,
    "lam_epochs": 20,
    "eval_every": 1000,
    "checkpoint_seconds": 1e9,
    "select": "last",
}
# A transformer head diverges at the rate that suits a ResNet; its width goes with the backbone's 512 channels.
OWN = {"Query2Label": {"lr": 5e-4, "head_width": 512, "head_feedforward": 2048}}
QUICK = {"size": 16, "backbone": "small_cnn", "epochs": 3, "lam_epochs": 1, "warmup_epochs": 1, "augment": "light"}
QUICK_HEAD = {"head_width": 32, "head_feedforward": 64}
# What --pilot compares, by ProPML (λ = 0.3) and BCE at q = 0.2 and 0.4: changes of the setting.
PILOTS: dict[str, dict] = {
    "as it is": {},
    "RandAugment": {"augment": "randaugment"},
    "no average": {"ema_decay": 0.0},
    "resnet26d": {"backbone": "resnet26d"},
    "100 epochs": {"epochs": 100},
}


def recipe_of(method: str, noise: float, seed: int, changes: dict, quick: bool) -> Recipe:
    settings = {**SETTING, **METHODS[method], **OWN.get(method, {}), **(QUICK if quick else {}), **changes}
    if quick and method == "Query2Label":
        settings |= QUICK_HEAD
    if method == "Unbiased":
        settings["flip_rate"] = noise  # as its authors assume, the rate is known
    return Recipe(**{**settings, "noise": noise, "seed": seed})


def sources(quick: bool) -> list[ImageSource]:
    if quick:
        parts = (("train", 300), ("test", 200))
        return [open_source("digits-mosaic", split, n_samples=n) for split, n in parts]
    return [open_source("voc2007", split) for split in ("train", "test")]


def work(job: dict) -> dict:
    """One training, or one choice of λ, in a process of its own."""
    from propml.vision.distributed import join_processes
    from propml.vision.training import lam_for, train
    from propml.vision.training_data import prepare_data

    start, quick = time.perf_counter(), job["quick"]
    recipe = recipe_of(job["method"], job["noise"], job["seed"], job["changes"], quick)
    folder = Path(tempfile.mkdtemp(prefix="vision-"))
    learned, judged = sources(quick)
    try:
        if job["kind"] == "lam":
            with join_processes() as here:
                data, _ = prepare_data(learned, judged, recipe, folder, here, cache=cache(quick), show=False)
                lam_for(data, recipe, folder, here, show=False)
            return {**job, "found": json.loads((folder / "lam.json").read_text())}
        result = train(learned, judged, recipe, folder / "run", cache=cache(quick), show=False)
        found = {"lam": result.lam, "metrics": result.metrics, "speed": result.history[-1]["images_per_second"]}
        return {**job, **found, "seconds": round(time.perf_counter() - start, 1)}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def cache(quick: bool) -> Path | None:
    from propml.datasets.locations import cache_dir

    return None if quick else cache_dir() / "images"


class Table:
    """A CSV file that grows; it starts with what an earlier run left in another folder."""

    def __init__(self, name: str, columns: tuple[str, ...], out: Path, done: Path | None) -> None:
        self.path, self.columns = out / name, columns
        earlier = [path for path in (self.path, done / name if done else None) if path is not None and path.exists()]
        self.rows = read(earlier[0]) if earlier else []
        self.write()

    def add(self, rows: list[dict]) -> None:
        self.rows += [{column: str(row[column]) for column in self.columns} for row in rows]
        self.write()

    def write(self) -> None:
        with self.path.open("w", newline="") as file:
            writer = csv.DictWriter(file, self.columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.rows)

    def has(self, **wanted: object) -> bool:
        return any(all(row[name] == str(value) for name, value in wanted.items()) for row in self.rows)


def read(path: Path) -> list[dict]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def choose_lams(
    pool: ProcessPoolExecutor, table: Table, options: argparse.Namespace, changes: dict
) -> dict[tuple[str, float], float]:
    chooses = [name for name in options.methods if recipe_of(name, 0.1, 0, changes, options.quick).chooses_lam]
    jobs = [
        {"kind": "lam", "method": name, "noise": noise, "seed": 0, "changes": changes, "quick": options.quick}
        for noise in options.noise
        for name in chooses
        if not table.has(noise=noise, method=name)
    ]
    for done in as_completed([pool.submit(work, job) for job in jobs]):
        row, rows = done.result(), []
        for tried in row["found"]["tried"]:
            held = {f"held_out_{name}": round(100 * value, 2) for name, value in tried["held_out"].items()}
            chosen = int(tried["lam"] == row["found"]["lam"])
            own = {"lam": tried["lam"], "test_mAP": round(100 * tried["validation"]["mAP"], 2), "chosen": chosen}
            rows.append({"noise": row["noise"], "method": row["method"], **own, **held})
            print(*rows[-1].values(), flush=True)
        table.add(rows)
    return {(row["method"], float(row["noise"])): float(row["lam"]) for row in table.rows if row["chosen"] == "1"}


def run_grid(options: argparse.Namespace) -> None:
    changes = {name: getattr(options, name) for name in ("backbone", "epochs", "augment") if getattr(options, name)}
    table = Table("vision.csv", COLUMNS, options.out, options.done)
    lam_table = Table("vision_lam.csv", LAM_COLUMNS, options.out, options.done)
    with ProcessPoolExecutor(options.workers, multiprocessing.get_context("spawn")) as pool:
        lams = choose_lams(pool, lam_table, options, changes)
        jobs = [
            {"kind": "train", "method": name, "noise": noise, "seed": seed, "quick": options.quick}
            | {"changes": changes | ({"lam": lams[name, noise]} if (name, noise) in lams else {})}
            for seed in options.seeds
            for noise in reversed(options.noise)
            for name in options.methods
            if not table.has(noise=noise, method=name, seed=seed)
        ]
        for done in as_completed([pool.submit(work, job) for job in jobs]):
            row = done.result()
            values = [{"metric": name, "value": round(100 * row["metrics"][name], 3)} for name in METRICS]
            table.add([{**row, **value, "lam": f"{row['lam']:.4g}"} for value in values])
            told = f"q {row['noise']} {row['method']:12} seed {row['seed']} λ {row['lam']:.3g}"
            print(f"{told}: mAP {values[0]['value']:.2f}, {row['seconds']} s, {row['speed']:.0f} images/s", flush=True)
    report(table.rows, options)


def run_pilot(options: argparse.Namespace) -> None:
    with ProcessPoolExecutor(options.workers, multiprocessing.get_context("spawn")) as pool:
        jobs = {
            pool.submit(
                work,
                {"kind": "train", "method": method, "noise": noise, "seed": 0, "quick": options.quick}
                | {"changes": {**changes, **({"lam": 0.3} if method == "ProPML" else {})}},
            ): name
            for name, changes in PILOTS.items()
            for noise in (0.4, 0.2)
            for method in ("ProPML", "BCE")
        }
        for done in as_completed(jobs):
            row = done.result()
            told = f"{jobs[done]:12} q {row['noise']} {row['method']:8} mAP {100 * row['metrics']['mAP']:.2f}"
            print(f"{told}, {row['seconds']} s, {row['speed']:.0f} images/s", flush=True)


def report(rows: list[dict], options: argparse.Namespace) -> None:
    """The table beside the published numbers, and the figure."""
    from propml.benchmark.published import load_published
    from propml.benchmark.results import Result

    dataset = "digits-mosaic" if options.quick else "voc2007"
    results = [
        Result("vision", dataset, float(row["noise"]), row["method"], int(row["seed"]), 0, row["metric"], value)
        for row in rows
        for value in [float(row["value"]) / 100]
    ]
    beside = [row for row in load_published("vision") if row.dataset == dataset and row.metric == "mAP"]
    printed = {(row.noise, row.method): row.mean for row in beside}
    noises = sorted({float(row["noise"]) for row in rows})
    lines = [
        "mAP on the test images in percent, mean ± standard deviation over seeds; in brackets the paper's, which has "
        "another setting (TResNet-L, pretrained on ImageNet, 224 px, all images, chosen on test labels).",
        "",
        "| method | " + " | ".join(f"q = {noise:g}" for noise in noises) + " |",
        "|---|" + "---|" * len(noises),
    ]
    for name in dict.fromkeys(result.method for result in results):
        cells = []
        for noise in noises:
            own = [100 * r.value for r in results if (r.method, r.noise, r.metric) == (name, noise, "mAP")]
            published = f" ({printed[noise, name]:.1f})" if (noise, name) in printed else ""
            cells.append(f"{mean(own):.1f} ± {pstdev(own):.1f}{published}" if own else "")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    text = "\n".join(lines) + "\n"
    (options.out / "vision.md").write_text(text, encoding="utf-8")
    print("\n" + text)
    if len(noises) < 2:
        print("no figure: a curve takes at least two flip rates")
        return
    try:
        from propml.benchmark.figures import noise_curves, save
    except ImportError as error:
        print(f"no figure: {error}")
        return
    figure, _ = noise_curves(results, beside, "mAP", methods=NAMES)
    save(figure, options.out / "vision.svg")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("vision"), help="folder of the results")
    parser.add_argument("--done", type=Path, help="folder with results of earlier runs")
    parser.add_argument("--methods", nargs="+", default=list(NAMES), choices=list(METHODS))
    parser.add_argument("--noise", nargs="+", type=float, default=list(NOISE))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--workers", type=int, default=1, help="trainings at once on the one GPU")
    parser.add_argument("--backbone")
    parser.add_argument("--augment")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--quick", action="store_true", help="mosaics of digits, a minute on a CPU")
    parser.add_argument("--pilot", action="store_true", help="compare a few recipes and stop")
    parser.add_argument("--report", action="store_true", help="only write the table and the figure")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.pilot:
        run_pilot(options)
    elif options.report:
        report(Table("vision.csv", COLUMNS, options.out, options.done).rows, options)
    else:
        run_grid(options)


if __name__ == "__main__":
    main()
