"""`make gpu`: measures the model server on a machine with a GPU, in one command and one file of results.

Parts, in their order: exactness in bfloat16 and float32 against the library, out of memory and recovery, likelihood of
N candidates, generation in continuous and static batches, prompts and images that are read once, throughput beside
`transformers serve` and vLLM, the share of time for which the GPU works while the engine asks, and one benchmark with a
hub model. A part that cannot run gives the reason and is skipped; one that fails sets exit code 1 after the others.
`--toy` takes sizes for a CPU and a few seconds: it shows that all parts run, but measures nothing.
"""

# ruff: noqa: E402  (the path comes before the imports that need it)
from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import os
import platform
import re
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "extensions"), str(ROOT / "bench")]

import torch
from bench_likelihood import build
from gpu_parts import exactness, memory, once, rivals, whole
from gpu_parts.part import Machine, Passed, Row

import lyncean.transformers_import  # noqa: F401  (before the library's classes)

PARTS: dict[str, Callable[[Machine], list[Row]]] = {
    "exactness": exactness.measure,
    "memory": memory.measure,
    "likelihood": whole.likelihood,
    "generation": whole.generation,
    "read once": once.measure,
    "throughput": rivals.measure,
    "busy": whole.busy,
    "benchmark": whole.benchmark,
}


def hardware() -> str:
    """Returns the name of the GPU, else of the processor."""
    if torch.cuda.is_available():
        count = torch.cuda.device_count()
        return f"{count} x {torch.cuda.get_device_name()}" if count > 1 else str(torch.cuda.get_device_name())
    return f"{platform.processor() or platform.machine()} CPU, no GPU"


def page(rows: dict[str, list[Row] | str], date: str, options: argparse.Namespace) -> str:
    """Returns the results as a Markdown page."""
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("torch", "transformers"))
    lines = [f"# {hardware()}, {date}", "", f"{versions}, CPython {platform.python_version()}; `{command(options)}`."]
    if options.toy:
        lines.append("Toy sizes: the numbers measure nothing.")
    for part, part_rows in rows.items():
        lines += ["", f"## {part[0].upper()}{part[1:]}", ""]
        if isinstance(part_rows, str):
            lines.append(part_rows)
            continue
        lines += ["| what | value |", "|---|---|", *(f"| {row.what} | {row.value} |" for row in part_rows)]
    return "\n".join(lines) + "\n"


def command(options: argparse.Namespace) -> str:
    """Returns the command line."""
    return " ".join(["make gpu" if not options.toy else "python bench/gpu.py --toy", *options.parts])


def main() -> None:
    """Runs the parts, prints them and writes the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"Of {', '.join(PARTS)}; default: all.")
    parser.add_argument("--toy", action="store_true", help="Sizes for a CPU.")
    parser.add_argument("--model", default="llava-hf/llava-1.5-7b-hf", help="Hub model of the benchmark.")
    parser.add_argument("--out", type=Path, default=ROOT / "bench/results", help="Folder of the results' file.")
    options = parser.parse_args()
    if unknown := set(options.parts) - PARTS.keys():
        parser.error(f"{min(unknown)!r} is not a part: {', '.join(PARTS)}")
    if not (options.toy or torch.cuda.is_available()):
        parser.error("this machine has no GPU that torch sees: --toy runs all parts at toy size")
    os.environ["PYTHONPATH"] = os.pathsep.join([*sys.path[:3], os.environ.get("PYTHONPATH", "")])
    width, layers = (64, 4) if options.toy else (2048, 24)
    date, failed = datetime.date.today().isoformat(), False
    rows: dict[str, list[Row] | str] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind in ("llava", "hybrid"):
            build(folder / kind, width, layers, kind == "hybrid", patch=42 if options.toy else 14)
        machine = Machine(folder, options.toy, options.model, width, layers)
        for part in options.parts or PARTS:
            print(f"\n== {part}", flush=True)
            try:
                rows[part] = part_rows = PARTS[part](machine)
                for row in part_rows:
                    print(f"{row.what}: {row.value}", flush=True)
                failed |= not all(row.good for row in part_rows)
            except Passed as reason:
                rows[part] = f"Not run: {reason}."
                print(rows[part], flush=True)
            except Exception as error:  # the other parts are measured nevertheless
                traceback.print_exc()
                rows[part] = f"Failed: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
                failed = True
    options.out.mkdir(parents=True, exist_ok=True)
    short = re.sub(r"\W+", "-", hardware()).strip("-").lower()
    file = options.out / f"gpu-{date}-{short}.md"
    file.write_text(page(rows, date, options))
    print(f"\nwritten: {file}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
