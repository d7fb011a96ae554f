"""Writes docker/locked/IMAGE.txt: every package of an image, pinned, with the hashes of its wheels for both platforms.

And docker/locked/build.txt, what builds ours. Run `make lock` after a change of dependencies in pyproject.toml or
constraints.txt. It asks the package index that pip is set up with. Images with torch are left out: its builds differ by
index, and are pinned by version.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
PLATFORMS = ("x86_64", "aarch64")
IMAGES = {
    "orchestrator": ("remote", "media"),
    "scorer": ("openai",),
    "model-server-slim": ("openai", "http"),
    "tool-server": ("mcp", "sandbox"),
}
"""Image -> the extras of pyproject.toml that it holds."""


def closure(requirements: str, platform: str) -> dict[str, str]:
    """Returns NAME==VERSION -> sha256 of the wheel that pip would install on a platform, with all it needs."""
    tags = [f"--platform=manylinux_2_{minor}_{platform}" for minor in range(17, 36)]
    tags.append(f"--platform=manylinux2014_{platform}")
    with tempfile.TemporaryDirectory() as folder:
        report, wanted = Path(folder) / "report.json", Path(folder) / "requirements.txt"
        wanted.write_text(requirements)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        pip += ["--only-binary=:all:", "--python-version=3.11", f"--target={folder}", f"--report={report}", *tags]
        subprocess.run([*pip, f"--constraint={HERE.parent}/constraints.txt", f"--requirement={wanted}"], check=True)
        found = json.loads(report.read_text())["install"]
    return {
        f"{one['metadata']['name']}=={one['metadata']['version']}": one["download_info"]["archive_info"]["hashes"][
            "sha256"
        ]
        for one in found
    }


def main() -> None:
    """Writes the file of each image."""
    (HERE / "locked").mkdir(exist_ok=True)
    project = HERE.parent / "pyproject.toml"
    wanted = {"build": "\n".join(tomllib.loads(project.read_text())["build-system"]["requires"])}
    for image, extras in IMAGES.items():
        words = [sys.executable, str(HERE / "dependencies.py"), image.removesuffix("-slim"), str(project), *extras]
        wanted[image] = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    for image, requirements in wanted.items():
        by_platform = [closure(requirements, platform) for platform in PLATFORMS]
        lines = [f"# Made by docker/lock.py: {image}, by the hashes of its wheels."]
        for name in sorted({name for found in by_platform for name in found}, key=str.lower):
            hashes = sorted({found[name] for found in by_platform if name in found})
            lines.append(" \\\n    ".join([name, *(f"--hash=sha256:{digest}" for digest in hashes)]))
        (HERE / "locked" / f"{image}.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
