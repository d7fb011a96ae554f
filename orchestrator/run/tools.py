"""`--tools`, `--protocol` and `--max-calls`: what the models of a run may call while they answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lyncean.model.v1 import model_pb2 as model
from lyncean.scorer.v1 import scorer_pb2 as scorer
from lyncean.vocabulary.facts import CALLS
from orchestrator.engine.trajectory import Play
from orchestrator.errors import ConfigError
from orchestrator.run.arguments import words_of
from orchestrator.run.request import NATIVE_TOOLS
from orchestrator.run_folder.tools_used import FIELD
from orchestrator.samples import metric

if TYPE_CHECKING:
    from orchestrator.run.request import RunRequest

NONE = "none"


def play_of(request: RunRequest) -> Play | None:
    """Returns the tools of a run, None where it has none.

    Raises:
        ConfigError: There is no such tool or protocol, or another option contradicts them.
    """
    names = list(dict.fromkeys(words_of(request.tools)))
    if names in ([], [NONE]):
        given = {"--protocol": request.protocol != NATIVE_TOOLS, "--max-calls": request.max_calls is not None}
        if wrong := [flag for flag, is_given in given.items() if is_given]:
            raise ConfigError(f"{wrong[0]} is for a run with tools: give --tools zoom, or leave it out")
        return None
    if NONE in names:
        raise ConfigError("--tools none takes all tools away: leave it out, or the others")
    contradictions = {
        "--method likelihood": request.method != "generate",
        f"--answer {request.answer}": request.answer != "free",
        "--finish-cut": request.finish_cut is not None,
    }
    if wrong := [flag for flag, is_given in contradictions.items() if is_given]:
        raise ConfigError(f"{wrong[0]} is not for a run with tools, whose answers are in words: leave out one of them")
    from orchestrator.tools.toolbox import toolbox

    box = toolbox(names, request.protocol)
    return Play(box, request.max_calls or box.protocol.max_calls, tuple(names))


def identity_of(play: Play | None) -> dict[str, Any]:
    """Returns what tools add to the identity of a run: nothing without any."""
    if play is None:
        return {}
    box = play.box
    found = {
        "names": list(play.names),
        "protocol": box.protocol.name,
        "max_calls": play.max_calls,
        "sha256": box.sha256,
    }
    return {FIELD: found}


def with_facts(specs: Sequence[scorer.MetricSpec]) -> list[scorer.MetricSpec]:
    """Returns the metrics of a task with tools: means of scores by the number of calls, too, and the mean of that."""
    found = []
    for spec in specs:
        sliced = scorer.MetricSpec.FromString(spec.SerializeToString())
        if spec.metric in ("accuracy", "mean"):
            sliced.by.add(labels=[CALLS])
        found.append(sliced)
    taken = {spec.name for spec in specs}
    return found if CALLS in taken else [*found, metric(CALLS, "fact", params={"fact": CALLS})]


def needs(play: Play | None) -> set[str]:
    """Returns the capabilities that the model must claim for its tools."""
    if play is None:
        return set()
    return {"IMAGE_INPUT", "MULTI_IMAGE"} | ({"TOOLS"} if play.box.protocol.name == NATIVE_TOOLS else set())


def check_rendering(play: Play | None, info: model.GetModelInfoResponse, where: str) -> None:
    """Makes sure that the model sees the images that tools give back.

    Raises:
        ConfigError: If its server refuses them.
    """
    refused = info.tool_rendering.images == model.TOOL_IMAGES_REFUSED
    if play and play.box.protocol.name == NATIVE_TOOLS and refused:
        raise ConfigError(
            f"{info.model_name} at {where} takes no images in results of tools: give --protocol the name of a protocol "
            "in text, for example --protocol qwen"
        )
