"""Prints the requirements of a pyproject.toml: `dependencies.py pyproject.toml [EXTRA...]`."""

import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path(sys.argv[1]).read_text())["project"]
extras = project["optional-dependencies"]
print("\n".join([*project["dependencies"], *(name for extra in sys.argv[2:] for name in extras[extra])]))
