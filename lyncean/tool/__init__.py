"""Generated from the contract of the same name."""
