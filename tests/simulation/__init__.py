"""A seeded world for a whole run: see `simulation.world`."""
