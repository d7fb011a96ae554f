"""Protocols in which a model calls tools by its text: calls are read from the answer, results are user's messages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import re2

from lyncean.model.v1 import model_pb2 as model
from orchestrator.samples import Answer, Call, Message, Part, ToolCall, ToolResult, image_part, system, text_part, user
from orchestrator.tools.arguments import MAX_CALLS, filled, read_literal, tool_error
from orchestrator.tools.pixels import MISTAKES, SizePolicy, decoded, encoded, sized
from orchestrator.tools.spec import Spec
from orchestrator.tools.types import Picture, RemoteCall, Tool, ToolOutput, stored_pictures
from orchestrator.tools.zoom import Zoom


@dataclass(frozen=True, slots=True)
class TextProtocol:
    """A protocol in text, as its data say; see `orchestrator.tools.types.Protocol`."""

    spec: Spec

    @property
    def name(self) -> str:
        """Name of the protocol."""
        return self.spec.name

    @property
    def max_calls(self) -> int:
        """Requests to the model that a trajectory may have."""
        return self.spec.max_calls

    @property
    def judged_at_limit(self) -> bool:
        """True if the last answer is judged when `max_calls` is reached."""
        return self.spec.judged_at_limit

    def first(self, call: Call, tools: Sequence[Tool]) -> Call:
        """Returns the request with the system prompt, the text after the user's, and the reference's decoding."""
        return self._begun(call, self.spec.suffix)

    def pictures(self, call: Call) -> list[Picture]:
        """Returns the images of a task's request as they are stored."""
        return stored_pictures(call)

    def _begun(self, call: Call, suffix: str) -> Call:
        prompt = self.spec.system.replace("{tools}", self.spec.tool.line)
        messages = list(call.messages)
        if messages and messages[0].role == model.ROLE_SYSTEM:
            prompt = "\n\n".join([*(part.text for part in messages.pop(0).parts), prompt])
        policy = self.spec.images.policy
        messages = [
            replace(message, parts=tuple(self._sent(part, policy) for part in message.parts)) for message in messages
        ]
        if messages:
            messages[-1] = _between(_led(messages[-1], self.spec.lead), self.spec.prefix, suffix)
        return replace(call, messages=(system(prompt), *messages), config=self._config(call.config))

    def _config(self, base: model.GenerationConfig) -> model.GenerationConfig:
        config, decoding = model.GenerationConfig(), self.spec.decoding
        config.CopyFrom(base)
        config.max_output_tokens = max(config.max_output_tokens, decoding.max_output_tokens)
        for name in ("temperature", "top_p", "top_k"):
            if (value := getattr(decoding, name)) is not None:
                setattr(config, name, value)
        config.ClearField("stop")
        config.stop.extend(decoding.stop)
        return config

    def read(self, answer: Answer) -> tuple[ToolCall, ...]:
        """Returns the calls that count."""
        return tuple(_numbered(self._calls(self._whole(answer.text))))

    def again(self, answer: Answer) -> bool:
        """Returns true if the same request is sent once more: the answer has no call, and nothing to be judged."""
        text = self._whole(answer.text)
        match self.spec.answer.again:
            case "unanswered":
                return not self._is_final(text) and not self.read(answer)
            case "empty":
                return not self._kept(text) and not self.read(answer)
        return False

    def call(self, call: ToolCall, tools: Sequence[Tool], pictures: Sequence[Picture]) -> ToolOutput | RemoteCall:
        """Runs the protocol's tool."""
        form = self.spec.tool
        if not call.name and not self.spec.call.repaired:
            return tool_error(form.errors.get("unreadable", "{error}"), error=self._defect(call.arguments))
        tool = next((tool for tool in tools if isinstance(tool, Zoom)), None)
        if tool is None or (form.checks_name and call.name != tool.describe().name):
            template = form.errors.get("name", "there is no tool {name}")
            return tool_error(form.errors.get(f"name {call.name}", template), name=call.name)
        return tool.call(call.arguments, pictures)

    def next(self, answer: Answer, results: Sequence[ToolResult], turn: int) -> tuple[Message, ...] | None:
        """Returns the model's message and the user's with the results; none if an error ends the trajectory."""
        form = self.spec.result
        if not form.error and any(result.is_error for result in results):
            return ()
        parts: list[Part] = []
        for number, result in enumerate(results):
            if number and form.between:
                parts.append(text_part(form.between))
            parts += self._result(result, turn)
        return Message(model.ROLE_ASSISTANT, (text_part(self._echo(answer)),)), user(*parts)

    def final(self, answer: Answer) -> Answer:
        """Returns the answer with the text between the marks of a final one."""
        form, text = self.spec.answer, self._whole(answer.text)
        if form.pattern:
            named = re2.search(form.pattern, text)
            return replace(answer, text=(named.group("answer") if named else text if form.whole else "").strip())
        if not form.open:
            return replace(answer, text=self._kept(text)) if self.spec.call.echo == "rebuilt" else answer
        if form.open in text and form.close in text:
            marked = text.split(form.open)[-1 if form.last else 1]
            return replace(answer, text=marked.split(form.close)[0].strip())
        return answer if form.whole else replace(answer, text="")

    def _is_final(self, text: str) -> bool:
        form = self.spec.answer
        return (form.closes and form.close in text) or (form.opens and form.open in text)

    def _whole(self, text: str) -> str:
        """Returns a text with the stop string that the server left out."""
        form, end, decoding = self.spec.call, self.spec.answer.close, self.spec.decoding
        text = text.strip() if form.echo == "stripped" else text
        if end in decoding.stop and text.count(self.spec.answer.open) > text.count(end):
            return text + end
        mark = decoding.put_back
        if form.which == "first":
            opened = mark not in text and form.open in text
        else:
            opened = text.count(form.open) > text.count(mark)
        return text + mark if mark and opened else text

    def _calls(self, text: str) -> Iterator[ToolCall]:
        """Yields the calls that count, without ids."""
        _, text = self._divided(text)
        if self._is_final(text) or self.spec.call.open not in text:
            return
        if self.spec.call.pattern:
            if self.spec.call.close in text.partition(self.spec.call.open)[2]:
                yield self._matched(text)
            return
        for piece in self._pieces(text):
            if call := self._call(piece):
                yield call

    def _matched(self, text: str) -> ToolCall:
        """Returns the call that the protocol's expression finds in a text."""
        match = re2.search(self.spec.call.pattern, text)
        try:
            box = read_literal(match.group("box"), self.spec.call.syntax) if match else None
        except ValueError:
            box = None
        name = json.loads(self.spec.tool.line)["function"]["name"]
        if box is None:
            return ToolCall("", "", text)
        return ToolCall("", name, json.dumps({self.spec.tool.box: box, self.spec.tool.index: match.group("source")}))

    def _pieces(self, text: str) -> Sequence[str]:
        """Returns the texts after the marks of the calls that count."""
        form = self.spec.call
        match form.which:
            case "first":
                return text.split(form.open, 2)[1:2]
            case "last":
                return text.rsplit(form.open, 1)[1:]
            case "last_at_end":
                return text.rsplit(form.open, 1)[1:] if text.endswith(form.close) else ()
        return text.split(form.open, MAX_CALLS)[1:]

    def _call(self, piece: str) -> ToolCall | None:
        """Returns the call in the text after a mark, None if the protocol ignores it."""
        form = self.spec.call
        written, closing, _ = piece.partition(form.close)
        written = written.strip()
        try:
            if form.repaired and not closing:
                raise ValueError("the call has no end")
            call = read_literal(written, form.syntax)
        except ValueError:
            if not form.repaired:
                return ToolCall("", "", written)
            name, arguments = _searched(written if closing else piece)
            return ToolCall("", name, arguments) if name or closing else None
        if not isinstance(call, Mapping) or not self._needed <= call.keys():
            return None if form.repaired else ToolCall("", "", written)
        name = str(call.get("name", json.loads(self.spec.tool.line)["function"]["name"]))
        return ToolCall("", name, json.dumps(call["arguments"], ensure_ascii=False))

    @property
    def _needed(self) -> set[str]:
        return {"name", "arguments"} if self.spec.tool.checks_name else {"arguments"}

    def _defect(self, written: str) -> str:
        """Returns why a call cannot be read."""
        try:
            call = read_literal(written, self.spec.call.syntax)
        except ValueError as error:
            return str(error)
        missing = sorted(self._needed - call.keys(), reverse=True) if isinstance(call, Mapping) else ()
        return repr(missing[0]) if missing else "a call is an object with name and arguments"

    def _echo(self, answer: Answer) -> str:
        """Returns the model's own text as the next request has it."""
        thoughts = self.spec.thoughts.replace("{reasoning}", answer.reasoning) if answer.reasoning else ""
        text = self._whole(answer.text)
        if self.spec.call.echo != "rebuilt":
            return thoughts + text
        pieces = [kept] if (kept := self._kept(text)) else []
        pieces += [self._rebuilt(call) for call in self.read(answer)]
        return thoughts + "".join(_lines(pieces))

    def _kept(self, text: str) -> str:
        """Returns the text before the calls, blank lines alone left out."""
        thought, text = self._divided(text)
        before, mark, _ = text.partition(self.spec.call.open)
        return thought + (before if before.strip() or not mark else "")

    def _divided(self, text: str) -> tuple[str, str]:
        """Returns the part of a text that cannot hold a call, and the rest."""
        end = self.spec.call.thought_end
        if not end or end.replace("/", "") not in text:
            return "", text
        thought, end, rest = text.rpartition(end)
        return (thought + end, rest) if end else (text, "")

    def _rebuilt(self, call: ToolCall) -> str:
        arguments: Any = call.arguments
        with suppress(ValueError):
            arguments = read_literal(call.arguments, self.spec.call.syntax)
        written = json.dumps({"name": call.name, "arguments": arguments}, ensure_ascii=False)
        return f"{self.spec.call.open}\n{written}\n{self.spec.call.close}"

    def _result(self, result: ToolResult, turn: int) -> Iterator[Part]:
        form = self.spec.result
        values = {"turn": str(turn), "observation": str(turn + 1)}
        if result.is_error:
            values["error"] = "".join(part.text for part in result.content)
        elif any("{width}" in template for template in form.parts):
            width, height = next(decoded(part.image.data).size for part in result.content if part.image)
            values |= {"width": str(width), "height": str(height)}
        for template in form.error if result.is_error else form.parts:
            if template == "{content}":
                yield from (self._sent(part, self.spec.images.results) for part in result.content)
            else:
                yield text_part(filled(template, values))

    def _sent(self, part: Part, policy: SizePolicy | None) -> Part:
        """Returns a part with its image as the client sends it."""
        if not part.image or not policy:
            return part
        try:
            return image_part(encoded(sized(decoded(part.image.data), policy), self.spec.images.kind))
        except MISTAKES:
            return part  # the server refuses an image that cannot be decoded


