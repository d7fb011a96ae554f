"""ScorerService: extraction rules, judges and metrics."""
