"""Prints what an image needs of a pyproject.toml: `dependencies.py IMAGE pyproject.toml [EXTRA...]`.

One wheel holds all services; an image leaves out what its own service never imports. tests/deploy imports every
module of the service inside the image, so a name that is missing here is found.
"""

import re
import sys
import tomllib
from pathlib import Path

WITHOUT = {
    "orchestrator": {"prometheus-client"},
    "scorer": {"datasets", "httpx", "ijson", "jinja2", "pillow", "pyarrow", "rich"},
    "tool-server": {"datasets", "httpx", "ijson", "jinja2", "prometheus-client", "pyarrow", "rich"},
    "model-server": {"datasets", "httpx", "ijson", "orjson", "pyarrow", "rich"},
}

image, path, *extras = sys.argv[1:]
project = tomllib.loads(Path(path).read_text())["project"]
wanted = [*project["dependencies"], *(name for extra in extras for name in project["optional-dependencies"][extra])]
print("\n".join(line for line in wanted if re.match(r"[\w.-]+", line).group() not in WITHOUT[image]))
