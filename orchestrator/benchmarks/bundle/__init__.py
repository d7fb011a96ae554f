"""Bundles: a task's data in a folder of its own, with digests, for machines without a network."""

from orchestrator.benchmarks.bundle.reading import BUNDLE, BundleError, resolve
from orchestrator.benchmarks.bundle.writing import write

__all__ = ["BUNDLE", "BundleError", "resolve", "write"]
