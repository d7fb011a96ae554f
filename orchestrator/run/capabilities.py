"""Checks the capabilities that a plan needs against those that the models' servers report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from lyncean.model.v1 import model_pb2 as model
from orchestrator.engine.deviations import config_of
from orchestrator.errors import ConfigError
from orchestrator.run import reason_then_score, tools
from orchestrator.run.plan import Plan


def check_capabilities(plan: Plan, models: Mapping[str, model.GetModelInfoResponse], where: Mapping[str, str]) -> None:
    """Makes sure that the models can be asked what the plan asks.

    Args:
        plan: The plan.
        models: The model under evaluation, under "", and those of further stages by name.
        where: Their addresses.

    Raises:
        ConfigError: If one does not claim something needed, or a stage is none of the plan's.
    """
    stages = plan.stage_needs
    for stage in models.keys() - stages.keys() - {""}:
        known = f"known here: {', '.join(sorted(stages))}" if stages else "the tasks have no further stages"
        raise ConfigError(f"--stage {stage}: {', '.join(plan.names)} has no such stage; {known}")
    wanted = {"": plan.needs}
    for stage, needs in stages.items():
        wanted.setdefault(stage if stage in models else "", set()).update(needs)
    _check_deviations(plan.deviations, models[""], where[""])
    tools.check_rendering(plan.called_by_model, models[""], where[""])
    for stage, needs in wanted.items():
        _check_claims(plan, stage, needs, models[stage], where[stage])


def _check_claims(plan: Plan, stage: str, needs: set[str], info: model.GetModelInfoResponse, where: str) -> None:
    claimed = {model.Capability.Name(c).removeprefix("CAPABILITY_") for c in info.capabilities}
    missing = sorted(needs - claimed)
    if missing == ["LIKELIHOOD"]:
        raise ConfigError(
            f"{info.model_name} at {where} does not score continuations (no CAPABILITY_LIKELIHOOD): "
            "use --method generate, or a server with Likelihood"
        )
    if missing == ["TOOLS"]:
        raise ConfigError(
            f"{info.model_name} at {where} does not claim TOOLS, which --tools needs: use another server, or --tools "
            "zoom with a --protocol in text, such as deepeyes"
        )
    if missing:
        tasks = ", ".join(plan.names)
        help_ = f"give stage {stage} another model" if stage else "use another model or task"
        elsewhere = [name for name, more in plan.stage_needs.items() if not stage and more & set(missing)]
        if elsewhere:
            help_ += f", or another model for that stage (--stage {elsewhere[0]}=H:P)"
        raise ConfigError(
            f"{info.model_name} at {where} does not claim {', '.join(missing)}, which {tasks} needs: {help_}"
        )


def _check_deviations(deviations: Mapping[str, Any], info: model.GetModelInfoResponse, where: str) -> None:
    config, answer = config_of(deviations), deviations.get("answer", "free")
    needed = [(field.upper(), flag) for field, flag in _SETTINGS if config.HasField(field)]
    needed += [(capability, f"--answer {answer}") for capability in _ANSWER_NEEDS.get(answer, ())]
    for capability, flag in needed:
        if model.Capability.Value(f"CAPABILITY_{capability}") not in info.capabilities:
            raise ConfigError(
                f"{info.model_name} at {where} does not claim {capability}, which {flag} needs: leave it out, or use "
                "another model or server"
            )
    unknown = set(deviations.get("chat_template", ())) - set(info.chat_template_arguments)
    if unknown and info.chat_template_arguments:
        known = ", ".join(info.chat_template_arguments)
        raise ConfigError(
            f"--chat-template {min(unknown)}: the template of {info.model_name} has no such variable; it has {known}"
        )


_SETTINGS: Sequence[tuple[Literal["thinking", "thinking_budget", "chat_template_arguments", "extra_body"], str]] = (
    ("thinking", "--thinking on|off"),
    ("thinking_budget", "--thinking BUDGET"),
    ("chat_template_arguments", "--chat-template"),
    ("extra_body", "--extra-body"),
)
"""Fields of a decoding configuration that need the capability of their name each, and the options that set them."""

_ANSWER_NEEDS: Mapping[str, Sequence[str]] = {
    "constrained": ("ANSWER_CHOICES",),
    reason_then_score.NAME: reason_then_score.NEEDS,
}
