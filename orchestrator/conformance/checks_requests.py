"""Requests that no server may answer, and what none may stumble over."""

from __future__ import annotations

import re
from typing import Any

import grpc
from google.protobuf.message import Message

from lyncean.model.v1 import model_pb2 as model
from orchestrator.conformance.check import check
from orchestrator.conformance.pictures import picture
from orchestrator.conformance.server import Server, generation, user
from orchestrator.conformance.verdicts import applies, wants

_INVALID = grpc.StatusCode.INVALID_ARGUMENT
_UNIMPLEMENTED = grpc.StatusCode.UNIMPLEMENTED
_LONGEST = 2_000_000
_UNKNOWN_FIELD = bytes([0xFA, 0x3E])  # field 1007, length-delimited


async def _no(server: Server, what: str, *messages: model.Message) -> None:
    await server.refused(server.request(*messages), _INVALID, what=what)


@check
async def refuses_no_messages(server: Server) -> None:
    """No messages at all."""
    await _no(server, "a request without messages")


@check
async def refuses_no_parts(server: Server) -> None:
    """A message without parts, alone or before a good one."""
    empty = model.Message(role=model.ROLE_USER)
    await _no(server, "a message without parts", empty)
    await _no(server, "a message without parts before a good one", empty, user("Hello"))


@check
async def refuses_part_without_kind(server: Server) -> None:
    """A part that is neither text nor image."""
    parts = [model.Part(text="Hello"), model.Part()]
    await _no(server, "a part without text or image", model.Message(role=model.ROLE_USER, parts=parts))


@check
async def refuses_no_role(server: Server) -> None:
    """A message of nobody."""
    nobody = model.Message(parts=[model.Part(text="Hello")])
    await _no(server, "a message without a role", nobody, user("Hello"))


@check
async def refuses_last_role(server: Server) -> None:
    """A conversation that ends in the model's words, and one that is instructions alone."""
    for role in (model.ROLE_ASSISTANT, model.ROLE_SYSTEM):
        last = model.Message(role=role, parts=[model.Part(text="Yes.")])
        messages = [user("Hello"), last] if role == model.ROLE_ASSISTANT else [last]
        await _no(server, f"a conversation that ends in {model.Role.Name(role)}", *messages)


@check
async def answers_several_rounds(server: Server) -> None:
    """User, assistant, user."""
    said = model.Message(role=model.ROLE_ASSISTANT, parts=[model.Part(text="Blue.")])
    await server.send(server.request(user("What colour is the sky?"), said, user("And grass?")))


@check
async def refuses_what_it_does_not_claim(server: Server) -> str:
    """Each capability that is not claimed is really absent."""
    asked: dict[str, Message] = {
        "GENERATE": generation("Hello"),
        "LIKELIHOOD": model.LikelihoodRequest(messages=[user("Hello")], continuations=["yes"]),
        "IMAGE_INPUT": server.request(user(picture("red"), "What is this?")),
        "MULTI_IMAGE": server.request(user(picture("red"), picture("blue"), "What are these?")),
        "OUTPUT_LOGPROBS": generation("Hello", top_logprobs=1),
        "SEED": generation("Hello", temperature=1.0, seed=1),
        "IMAGE_OUTPUT": model.GenerateRequest(messages=[user("Draw a red disc.")], modality=model.MODALITY_IMAGE),
    }
    without = [name for name in asked if not server.claims(name)]
    for name in without:
        if name in ("OUTPUT_LOGPROBS", "SEED", "IMAGE_OUTPUT") and not server.claims("GENERATE"):
            continue
        await server.refused(asked[name], _UNIMPLEMENTED, what=f"a request that needs {name}, which is not claimed")
    applies(bool(without), "every capability is claimed")
    return f"{', '.join(without)} refused"


@check
async def refuses_zero_output_tokens(server: Server) -> None:
    """A limit of nothing."""
    await server.refused(generation("Hello", max_output_tokens=0), _INVALID, what="max_output_tokens = 0")


@check
async def refuses_impossible_decoding(server: Server) -> None:
    """Values that mean nothing."""
    impossible: dict[str, dict[str, Any]] = {
        "temperature = -1": {"temperature": -1.0},
        "top_p = 0": {"top_p": 0.0},
        "top_p = 1.5": {"top_p": 1.5},
        "an empty stop string": {"stop": [""]},
    }
    for what, config in impossible.items():
        await server.refused(generation("Hello", **config), _INVALID, what=what)


@check
async def refuses_empty_continuations(server: Server) -> None:
    """Nothing to score."""
    for what, continuations in (("no continuations", []), ("an empty continuation", ["yes", ""])):
        request = model.LikelihoodRequest(messages=[user("Hello")], continuations=continuations)
        await server.refused(request, _INVALID, what=what)


@check
async def refuses_over_long_input(server: Server) -> None:
    """A prompt, and a prompt with its output, beyond the context."""
    limit = server.info.max_context_tokens
    applies(limit > 0, "the server states no max_context_tokens")
    applies(limit <= _LONGEST, f"max_context_tokens is {limit:,}; a prompt beyond it would be too large to send")
    # Every number is a token at least, whatever the tokenizer.
    long = " ".join(str(number % 1000) for number in range(limit + 1))
    requests = {"a prompt beyond the context": server.request(user(long))}
    if server.claims("GENERATE"):
        requests["a prompt and max_output_tokens beyond the context"] = generation("Hello", max_output_tokens=limit)
    if server.claims("LIKELIHOOD"):
        requests["a continuation beyond the context"] = model.LikelihoodRequest(
            messages=[user("Hello")], continuations=["yes", long]
        )
    for what, request in requests.items():
        error = await server.refused(request, grpc.StatusCode.OUT_OF_RANGE, what=what)
        said = f"{error} {' '.join(error.metadata.values())}"
        wants(bool(re.search(r"\d", said)), f"{what}: the error {str(error)!r} names neither limit nor count")
    await server.alive("over-long input")


@check
async def ignores_unknown_fields(server: Server) -> None:
    """A field of a later version in the request and inside a message of it."""
    request = server.request(user("Hello"))
    later = _UNKNOWN_FIELD + bytes([5]) + b"later"
    message = user("Hello").SerializeToString() + later
    known = request.SerializeToString()
    extra = type(request).FromString(known + later)
    wants(b"later" in extra.SerializeToString(), "this client's protobuf dropped the unknown field")
    await server.send(extra)
    await server.send(server.request(model.Message.FromString(message)))
