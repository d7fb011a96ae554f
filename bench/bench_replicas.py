"""One replica of three that is four times slower: `python bench/bench_replicas.py [--runs N]`.

The ceiling is what three replicas give that never wait: the slots of each over its time. Taking
turns would give three times what the slow one gives. Replicas that sleep need no processor, so
that a busy machine matters little.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path

import bench_pipeline
import pipeline_data
from simulate_check import SLOTS, measured

DELAY = 0.5
DELAYS = (4 * DELAY, DELAY, DELAY)


def main() -> None:
    """Prints one JSON object: rates of the run and of the ceiling, and their ratio."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=800)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--waiting", type=int, default=SLOTS, help="Calls that may wait at each replica.")
    flags, _ = parser.parse_known_args()
    ceiling = sum(SLOTS / delay for delay in DELAYS)
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=".") as name:
        folder = Path(name).resolve()
        pipeline_data.make(folder / "data.parquet", "tiny", flags.rows)
        with bench_pipeline.scorer(folder) as scorer:
            runs = [measured(DELAYS, flags.rows, scorer, folder, flags.waiting) for _ in range(flags.runs)]
    rates = [run["rate"] for run in runs]
    figures = {
        "delays": DELAYS,
        "slots": SLOTS,
        "waiting": flags.waiting,
        "rows": flags.rows,
        "ceiling_per_second": round(ceiling),
        "taking_turns_per_second": round(len(DELAYS) * SLOTS / max(DELAYS)),
        "per_second": round(statistics.median(rates), 1),
        "share_of_ceiling": round(statistics.median(rates) / ceiling, 3),
        "lowest_share": round(min(rates) / ceiling, 3),
        "calls": runs[0]["calls"],
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
