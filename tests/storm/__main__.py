"""The long form of the storms: ``STORM_MINUTES=10 PYTHONPATH=tests python -m storm [NAME …]``, a table at the end."""

from __future__ import annotations

import os
import sys
import time

from storm.registry import STORMS


def main(names: list[str]) -> int:
    """Run the named storms, or all of them, and print what they counted."""
    minutes = float(os.environ.get("STORM_MINUTES", "10"))
    seed = int(os.environ.get("STORM_SEED", str(int(time.time()))))
    chosen = {name: STORMS[name] for name in names or STORMS}
    print(f"{minutes:g} minutes, STORM_SEED={seed}", flush=True)
    tallies = []
    for name, storm in chosen.items():
        start = time.perf_counter()
        tallies += storm(60 * minutes / len(chosen), seed)
        print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)
    print("\n| storm | tried | failed | lost |\n|---|---|---|---|")
    for tally in tallies:
        print(f"| {tally.what} | {tally.tried} | {tally.failed} | {tally.lost} |")
    for tally in tallies:
        for example in tally.examples:
            print(f"{tally.what}: {example}")
    return int(any(tally.failed or tally.lost for tally in tallies))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
