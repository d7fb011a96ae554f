"""Turns `pip config list` on stdin into what a build takes over: `pip_configuration.py FOLDER [--local]`.

Writes FOLDER/pip.conf and FOLDER/ca-certificates.crt (empty without a bundle of one's own), which the Dockerfiles mount
as secrets. Settings that name folders or files of this machine are left out, unless --local is given: then the paths
that have to be mounted are printed, one a line.
"""

import ast
import shutil
import sys
from pathlib import Path

PLACES = ("index-url", "extra-index-url", "find-links", "constraint")
OTHERS = ("no-index", "trusted-host", "proxy", "default-timeout", "timeout", "retries")

folder, local = Path(sys.argv[1]), "--local" in sys.argv
settings: dict[str, str] = {}
for line in sys.stdin:
    key, _, value = line.strip().partition("=")
    scope, _, name = key.partition(".")
    if scope in ("global", "install", "user", "site", ":env:") and value:
        settings[name] = str(ast.literal_eval(value))

lines, mounts = [], set()
for name in (name for name in (*PLACES, *OTHERS) if name in settings):
    words = settings[name].split()
    here = {word: Path(word.removeprefix("file://")) for word in words if word.startswith(("/", "file://"))}
    if local:
        # An index's pages link to files in a folder beside them.
        mounts |= {path.parent if name.endswith("index-url") else path for path in here.values()}
    kept = words if local else [word for word in words if word not in here]
    if kept:
        lines.append(f"{name} = " + "\n    ".join(kept))

bundle = folder / "ca-certificates.crt"
bundle.touch()
if "cert" in settings:
    shutil.copyfile(settings["cert"], bundle)
    lines.append("cert = /run/secrets/ca-certificates")
(folder / "pip.conf").write_text("\n".join(["[global]", *lines, ""]))
print("\n".join(sorted(str(path) for path in mounts if path.exists())))
