"""The parts of `make gpu`."""
