"""Tools that a model may call while it answers: built-in image tools, and the protocols by which models call them."""
