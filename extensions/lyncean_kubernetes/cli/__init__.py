"""Commands of the extension: `orchestrator submit`, and `wait` in its pods."""
