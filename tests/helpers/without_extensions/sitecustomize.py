"""Hides the extensions from every process that has this folder on PYTHONPATH, as where none is installed."""

import sys

sys.path[:] = [folder for folder in sys.path if not folder.endswith("/extensions")]
