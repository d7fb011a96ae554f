"""Images as output of an OpenAI-compatible endpoint: what is sent, what comes back, and what is refused."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from helpers.model_serving import refusal

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import CallError

pytest.importorskip("openai")
from helpers.openai_endpoint import Endpoint, backend, completion, error


def wanted(*messages: model.Message, **config: Any) -> model.GenerateRequest:
    return model.GenerateRequest(
        messages=messages, modality=model.MODALITY_IMAGE, config=model.GenerationConfig(**config)
    )


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def images(*files: bytes, **more: Any) -> dict[str, Any]:
    usage = {"input_tokens": 9, "output_tokens": 4, "total_tokens": 13, "input_tokens_details": {}}
    return {"created": 0, "data": [{"b64_json": b64(data)} for data in files], "usage": usage} | more


def response(*output: Any, status: str = "completed", **more: Any) -> dict[str, Any]:
    usage = {"input_tokens": 9, "output_tokens": 4, "total_tokens": 13}
    return {"id": "r", "object": "response", "status": status, "output": list(output), "usage": usage} | more


def text_message(text: str, kind: str = "output_text", name: str = "text") -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": [{"type": kind, name: text}]}


def drawn(data: bytes) -> dict[str, Any]:
    return {"type": "image_generation_call", "id": "i", "status": "completed", "result": b64(data)}


def parts(reply: model.GenerateResponse) -> list[str | bytes]:
    return [part.text if part.HasField("text") else part.image.data for part in reply.parts]


async def test_by_the_images_api(endpoint: Endpoint, served: Any, ask: Any, picture: Any) -> None:
    one, two, drawing = picture(1), picture(2, form="JPEG"), picture(3)
    endpoint.answer = lambda body: images(drawing)
    async with served(backend(endpoint, image_output="images")) as server:
        info = await server.info()
        assert model.CAPABILITY_IMAGE_OUTPUT in info.capabilities
        assert info.properties["image_output"] == "images"
        system = model.Message(role=model.ROLE_SYSTEM, parts=[model.Part(text="Draw well.")])
        reply = await server.send(wanted(system, ask("a red ball")))
        assert parts(reply) == [drawing]
        assert reply.parts[0].image.media_type == "image/png"
        assert (reply.usage.input_tokens, reply.usage.output_tokens) == (9, 4)
        await server.send(wanted(ask(one, "mend", two, "this")))
        answer = model.Message(role=model.ROLE_ASSISTANT, parts=[model.Part(text="Two.")])
        assert (await refusal(server.send(wanted(ask("x"), answer, ask("y")))))[0] == "UNIMPLEMENTED"
    assert endpoint.paths == ["/v1/images/generations", "/v1/images/edits"]
    plain, edit = endpoint.seen
    assert plain == {"model": "m", "n": 1, "prompt": "Draw well.\na red ball", "response_format": "b64_json"}
    assert edit["prompt"] == "mend\nthis"
    assert edit["image"] == [("0.png", "image/png", one), ("1.jpeg", "image/jpeg", two)]


async def test_an_images_api_without_the_field_for_data(
    endpoint: Endpoint, served: Any, ask: Any, picture: Any
) -> None:
    unknown = error(400, "Unknown parameter: 'response_format'.", "unknown_parameter")
    endpoint.answer = lambda body: unknown if "response_format" in body else images(picture(3))
    async with served(backend(endpoint, image_output="images")) as server:
        for _ in range(2):
            await server.send(wanted(ask("a ball")))
    assert ["response_format" in body for body in endpoint.seen] == [True, False, False], "learned once"


async def test_in_a_chat_reply(endpoint: Endpoint, served: Any, ask: Any, picture: Any) -> None:
    drawing = picture(3)
    url = f"data:image/png;base64,{b64(drawing)}"
    beside = {"role": "assistant", "content": "Here.", "images": [{"type": "image_url", "image_url": {"url": url}}]}
    inside = completion([{"type": "text", "text": "Here."}, {"type": "image_url", "image_url": {"url": url}}])
    endpoint.replies = [completion(None, choice={"message": beside}), inside, completion("I would rather not.")]
    async with served(backend(endpoint, image_output="chat")) as server:
        for _ in range(2):
            reply = await server.send(wanted(ask("a ball"), temperature=0.5, max_output_tokens=9, stop=["#"]))
            assert parts(reply) == ["Here.", drawing]
        assert parts(await server.send(wanted(ask("a ball")))) == ["I would rather not."]
    sent = endpoint.seen[0]
    assert sent["modalities"] == ["image", "text"]
    assert (sent["temperature"], sent["max_tokens"], sent["stop"]) == (0.5, 9, ["#"])


async def test_by_the_tool_of_the_responses_api(endpoint: Endpoint, served: Any, ask: Any, picture: Any) -> None:
    one, drawing = picture(1), picture(3)
    endpoint.replies = [
        response({"type": "reasoning", "summary": []}, text_message("Here."), drawn(drawing)),
        response(text_message("Words."), status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
        response(text_message("I cannot.", "refusal", "refusal")),
        response(status="failed", error={"code": "server_error", "message": "The brush broke."}),
    ]
    async with served(backend(endpoint, image_output="responses")) as server:
        answer = model.Message(role=model.ROLE_ASSISTANT, parts=[model.Part(text="Two.")])
        sent = wanted(ask(one, "How many?"), answer, ask("Draw them."), temperature=0.5, max_output_tokens=900)
        reply = await server.send(sent)
        assert parts(reply) == ["Here.", drawing]
        assert reply.effective_config == sent.config
        assert (reply.usage.input_tokens, reply.usage.output_tokens) == (9, 4)
        ends = [(await server.send(wanted(ask("x")))).finish_reason for _ in range(2)]
        assert ends == [model.FINISH_REASON_MAX_TOKENS, model.FINISH_REASON_CONTENT_FILTER]
        with pytest.raises(CallError, match=r"did not answer: The brush broke\."):
            await server.send(wanted(ask("x")))
    body = endpoint.seen[0]
    tool = {"type": "image_generation"}
    assert (body["tools"], body["tool_choice"], body["store"]) == ([tool], tool, False)
    assert (body["temperature"], body["max_output_tokens"]) == (0.5, 900)
    shown = {"type": "input_image", "image_url": f"data:image/png;base64,{b64(one)}", "detail": "auto"}
    assert body["input"] == [
        {"role": "user", "content": [shown, {"type": "input_text", "text": "How many?"}]},
        {"role": "assistant", "content": [{"type": "output_text", "text": "Two."}]},
        {"role": "user", "content": [{"type": "input_text", "text": "Draw them."}]},
    ]


@pytest.mark.parametrize(
    ("way", "config"),
    [
        ("images", {"temperature": 0.5}),
        ("images", {"max_output_tokens": 10}),
        ("images", {"stop": ["x"]}),
        ("responses", {"stop": ["x"]}),
    ],
)
async def test_a_setting_that_cannot_be_told_is_refused(
    way: str, config: dict[str, Any], endpoint: Endpoint, served: Any, ask: Any
) -> None:
    async with served(backend(endpoint, image_output=way)) as server:
        assert await refusal(server.send(wanted(ask("x"), **config))) == (
            "UNIMPLEMENTED",
            f"no_image_{next(iter(config))}",
        )
    assert not endpoint.seen


@pytest.mark.parametrize(
    ("way", "reply", "reason"),
    [
        ("images", {"created": 0, "data": [{"url": "http://127.0.0.1:9/picture.png"}]}, "image_is_a_link"),
        ("images", {"created": 0, "data": []}, "bad_reply"),
        ("images", {"created": 0, "data": [{"b64_json": "not base64"}]}, "bad_reply"),
        ("images", {"created": 0, "data": [{"b64_json": b64(b"no image")}]}, "bad_reply"),
        ("images", {"created": 0, "data": [{"b64_json": 7}]}, "bad_reply"),
        (
            "chat",
            completion([{"type": "image_url", "image_url": {"url": "https://127.0.0.1:9/picture.png"}}]),
            "image_is_a_link",
        ),
        ("responses", {"status": "completed"}, "bad_reply"),
        ("responses", response({"type": "image_generation_call", "result": None}), "bad_reply"),
        ("responses", response(status="incomplete", incomplete_details={"reason": "weather"}), "bad_reply"),
    ],
)
async def test_replies_without_a_usable_image(
    way: str, reply: Any, reason: str, endpoint: Endpoint, served: Any, ask: Any
) -> None:
    endpoint.answer = lambda body: reply
    async with served(backend(endpoint, image_output=way)) as server:
        assert await refusal(server.send(wanted(ask("x")))) == ("INTERNAL", reason)


async def test_without_the_option_nothing_draws(endpoint: Endpoint, served: Any, ask: Any) -> None:
    async with served(backend(endpoint)) as server:
        assert model.CAPABILITY_IMAGE_OUTPUT not in (await server.info()).capabilities
        assert (await refusal(server.send(wanted(ask("x")))))[0] == "UNIMPLEMENTED"
    assert not endpoint.seen
