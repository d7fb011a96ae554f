"""The settings of `--set`, the reference's two sets of defaults, and the switches of one run that follow from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from orchestrator.benchmarks.base import setting
from orchestrator.benchmarks.reform.datasets import FORMULATIONS, SINGLE_CHOICE, Dataset
from orchestrator.benchmarks.reform.layouts import LAYOUTS, Layout
from orchestrator.benchmarks.reform.prompts import ALPHABETS
from orchestrator.errors import ConfigError
from orchestrator.samples import Variant

_SWITCHED = ("in_context", "random_instruct", "capitalize", "online", "options_in_history")
_PRESET = ("in_context", "random_instruct", "shuffle", "capitalize", "online")
_ON_OFF = {"on": True, "true": True, "yes": True, "1": True, "off": False, "false": False, "no": False, "0": False}


@dataclass(frozen=True, slots=True)
class ReformSettings:
    """Settings of `--set`; an empty one has the preset's value, without a preset that of `Switches`."""

    preset: str = setting(
        "", "reform-cli or reform-loader: the defaults of the reference's command line, or of its data loader"
    )
    option_mark: str = setting("", "upper, lower, number or random: how options are marked; default upper")
    in_context: str = setting("", "on or off: show a solved example before the question; default on")
    random_instruct: str = setting(
        "", "on: repeat k gets instruction k; off: instructions cycle over the rows; default on where there are repeats"
    )
    instructions: str = setting("", "a file of instruction texts, made by `orchestrator import reform-instructions`")
    capitalize: str = setting("", "on or off: capitalize questions and answers of dialogues; default off")
    online: str = setting("", "on or off: a dialogue's history holds the model's own answers; default on")
    options_in_history: str = setting(
        "", "on or off: a dialogue's history shows the options; default on for generation, off for likelihood"
    )
    likelihood_reduction: str = setting("sum", "sum or mean: how a continuation's log-probabilities are reduced")
    formulation: str = setting("", "KIEOpenEnded for POIE and SROIE, which the paper scores as OCROpenEnded")
    subsample: int = setting(0, "dialogues only: the first so many; 0 takes all")
    max_new_tokens: int = setting(0, "bound on an answer's tokens; 0 means the published one (30; captions 12 to 16)")
    temperature: float = setting(0.0, "0 is greedy decoding; the paper often has 0.2")
    prompt_style: str = setting("", f"send one text in a layout of the reference's processors: {', '.join(LAYOUTS)}")
    response_prefix: str = setting(
        "", 'what the answer begins with; "none" for nothing; default as prompt_style has it'
    )
    roles: str = setting("", 'prompt_style: names of user and assistant, for example "User,Bot"')
    sep: str = setting("", r"prompt_style: what ends a turn; \n is a line break")
    sep2: str = setting("", r"prompt_style: what ends an assistant's turn, in styles with two separators")
    system_message: str = setting("", 'prompt_style: what stands in front; "none" for nothing')
    first_query: str = setting("", 'prompt_style: what the first question is wrapped in, for example "<image> {}"')

    def __post_init__(self) -> None:
        _one_of("preset", self.preset, PRESETS)
        _one_of("option_mark", self.option_mark, (*ALPHABETS, "random"))
        _one_of("prompt_style", self.prompt_style, LAYOUTS)
        _one_of("formulation", self.formulation, FORMULATIONS)
        _one_of("likelihood_reduction", self.likelihood_reduction, ("sum", "mean"))
        for name in _SWITCHED:
            if getattr(self, name):
                _on_off(name, getattr(self, name))
        layout_of(self)


@dataclass(frozen=True, slots=True)
class Switches:
    """The switches of a run; `ReformSettings` describes those of its fields' names.

    Attributes:
        shuffle: Whether options are permuted.
        likelihood: Whether options are scored.
        layout: The prompt's layout; None for chat messages.
        prefix: The beginning of an answer.
    """

    option_mark: str = "upper"
    in_context: bool = True
    random_instruct: bool = False
    shuffle: bool = False
    capitalize: bool = False
    online: bool = True
    options_in_history: bool = True
    likelihood: bool = False
    layout: Layout | None = None
    prefix: str | None = None


