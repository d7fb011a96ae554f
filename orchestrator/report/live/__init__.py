"""A local page over a folder of runs, live while they run."""
