"""Plays worlds: `python tests/play_worlds.py --seeds 100000`, or one and what happens in it: `--seed 17`."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from concurrent.futures import ProcessPoolExecutor

from simulation.world import Violation, play

_BLOCK = 50


def main() -> None:
    """Ends with 1 if a world found a violation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="How many worlds to play.")
    parser.add_argument("--first", type=int, default=0, help="The first seed.")
    parser.add_argument("--seed", type=int, help="Only this one, with everything that happens.")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="Processes.")
    options = parser.parse_args()
    if options.seed is not None:
        play(options.seed, print)
        return
    seeds = range(options.first, options.first + options.seeds)
    blocks = [seeds[start : start + _BLOCK] for start in range(0, len(seeds), _BLOCK)]
    found = played = 0
    with ProcessPoolExecutor(options.workers) as pool:
        for block, violations in zip(blocks, pool.map(_play, blocks), strict=True):
            played += len(block)
            found += len(violations)
            for violation in violations:
                print(violation, flush=True)
            if played % 500 == 0:
                print(f"{played:,} of {len(seeds):,} worlds, {found} violations", file=sys.stderr)
    print(f"{played:,} worlds, {found} violations")
    sys.exit(1 if found else 0)


def _play(seeds: range) -> list[str]:
    gc.disable()
    gc.collect()
    gc.freeze()  # what is left of each world is freed, and nothing else is looked through for it
    violations = []
    for seed in seeds:
        try:
            play(seed)
        except Violation as violation:
            violations.append(str(violation))
        gc.collect()
    gc.unfreeze()
    return violations


if __name__ == "__main__":
    main()
