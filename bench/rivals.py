"""Other harnesses on the rows of a benchmark of ours: how each is started, and what is in its way.

A variable of the environment names the interpreter that has a harness; without it the harness is left out.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Rival:
    """A harness.

    Attributes:
        name: What its package is called.
        variable: The variable that names its interpreter.
        ways: How it can be run, in words by name.
        needs: Modules of its interpreter that a measurement takes.
    """

    name: str
    variable: str
    ways: Mapping[str, str]
    needs: Sequence[str]

    @property
    def python(self) -> str:
        """The interpreter, "" where none is named."""
        return os.environ.get(self.variable, "")

    def version(self) -> str:
        """Returns its version."""
        command = f"from importlib.metadata import version; print(version({self.name!r}))"
        return subprocess.check_output([self.python, "-c", command], text=True).strip()

    def lacks(self) -> list[str]:
        """Returns the modules that a measurement takes and its interpreter does not have."""
        command = f"from importlib.util import find_spec; print(*[n for n in {list(self.needs)} if not find_spec(n)])"
        return subprocess.check_output([self.python, "-c", command], text=True).split()

    def command(self, job: Mapping[str, Any]) -> list[str]:
        """Returns the command of one run.

        Args:
            job: `data`, `rows`, `way`, `port` of the null server, `folder` for what it writes, and `whole`: whether
                it is the harness's own command line, or its core, which warms up first and prints what it took.
        """
        script = HERE / f"rival_{self.name.replace('-', '_')}.py"
        return [self.python, str(script), json.dumps({**job, "folder": str(job["folder"])})]


RIVALS = (
    Rival(
        "lmms-eval",
        "LMMS_EVAL_PYTHON",
        {
            "blind": "in process, its own null model, which looks at no image",
            "null": "in process, a null model that takes each image",
            "http": "its OpenAI model and a null server over HTTP, 32 calls in flight",
        },
        ("lmms_eval", "openai", "PIL"),
    ),
    Rival(
        "lm-eval",
        "LM_EVAL_PYTHON",
        {
            "null": "in process, its own null model; each image is decoded",
            "http": "its chat completions model and a null server over HTTP, 32 calls in flight",
        },
        ("lm_eval", "aiohttp", "PIL"),
    ),
    Rival(
        "inspect-ai",
        "INSPECT_PYTHON",
        {
            "null": "in process, its own null model, images as data URIs",
            "http": "its OpenAI model and a null server over HTTP, 32 calls in flight",
        },
        ("inspect_ai", "openai", "pyarrow", "tiktoken"),
    ),
)


def check() -> None:
    """Ends the command where a named interpreter lacks a module: a round takes minutes before that would be noticed."""
    for rival in RIVALS:
        if rival.python and (lacks := rival.lacks()):
            raise SystemExit(f"{rival.variable}: {rival.python} lacks {', '.join(lacks)}; install that beside it")


def environment(folder: Path) -> dict[str, str]:
    """Returns the environment of a rival: its cache of Arrow files stands where the measurement's own files do."""
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "OPENAI_API_KEY": "none"}
    return {**os.environ, **offline, "HF_HOME": str(folder / "hf"), "XDG_DATA_HOME": str(folder / "share")}
