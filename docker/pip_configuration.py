"""Turns `pip config list` into a pip.conf for a build (or, with --paths, the local folders that it names)."""

import shlex
import sys

settings: dict[str, str] = {}
for line in sys.stdin:
    key, _, value = line.strip().partition("=")
    scope, _, name = key.partition(".")
    if scope in ("global", "install", ":env:") and name:
        settings[name] = shlex.split(value)[0] if value else ""

if "--paths" in sys.argv:
    words = " ".join(settings.get(name, "") for name in ("find-links", "index-url", "extra-index-url")).split()
    folders = {word.removeprefix("file://") for word in words if word.startswith(("/", "file://"))}
    print("\n".join(sorted({"/".join(folder.split("/")[:3]) for folder in folders})))
else:
    print("[global]")
    for name, value in settings.items():
        print(f"{name} = {value}")
