"""Cells: child processes for code and files of others, closed by the kernel before they see any of it."""
