"""The benchmarks, one readable file each."""
