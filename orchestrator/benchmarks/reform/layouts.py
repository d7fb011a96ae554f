"""The reference's processors: a question, its instruction and history rendered as one text, byte for byte."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from orchestrator.benchmarks.reform.prompts import with_options

PREFIX = "The answer is"

STYLES = ("one", "two", "otter", "llama_adapter2", "visualglm", "llama_2", "single", "mmgpt")
"""The layouts; "single" is SingleChoiceProcessor, "mmgpt" its own class, the others ConvSingleChoiceProcessor's."""


@dataclass(frozen=True, slots=True)
class Layout:
    r"""Template that turns a conversation into text.

    Attributes:
        style: One of `STYLES`.
        sep: End of a turn.
        sep2: End of an assistant's turn in the styles that have two separators.
        roles: Names of user and assistant.
        system: The system message; None for none.
        first_query: Template of the first human turn, `{}` being its text, for example "<image> {}".
        init: Turns before all others, as (role name, text).
        prefix: Beginning of the answer; the style "single" has none.
    """

    style: str
    sep: str = "\n"
    sep2: str = ""
    roles: tuple[str, str] = ("Question", "Answer")
    system: str | None = None
    first_query: str = "{}"
    init: tuple[tuple[str, str], ...] = ()
    prefix: str | None = None

    def __post_init__(self) -> None:
        if self.style not in STYLES:
            raise NotImplementedError(f"there is no prompt style {self.style!r}; known: {', '.join(STYLES)}")


_ALPACA = "Below is an instruction that describes a task{}. Write a response that appropriately completes the request."
_ADAPTER = Layout(
    "llama_adapter2",
    "\n\n### ",
    roles=("Input", "Response"),
    system=_ALPACA.format(", paired with an input that provides further context"),
    prefix=PREFIX,
)

LAYOUTS: Mapping[str, Layout] = {
    "one": Layout("one", "\n", roles=("User", "Bot"), prefix=PREFIX),
    "two": Layout("two", "\n", "\n", ("### Human", "### Assistant"), prefix=PREFIX),
    "otter": Layout("otter", " ", "<|endofchunk|>", ("User", "GPT"), prefix=PREFIX),
    "llama_adapter2": replace(_ADAPTER, system=None),
    "visualglm": Layout("visualglm", "\n", roles=("问", "答"), prefix=PREFIX),
    "llama_2": Layout("llama_2", "<s>", "</s>", ("USER", "ASSISTANT"), system="", prefix=PREFIX),
    "single": Layout("single", " ", "\n"),
    "mmgpt": Layout("mmgpt", "\n\n### ", "\n\n### ", ("Instruction", "Response"), _ALPACA.format(""), prefix=PREFIX),
    "lynx": Layout("one", "\n", roles=("User", "Bot"), prefix=PREFIX),
    "mplug_owl": Layout("one", "\n", roles=("Human", "AI"), init=(("Human", "<image>"),), prefix=PREFIX),
    "pandagpt": Layout("two", "\n", "\n", ("### Human", "### Assistant"), prefix=PREFIX),
    "llama_adapter": _ADAPTER,
    "imagebind_llm": _ADAPTER,
    "blip2": Layout("single", " ", "\n"),
    "bliva": Layout("single", " ", "\n"),
}
"""Values of `prompt_style`: each style with its default settings, and published settings of some models."""


def render(layout: Layout, item: Mapping[str, Any], marks: str, *, likelihood: bool = False) -> str:
    """Returns the prompt of one sample.

    Args:
        layout: How.
        item: "question", and where it has them "instruct", "answer_options" and "history" (the reference's keys).
        marks: The options' marks.
        likelihood: Whether options are scored: the question is bare then, and so is the answer's place.
    """
    options = None if likelihood or "answer_options" not in item else item["answer_options"]
    question = with_options(item.get("question", ""), options, marks)
    prefix = None if likelihood else layout.prefix
    if layout.style == "single":
        return _single(layout, item, question)
    history = item.get("history") or []
    instruct = f"{item['instruct']} " if "instruct" in item and layout.style != "llama_adapter2" else ""
    user, assistant = layout.roles
    turns = [list(turn) for turn in layout.init]
    messages = [({"human": user, "assistant": assistant}[turn["from"]], turn["value"]) for turn in history]
    turns += [list(turn) for turn in [*messages, (user, question)]]
    first = turns[len(layout.init)]
    first[0], first[1] = user, layout.first_query.format(instruct + first[1])
    turns.append([assistant, ""])
    return _write(layout, turns, prefix, item.get("instruct"))