def _numbered(calls: Iterator[ToolCall]) -> Iterator[ToolCall]:
    for number, call in enumerate(calls):
        yield replace(call, id=f"call_{number}")


def _led(message: Message, lead: str) -> Message:
    """Returns a message with a text before its last text, or after its parts."""
    if not lead:
        return message
    texts = [index for index, part in enumerate(message.parts) if not (part.image or part.clip)]
    index = texts[-1] if texts else len(message.parts)
    led = text_part(lead + (message.parts[index].text if texts else ""))
    return replace(message, parts=(*message.parts[:index], led, *message.parts[index + 1 :]))


def _between(message: Message, prefix: str, suffix: str) -> Message:
    """Returns a message with a text before its parts and one after them, joined to its last text."""
    parts = list(message.parts)
    if suffix and (parts[-1].image or parts[-1].clip):
        parts.append(text_part(suffix))
    elif suffix:
        parts[-1] = text_part(parts[-1].text + suffix)
    images = sum(part.image is not None for part in parts)
    if prefix and images:
        references = " ".join(f"![image](image_{number + 1}.jpg)" for number in range(images))
        parts.insert(0, text_part(prefix.replace("{images}", references)))
    return replace(message, parts=tuple(parts))


def _lines(pieces: Sequence[str]) -> Iterator[str]:
    """Yields pieces with a line's end between two, unless the first one has it."""
    for number, piece in enumerate(pieces):
        if number and not pieces[number - 1].endswith("\n"):
            yield "\n"
        yield piece


def _searched(text: str) -> tuple[str, str]:
    """Returns name and arguments of a call that cannot be read, found by their keys; "" for what is not found."""
    name, start = "", text.find('"name": "')
    if start > 0 and (end := text.find('", "', start + len('"name": "'))) >= 0:
        name = text[start + len('"name": "') : end]
    at = text.find('"arguments": ')
    arguments = text[at + len('"arguments": ') :].strip() if at > 0 else ""
    return name, arguments[:-1] if len(arguments) > 2 else ""
