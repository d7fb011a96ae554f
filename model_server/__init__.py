"""ModelService over a backend, and the kit for writing one's own."""
