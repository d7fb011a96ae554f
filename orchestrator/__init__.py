"""Benchmarks, data, the run engine, the run log and reports."""
