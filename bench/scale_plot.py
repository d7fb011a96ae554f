"""Draws the plot of docs/scale.md: `python bench/scale_plot.py docs/scale.svg`."""

from __future__ import annotations

import argparse
from pathlib import Path

import vl_convert
from simulate import System, simulate

REPLICAS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
SHARDS = (1, 2, 4, 8)


def main() -> None:
    """Simulates all points and draws one line per number of shards."""
    parser = argparse.ArgumentParser()
    parser.add_argument("path", type=Path, help="The SVG file.")
    parser.add_argument("--seconds", type=float, default=60.0, help="That a point is simulated for.")
    flags = parser.parse_args()
    rows = []
    for shards in SHARDS:
        for replicas in REPLICAS:
            if replicas < shards:
                continue
            system = System(replicas=replicas, shards=shards, service=1.0, spread=0.5, image_bytes=12_000)
            wanted = min(replicas * system.slots, shards / system.cpu) * flags.seconds
            outcome = simulate(System(**{**_fields(system), "samples": round(wanted)}))
            rows.append({"replicas": replicas, "shards": str(shards), "rate": outcome.rate})
    log = {"type": "log"}
    spec = {
        "data": {"values": rows},
        "width": 460,
        "height": 280,
        "background": "white",
        "mark": {"type": "line", "point": True},
        "encoding": {
            "x": {
                "field": "replicas",
                "type": "quantitative",
                "scale": log,
                "title": "replicas, 8 answers a second each",
            },
            "y": {"field": "rate", "type": "quantitative", "scale": log, "title": "samples per second"},
            "color": {"field": "shards", "type": "nominal", "title": "shards"},
        },
    }
    flags.path.write_text(vl_convert.vegalite_to_svg(spec, allowed_base_urls=[]))


def _fields(system: System) -> dict[str, float]:
    return {name: getattr(system, name) for name in System.__dataclass_fields__}


if __name__ == "__main__":
    main()
