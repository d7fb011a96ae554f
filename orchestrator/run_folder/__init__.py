"""What a run keeps on disk: written and read here alone."""
