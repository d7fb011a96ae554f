"""Others' predictions, taken in as run folders: one module per kind, each with its `command`."""