PRESETS: Mapping[str, Mapping[str, Any]] = {
    name: {"option_mark": "random"} | dict.fromkeys(_PRESET, on)
    for name, on in (("reform-cli", False), ("reform-loader", True))
}
"""The reference's two sets of defaults. They contradict each other: results of the two do not compare."""


def switches(variant: Variant[ReformSettings], dataset: Dataset) -> Switches:
    """Returns the switches of a run for a dataset."""
    settings = variant.settings
    likelihood = variant.method == "likelihood" and dataset.formulations[0] == SINGLE_CHOICE
    chosen = Switches(
        random_instruct=variant.repeats > 1,
        options_in_history=not likelihood,
        likelihood=likelihood,
        layout=layout_of(settings, captions=dataset.family == "captions"),
    )
    chosen = replace(chosen, **PRESETS.get(settings.preset, {}))
    named: dict[str, Any] = {name: _on_off(name, word) for name in _SWITCHED if (word := getattr(settings, name))}
    if settings.option_mark:
        named["option_mark"] = settings.option_mark
    chosen = replace(chosen, **named, shuffle=chosen.shuffle or variant.shuffle_options)
    prefix = chosen.layout.prefix if chosen.layout else _text(settings.response_prefix)
    return replace(chosen, prefix=None if likelihood else prefix)


def layout_of(settings: ReformSettings, *, captions: bool = False) -> Layout | None:
    """Returns the layout that the settings ask for; None for chat messages.

    Raises:
        ValueError: They contradict each other.
    """
    ways = ("roles", "sep", "sep2", "system_message", "first_query")
    if not settings.prompt_style:
        named = [name for name in ways if getattr(settings, name)]
        if named:
            raise ValueError(f"{named[0]} belongs to a layout: add --set prompt_style=one (or another)")
        return None
    layout = LAYOUTS[settings.prompt_style]
    if settings.roles:
        names = settings.roles.split(",")
        if len(names) != 2:
            raise ValueError('roles takes two names, for example roles="User,Bot"')
        layout = replace(layout, roles=(names[0], names[1]))
    if settings.first_query and (
        settings.first_query.count("{}") != 1 or settings.first_query.replace("{}", "").count("{")
    ):
        raise ValueError('first_query needs one {} for the question, for example "<image> {}"')
    texts: dict[str, Any] = {name: _escaped(getattr(settings, name)) for name in ("sep", "sep2", "first_query")}
    layout = replace(layout, **{name: text for name, text in texts.items() if text})
    if settings.system_message:
        layout = replace(layout, system=_text(_escaped(settings.system_message)))
    if settings.response_prefix:
        layout = replace(layout, prefix=_text(settings.response_prefix))
    # The reference's caption builders take the prefix away for good.
    return replace(layout, prefix=None) if captions else layout


def formulation(variant: Variant[ReformSettings], dataset: Dataset) -> str:
    """Returns the formulation of a run.

    Raises:
        ConfigError: The dataset does not have it.
    """
    wanted = variant.settings.formulation
    if wanted and wanted not in dataset.formulations:
        allowed = " or ".join(dataset.formulations)
        raise ConfigError(f"--set formulation={wanted}: {dataset.task} is not scored so; give {allowed}")
    return wanted or dataset.formulations[0]


def _one_of(name: str, value: str, allowed: Any) -> None:
    if value and value not in allowed:
        raise ValueError(f"{name}={value}: give {', '.join(allowed)}")


def _on_off(name: str, value: str) -> bool:
    if str(value).lower() not in _ON_OFF:
        raise ValueError(f"{name}={value}: give on or off")
    return _ON_OFF[str(value).lower()]


def _text(value: str) -> str | None:
    return None if value in ("", "none") else value


def _escaped(value: str) -> str:
    return value.replace("\\n", "\n").replace("\\t", "\t")
