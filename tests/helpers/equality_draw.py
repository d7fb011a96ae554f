"""Draws the configurations of lmms-eval that are held against its own command line, and finds rows for them.

`python tests/helpers/equality_draw.py OUT.json [STRATUM...]`: of each stratum the names are shuffled by the seed, and
taken in that order until as many as wanted have rows on which the task's own code asks and scores. Those passed over
are written down with the reason.
"""

from __future__ import annotations

import inspect
import json
import random
import re
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from helpers import harness_rows
from helpers.judge_server import JudgeServer, Vendor
from lyncean_harnesses.benchmark import coverage
from lyncean_harnesses.library import harness, model_names, use_judge
from lyncean_harnesses.library.media_read import functions_reached

SEED = 51
QUOTA = {"judge": 9, "group": 4, "visual CoT": 6, "multi-round": 1, "audio": 8, "video": 8, "dice": 10, "others": 14}
MOST_TASKS = 14
"""Tasks of a group that is drawn."""

_JUDGES = re.compile(r"chat\.completions|llm_judge|requests\.post|get_server")


_ASKED = {"image": "image", "prompt": "text", "question": "text", "evaluation_prompt": "text", "answer": "letter"}
_MMSI = {"images": "images", "question": "text", "answer": "letter", "id": "integer"}
KNOWN: Mapping[str, Mapping[str, str]] = {
    "ovo_forward": {},  # the only one of several rounds, whose rows hold rows: harness_rows.forward
    **{
        f"unig2u_realunify_{kind}_visual_cot": _ASKED | {"task_type": f"={kind}"}
        for kind in ("attentional_focusing", "mental_reconstruction", "mental_tracking")
    },
    "unig2u_mmsi_msr_visual_cot": _MMSI | {"question_type": "=MSR"},
    "mmmu_pro_vision": {
        **{"image": "image", "answer": "letter", "id": "integer", "subject": "kind"},
        "options": "words_text",
    },
    "videomathqa_mcq_cot": {
        **{"videoID": "name", "question": "text", "options": "words", "answer": "letter", "question_id": "integer"},
        **{"category": "=Chart", "length": "=short"},
    },
    "video_mmmu_adaptation_gt_none_option": {
        **{"id": "art", "question": "text", "options": "words", "answer": "letter"},
        "question_type": "=multiple-choice",
    },
    "worldsense": {
        **{"video_path": "film", "candidates": "words", "question": "text", "answer": "letter", "duration": "text"},
        **{"task_type": "kind", "task_domain": "kind", "audio_class": "text", "index": "integer"},
    },
    "mmmu_val": {
        **{"id": "art", "question": "seen", "options": "words_text", "answer": "letter", "image_1": "image"},
        **{"image_2": "image", "question_type": "=multiple-choice"},
    },
}
"""Configurations whose rows the search does not find, with what is in their columns."""


class Judge(Vendor):
    """Replies 0 or 1 to any question, by its text alone."""

    def completion(self, body: dict[str, Any], fault: str = "") -> dict[str, Any]:
        content = body["messages"][-1]["content"]
        text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
        body = {**body, "messages": [{"role": "user", "content": text}]}
        return super().completion(body, fault)


def judge() -> Judge:
    return Judge(lambda text: sum(text.encode()) % 2)  # type: ignore[arg-type, return-value]


def stratum(name: str, config: Mapping[str, Any]) -> str:
    """Returns the stratum of a configuration."""
    kind = config.get("output_type", "generate_until")
    if kind in ("generate_visual_cot", "generate_until_multi_round"):
        return {"generate_visual_cot": "visual CoT"}.get(kind, "multi-round")
    process = config.get("process_results")
    reached = list(functions_reached(inspect.unwrap(process))) if callable(process) else []
    if any("random" in function.__code__.co_names for function in reached):  # type: ignore[attr-defined]
        return "dice"
    if any(_JUDGES.search(_source(function)) for function in reached):
        return "judge"
    shown: list[Callable[..., Any]] = [value for key in coverage._ASKS if callable(value := config.get(key))]
    names = " ".join(function.__name__ + _source(inspect.unwrap(function)) for function in shown)
    if re.search(r"audio|sound|wav", names, re.I):
        return "audio"
    return "video" if re.search(r"video|\.mp4", names, re.I) else "others"


def _source(function: Callable[..., Any]) -> str:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return ""


def population() -> dict[str, list[str]]:
    """Returns the names of each stratum, sorted; groups with metrics by their own name."""
    library = harness("lmms")
    strata: dict[str, list[str]] = {}
    for name, entry in sorted(library.index().items()):
        try:
            if entry["type"] == "task":
                strata.setdefault(stratum(name, library.config(name)), []).append(name)
            elif entry["type"] == "group" and library.groups(name):
                strata.setdefault("group", []).append(name)
        except Exception:  # noqa: S112  (what does not load is on the page of coverage)
            continue
    return strata


def rows_of(name: str) -> dict[str, Any]:
    """Returns kind and columns of a configuration, `outcome` "works" where rows were found."""
    if name in KNOWN:
        return {"outcome": "works", "kind": harness("lmms").config(name)["output_type"], "columns": KNOWN[name]}
    finding = harness_rows.search("lmms", name)
    return {key: finding[key] for key in ("outcome", "kind", "columns", "why") if key in finding}


def shuffled(kind: str, names: Sequence[str]) -> list[str]:
    """Returns the names of a stratum in the order in which they are taken."""
    order = list(names)
    random.Random(f"{SEED} {kind}").shuffle(order)
    return order


def draw(quota: Mapping[str, int], names: Mapping[str, list[str]]) -> dict[str, Any]:
    """Returns what is drawn and what is passed over."""
    library = harness("lmms")
    drawn, passed = {}, {}
    for kind, wanted in quota.items():
        taken = 0
        for name in shuffled(kind, names[kind]):
            if taken == wanted:
                break
            members = library.members(name)
            if len(members) > MOST_TASKS:
                passed[name] = f"a group of {len(members)} tasks"
                continue
            finding = rows_of(members[0])
            print(kind, name, finding, flush=True)
            if finding["outcome"] != "works":
                passed[name] = finding.get("why", finding["outcome"])
                continue
            variants = model_names.variants(library.config(members[0]))
            drawn[name] = {"stratum": kind, "kind": finding["kind"], "columns": finding["columns"], "models": variants}
            taken += 1
    return {"seed": SEED, "version": library.version(), "drawn": drawn, "passed over": passed}


if __name__ == "__main__":
    signal.signal(signal.SIGALRM, harness_rows._late)
    harness_rows.SECONDS = 20
    time.sleep = lambda _: None  # some code waits before it asks a judge again
    import datasets

    datasets.disable_progress_bars()
    with JudgeServer(judge()) as url:
        use_judge(url)
        everything = population()
        print({kind: len(names) for kind, names in everything.items()}, flush=True)
        strata = sys.argv[2:] or list(QUOTA)
        chosen = draw({kind: QUOTA[kind] for kind in strata}, everything)
    Path(sys.argv[1]).write_text(json.dumps(chosen, indent=1) + "\n")
