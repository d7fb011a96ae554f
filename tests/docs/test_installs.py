"""Every `pip install` that a message or a page names is of this product, with an extra it has, or of a dependency."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = (
    "orchestrator",
    "scorer",
    "model_server",
    "tool_server",
    "protos",
    "lyncean",
    "extensions",
    "demo_model",
    "docs",
    "examples",
    "deploy",
    "docker",
)
KINDS = (".py", ".md", ".yaml", ".html", ".js")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


def name_of(requirement: str) -> str:
    match = re.match(r"[\w.-]+", requirement)
    assert match, requirement
    return match[0].lower()


DEPENDENCIES = {name_of(word) for requirements in (PROJECT["dependencies"], *EXTRAS.values()) for word in requirements}


def installs() -> Iterator[tuple[str, str]]:
    """Yields (file, requirement) of each package after `pip install`."""
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in KINDS]
    for path in (*files, ROOT / "README.md", ROOT / "CONTRIBUTING.md"):
        for requirements in re.findall(r"\bpip install ((?:'[^'\n]+'|[\w.\[\],-]+| )+)", path.read_text()):
            for word in re.findall(r"'[^']+'|\S+", requirements):
                if re.fullmatch(r"'[^']+'|[a-z][\w-]*(\[[\w,-]+\])?[.,]?", word):
                    yield path.relative_to(ROOT).as_posix(), word.strip("'.,")
                else:
                    break  # a flag or a path: no package of an index
                if not word.startswith("'"):
                    break  # what follows an unquoted name may be the sentence it stands in


def test_every_install_is_ours_or_a_dependency() -> None:
    named = list(installs())
    assert len(named) >= 10, "the search found too little"
    for file, word in named:
        match = re.fullmatch(r"([\w-]+)(?:\[([\w,-]+)\])?", word)
        assert match, f"{file}: {word}"
        if match[1] == "lyncean":
            assert set((match[2] or "dev").split(",")) <= EXTRAS.keys(), f"{file}: {word} has no such extra"
        else:
            assert match[1].lower() in DEPENDENCIES, f"{file}: {word} is not one of our dependencies"
