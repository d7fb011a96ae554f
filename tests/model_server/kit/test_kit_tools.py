"""Tools in the kit over real gRPC: what an author gets and returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from helpers.model_serving import refusal
from helpers.tool_turns import called, result, results, tool, user

from lyncean.model.v1 import model_pb2 as model
from model_server.kit.backend import KitBackend
from model_server.kit.model import Model, Output, Request
from model_server.metrics import Metrics


class Looker(Model):
    """Looks at each image once with every tool it is given, and then says how many images it has seen."""

    name = "looker"
    tools = True
    image_tokens = 10

    def generate(self, request: Request) -> str | Output:
        if request.tools and request.messages[-1].role != model.ROLE_TOOL:
            return Output("I look.", tool_calls=[(offered.name, {"corner": "left"}) for offered in request.tools])
        return f"{len(request.images)} images, {request.text}"


class Chooser(Looker):
    tool_choices = True
    max_samples = 3
    reasoning = True

    def generate(self, request: Request) -> str | Output:
        if request.tool_choice.mode == model.TOOL_CHOICE_MODE_NONE:
            return "no call"
        return Output(reasoning="A plan.", tool_calls=[("zoom", "{as written")] * 2, opaque=b"state")


class Silent(Looker):
    tools = False

    def generate(self, request: Request) -> Output:
        return Output(tool_calls=[("zoom", {})])


def serve(served: Any, kind: type[Model]) -> Any:
    return served(KitBackend(kind(), Metrics()))


def sent(*messages: model.Message, tools: Sequence[model.Tool] = (), **fields: Any) -> model.GenerateRequest:
    config = model.GenerationConfig(**fields.pop("config", {}))
    return model.GenerateRequest(messages=messages, tools=tools or [tool()], config=config, **fields)


async def test_an_author_gets_and_returns_calls(served: Any, picture: Callable[..., bytes]) -> None:
    async with serve(served, Looker) as server:
        info = await server.info()
        assert model.CAPABILITY_TOOLS in info.capabilities
        assert info.tool_rendering == model.ToolRendering(images=model.TOOL_IMAGES_IN_RESULT)
        first = await server.send(sent(user(picture(), "Where?"), tools=[tool("zoom"), tool("crop")]))
        assert [part.WhichOneof("kind") for part in first.parts] == ["text", "tool_call", "tool_call"]
        assert [(part.tool_call.id, part.tool_call.name) for part in first.parts[1:]] == [
            ("call_0", "zoom"),
            ("call_1", "crop"),
        ]
        assert first.parts[1].tool_call.arguments == '{"corner": "left"}'
        assert first.finish_reason == model.FINISH_REASON_TOOL_CALLS
        assert first.usage.output_tokens == 2 + 2 * 3
        answer = model.Message(role=model.ROLE_ASSISTANT, parts=first.parts)
        tool_results = results(result("call_0", picture(2), "one"), result("call_1", "two", picture(3)))
        second = await server.send(sent(user(picture(), "Where?"), answer, tool_results))
        assert [part.text for part in second.parts] == ["3 images, Where?\nI look.\none\ntwo"]
        assert second.usage.image_tokens == 30
        alone = await server.send(sent(user("Where?")))
        parts = 1 + len(f"zoom {tool().description} {tool().input_schema}".split())
        assert alone.usage.input_tokens == parts

        cut = await server.send(sent(user("x"), config={"max_output_tokens": 4}))  # calls are whole or not there
        assert ([part.text for part in cut.parts], cut.finish_reason) == (["I look."], model.FINISH_REASON_MAX_TOKENS)
        stopped = await server.send(sent(user("x"), config={"stop": ["look"]}))
        assert [part.text for part in stopped.parts] == ["I "]
        one = await server.send(sent(user("x"), tools=[tool("a"), tool("b")], parallel_tool_calls=False))
        assert [part.tool_call.name for part in one.parts[1:]] == ["a"]
        none = sent(user("x"))
        none.tool_choice.mode = model.TOOL_CHOICE_MODE_NONE
        assert await refusal(server.send(none)) == ("UNIMPLEMENTED", "no_tool_choice")


async def test_choices_samples_and_opaque_reasoning(served: Any) -> None:
    async with serve(served, Chooser) as server:
        assert (await server.info()).tool_rendering.reasoning_kept
        reply = await server.send(sent(user("x"), samples=2, parallel_tool_calls=False))
        for sample in reply.samples:
            assert [part.tool_call.arguments for part in sample.output.parts] == ["{as written"]
            assert (sample.output.opaque, sample.output.reasoning) == (b"state", "A plan.")
        none = sent(user("x"))
        none.tool_choice.mode = model.TOOL_CHOICE_MODE_NONE
        assert [part.text for part in (await server.send(none)).parts] == ["no call"]


@pytest.mark.parametrize("conversation", [[user("x")], [user("x"), called("a"), results(result("a", "y"))]])
async def test_a_model_without_tools(served: Any, conversation: list[model.Message]) -> None:
    async with serve(served, Silent) as server:
        assert await refusal(server.send(sent(*conversation))) == ("UNIMPLEMENTED", "no_tools")
        plain = model.GenerateRequest(messages=[user("x")])
        assert await refusal(server.send(plain)) == ("INTERNAL", "tools_not_claimed")
