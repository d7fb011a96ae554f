"""One run: planned, evaluated, resumed, scored again, merged."""
