"""Models that come along: one without weights, and the training of a small one that sees drawn pictures."""
