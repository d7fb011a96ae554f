"""`make bench`: every bench in turn, each a ratio to a baseline that is measured in the same run."""

import subprocess
import sys
from pathlib import Path

BENCHES = (
    "bench_start.py",
    "bench_pipeline.py",
    "bench_episodes.py",
    "bench_harnesses.py",
    "bench_idle.py",
    "bench_replicas.py",
    "bench_scorer.py",
    "bench_reading.py",
    "bench_likelihood.py",
    "bench_generate.py",
    "bench_gates.py",
    "bench_labels.py",
    "bench_second_reader.py",
    "bench_sequential.py",
    "bench_share.py",
    "bench_survey.py",
    "bench_variance.py",
)

for name in BENCHES:
    print(f"\n== {name}", flush=True)
    subprocess.run([sys.executable, str(Path(__file__).parent / name), *sys.argv[1:]], check=True)
