"""Benchmarks written as a task file: data, columns, a prompt and a rule, in YAML."""

from orchestrator.benchmarks.taskfile.benchmark import load
from orchestrator.benchmarks.taskfile.reading import TaskFileError

__all__ = ["TaskFileError", "load"]