def _single(layout: Layout, item: Mapping[str, Any], question: str) -> str:
    text = f"{item['instruct']}\n" if "instruct" in item else ""
    for index, turn in enumerate(item.get("history") or []):
        text += f"{layout.roles[index % 2]}: {turn['value']}{(layout.sep, layout.sep2)[index % 2]}"
    line = f"{layout.roles[0]}: {question}" if "question" in item else question
    return f"{text}{line}{layout.sep}{layout.roles[1]}:"


class _Style(NamedTuple):
    """Templates of a style: turns at even and odd indices, the slot of the answer, and the response prefix.

    `{who}` is the turn's role and `{place}` the role of its index: users' and assistants' turns alternate by index, not
    by speaker, so that an odd number of initial turns swaps their separators.
    """

    human: str
    assistant: str
    slot: str
    gap: str


_WRITTEN: Mapping[str, _Style] = {
    "one": _Style("{who}: {said}{sep}", "{who}: {said}{sep}", "{who}:", " "),
    "two": _Style("{who}: {said}{sep}", "{who}: {said}{sep2}", "{who}:", " "),
    "otter": _Style("{who}: {said}{sep}", "{who}:<answer> {said}{sep2}", "{who}:<answer>", " "),
    "llama_adapter2": _Style("{who}:\n{said}{sep}", "{who}:\n{said}{sep}", "{who}:", "\n"),
    "visualglm": _Style("[Round {number}]\n{who}：{said}{sep}", "{who}：{said}{sep}", "{who}：", ""),
    "llama_2": _Style("{sep}[INST] {system}{said} [/INST]", " {said} {sep2}", "", ""),
    "mmgpt": _Style("{place}:\n{said}{sep}", "{place}:\n{said}{sep2}", "{place}:\n", ""),
}


def _write(layout: Layout, turns: Sequence[Sequence[str]], prefix: str | None, instruct: str | None) -> str:
    style = _WRITTEN[layout.style]
    text = "" if layout.system is None else layout.system + layout.sep
    system = ""
    if layout.style == "otter":
        text = layout.system or ""
    elif layout.style == "llama_2":
        # An unset system message is printed as None: the reference formats it as it is.
        text, system = "", f"<<SYS>>\n{layout.system}\n<</SYS>>\n\n"
    elif layout.style == "mmgpt":
        text += f"Image:\n<image>{layout.sep2}"
    elif layout.style == "llama_adapter2" and instruct is not None:
        text += f"Instruction:\n{instruct}{layout.sep}"
    for index, (role, content) in enumerate(turns):
        form = style.slot if not content else style.assistant if index % 2 else style.human
        text += form.format(
            who=role,
            place=layout.roles[index % 2],
            said=content,
            sep=layout.sep,
            sep2=layout.sep2,
            number=index // 2 + 1,
            system=system if not index else "",
        )
        if not content and prefix is not None:
            text += style.gap + prefix
    return text.lstrip(layout.sep) if layout.style == "llama_2" else text


def answered(answer: int | str, options: Sequence[str], marks: str, prefix: str | None) -> str:
    """Returns an assistant's turn: an option by index, or by text its first, with the mark; any other text as it is."""
    if isinstance(answer, str) and answer in options:
        answer = list(options).index(answer)
    text = f"({marks[answer]}) {options[answer]}" if isinstance(answer, int) else answer
    return text if prefix is None else f"{prefix} {text}"
