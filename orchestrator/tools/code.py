"""Text protocols whose tool runs code: text between marks goes to a server of tools."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import re2

from lyncean.media.types import media_type
from orchestrator.errors import ConfigError
from orchestrator.samples import Answer, Call, Message, Part, ToolCall, ToolResult, image_part, text_part
from orchestrator.tools.arguments import filled
from orchestrator.tools.pixels import MISTAKES, decoded, encoded, sized
from orchestrator.tools.spec import CodeForm
from orchestrator.tools.text import TextProtocol
from orchestrator.tools.types import Picture, RemoteCall, Tool, ToolOutput

if TYPE_CHECKING:
    from PIL import Image


@dataclass(frozen=True, slots=True)
class CodeProtocol(TextProtocol):
    """A protocol in text whose tool runs code, as its data say; see `orchestrator.tools.types.Protocol`."""

    @property
    def _code(self) -> CodeForm:
        assert self.spec.code is not None
        return self.spec.code

    def first(self, call: Call, tools: Sequence[Tool]) -> Call:
        """Returns the first request, in which the first image's file and size stand."""
        images = [part.image.data for message in call.messages for part in message.parts if part.image]
        values = {"path": "", "size": ""}
        if images:
            kind = media_type(images[0]).partition("/")[2]
            values["path"] = f"{self._code.folder}/image_1.{'jpg' if kind == 'jpeg' else kind}"
            try:
                values["size"] = "{}x{}".format(*decoded(images[0]).size)
            except MISTAKES:
                values["size"] = "0x0"  # the server refuses an image that cannot be decoded
        return self._begun(call, filled(self.spec.suffix, values))

    def pictures(self, call: Call) -> list[Picture]:
        """Returns the images that code gets: as the client sends them, or as they are stored."""
        pictures = TextProtocol.pictures(self, call)[: 1 if self.spec.images.first else None]
        if not self.spec.images.cut or not self.spec.images.policy:
            return pictures
        return [Picture(self._resized(picture.data)) for picture in pictures]

    def _resized(self, data: bytes) -> bytes:
        assert self.spec.images.policy is not None
        try:
            return encoded(sized(decoded(data).convert("RGB"), self.spec.images.policy))
        except MISTAKES:
            return data

    def call(self, call: ToolCall, tools: Sequence[Tool], pictures: Sequence[Picture]) -> ToolOutput | RemoteCall:
        """Has the server of tools run the code."""
        for tool in tools:
            if tool.describe().name == self._code.tool:
                return tool.call(call.arguments, pictures)
        raise ConfigError(f"no server of tools has {self._code.tool!r}")

    def next(self, answer: Answer, results: Sequence[ToolResult], turn: int) -> tuple[Message, ...] | None:
        """Returns the messages with what the code showed; None if the same request is sent again."""
        form = self.spec.result
        if form.again and any(result.is_error or not any(self._shown(result)) for result in results):
            return None
        return TextProtocol.next(self, answer, results, turn)

    def _calls(self, text: str) -> Iterator[ToolCall]:
        if not self._is_final(text) and self.spec.call.open.lower() in text.lower():
            code = self._between(text)
            if code is not None:
                yield ToolCall("", self._code.tool, json.dumps({"code": code}, ensure_ascii=False))

    def _between(self, text: str) -> str | None:
        """Returns the code in an answer, None if the protocol ignores it."""
        form = self.spec.call
        if form.pattern:
            match = re2.search(form.pattern, text)
            return match.group("code").strip() if match else None
        if form.open not in text:  # in capitals
            return None
        code = text.split(form.open)[1].strip().split(form.close)[0].strip()
        begin, end = form.fence or ("", "")
        if begin and begin in code:
            code = code.split(begin)[1].strip()
        return code.split(end)[0].strip() if end and end in code else code

    def _shown(self, result: ToolResult) -> tuple[str, list[Part]]:
        """Returns what code printed and its images, each as the client sends it."""
        texts = [part.text for part in result.content if not part.image]
        output = "".join(texts[:-1] if result.is_error else texts)
        return "" if output == self._code.nothing else output, list(self._seen(result))

    def _seen(self, result: ToolResult) -> Iterator[Part]:
        form = self.spec.images
        for part in result.content:
            if not part.image:
                continue
            try:
                image = decoded(part.image.data)
                image = sized(image, form.results) if form.results else image
                if not (form.white and _least(image) >= form.white):
                    yield image_part(encoded(image, form.results_kind or form.kind)) if form.results else part
            except MISTAKES:
                yield part

    def _result(self, result: ToolResult, turn: int) -> Iterator[Part]:
        printed, images = self._shown(result)
        texts = [part.text for part in result.content if not part.image]
        values = {"stdout": printed, "stderr": texts[-1] if result.is_error and texts else ""}
        for template in self.spec.result.error if result.is_error else self.spec.result.parts:
            if template == "{images}" or (template == "{output}" and images):
                yield from images
            else:
                yield text_part(filled(template, values | {"output": printed.strip()}))


def _least(image: Image.Image) -> int:
    """Returns the least value of an image's channels, as NumPy has them."""
    from lyncean.arrays import np

    return int(np.asarray(image).min())
