"""The papers of the benchmarks: their published tables, and the runs that remake them."""
