"""Lists the configurations of an installed harness that load here, as a page: `python -m ...harness.coverage lmms`."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

from lyncean_harnesses.benchmark import LM_EVAL, LMMS
from lyncean_harnesses.benchmark.task import ForeignTask
from lyncean_harnesses.library import HarnessError, harness

_VIDEO_OR_AUDIO = re.compile(r"video|audio|speech|sound", re.IGNORECASE)
_ASKS = ("doc_to_visual", "doc_to_messages", "doc_to_image", "doc_to_audio")


def page(prefix: str) -> Iterator[str]:
    """Yields the lines of a harness's page; the harness is `lmms` or `lm-eval`."""
    library, source = harness(prefix), {"lmms": LMMS, "lm-eval": LM_EVAL}[prefix]
    title = library.title
    tasks = sorted(name for name, entry in library.index().items() if entry["type"] in ("task", "python_task"))
    loaded: dict[str, list[str]] = {}
    missing: dict[str, list[str]] = {}
    for name in tasks:
        try:
            task = source.make(name, ())
        except HarnessError as error:
            missing.setdefault(_reason(f"{prefix}:{name}", str(error)), []).append(name)
        else:
            loaded.setdefault(_kind(task), []).append(name)
    count = sum(map(len, loaded.values()))
    yield f"# Configurations of {title} that load"
    yield ""
    yield f"Written by `python -m {__spec__.name} {prefix}`."
    yield f"Of {len(tasks):,} task configurations of {title} {library.version()}, {count:,} load where it was run."
    yield "Loading does not prove that the data fit. Packages beside the extra: [tasks](lmms-eval-tasks.md)."
    yield ""
    yield "| kind | configurations | for example |"
    yield "|---|---|---|"
    for kind, names in _by_size(loaded):
        yield f"| {kind} | {len(names):,} | {', '.join(f'`{name}`' for name in names[:3])} |"
    yield ""
    yield "## The others"
    for reason, names in _by_size(missing):
        yield ""
        yield f"**{reason}** ({len(names)}): {', '.join(f'`{name}`' for name in names)}"


def _by_size(groups: dict[str, list[str]]) -> list[tuple[str, list[str]]]:
    return sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))


def _reason(name: str, error: str) -> str:
    """Returns an error without the parts that are specific to this task."""
    text = re.sub(rf"task {re.escape(name)}( of [\w-]+ [\d.]+)? ", "", error).partition(": install it")[0]
    return re.sub(r"(?:/[\w.@+-]+){2,}/", ".../", text).replace("*", r"\*").replace("|", "/")


def _kind(task: ForeignTask) -> str:
    """Returns a task's kind of answers, and whether its code names video or audio."""
    shown: list[Callable[..., Any]] = [value for key in _ASKS if callable(value := task.config.get(key))]
    names = " ".join(function.__name__ for function in shown)
    arguments = task.config.get("dataset_kwargs") or {}
    if "video" in arguments or _VIDEO_OR_AUDIO.search(names):
        return f"{task.kind}, with video or audio"
    return f"{task.kind}, {'with images' if shown else 'text'}"


if __name__ == "__main__":
    sys.stdout.write("\n".join(page(sys.argv[1])) + "\n")
