"""Training of the bundled demo model."""
