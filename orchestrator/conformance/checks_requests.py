"""Requests that no server may answer, and what none may stumble over; more of them are tables in `check.toml`."""

from __future__ import annotations

import re

import grpc

from lyncean.model.v1 import model_pb2 as model
from orchestrator.conformance.check import applies, check, wants
from orchestrator.conformance.checks_images import picture
from orchestrator.conformance.checks_media import film, media_request, tone
from orchestrator.conformance.checks_prefix import begun
from orchestrator.conformance.checks_tools import told
from orchestrator.conformance.server import Request, Server, generation, scoring, user

_NEW = ("AUDIO_INPUT", "VIDEO_INPUT", "ANSWER_PREFIX", "RAW_PROMPT", "TOOLS")
_LONGEST = 2_000_000
_LATER = b"\xfa\x3e\x05later"  # field 1007, length-delimited


@check
async def refuses_what_it_does_not_claim(server: Server) -> str:
    """Each capability that is not claimed is really absent."""
    requests: dict[str, Request] = {
        "GENERATE": generation("Hello"),
        "LIKELIHOOD": scoring(["Hello"], ["yes"]),
        "IMAGE_INPUT": server.request(user(picture("red"), "What is this?")),
        "MULTI_IMAGE": server.request(user(picture("red"), picture("blue"), "What are these?")),
        "AUDIO_INPUT": media_request(server, model.Audio(data=tone(220))),
        "VIDEO_INPUT": media_request(server, model.Video(data=film())),
        "ANSWER_PREFIX": server.request(*begun("Hello")),
        "RAW_PROMPT": model.GenerateRequest(raw_prompt=model.RawPrompt(text="Hello")),
        "TOOLS": server.request(*told(["one"])),
        "OUTPUT_LOGPROBS": generation("Hello", top_logprobs=1),
        "SEED": generation("Hello", temperature=1.0, seed=1),
        "IMAGE_OUTPUT": model.GenerateRequest(messages=[user("Draw a red disc.")], modality=model.MODALITY_IMAGE),
    }
    unclaimed = [name for name in requests if not server.claims(name)]
    for name in unclaimed:
        if name in ("OUTPUT_LOGPROBS", "SEED", "IMAGE_OUTPUT") and not server.claims("GENERATE"):
            continue
        case = f"a request that needs {name}, which is not claimed"
        # A server that was made before audio and videos sees a part without a kind, one that was made before answers
        # could be continued a conversation without a question, one from before raw prompts no messages, one from
        # before tools roles and parts that it does not know.
        older = (grpc.StatusCode.INVALID_ARGUMENT,) if name in _NEW else ()
        await server.refused(requests[name], grpc.StatusCode.UNIMPLEMENTED, *older, what=case)
    applies(bool(unclaimed), "every capability is claimed")
    return f"{', '.join(unclaimed)} refused"


@check
async def refuses_over_long_input(server: Server) -> None:
    """A prompt, and a prompt with its output, beyond the context."""
    limit = server.info.max_context_tokens
    applies(limit > 0, "the server states no max_context_tokens")
    applies(limit <= _LONGEST, f"max_context_tokens is {limit:,}; a prompt beyond it would be too large to send")
    # Every number is at least one token in any tokenizer.
    long = " ".join(str(number % 1000) for number in range(limit + 1))
    requests: dict[str, Request] = {"a prompt beyond the context": server.request(user(long))}
    if server.claims("GENERATE"):
        requests["a prompt and max_output_tokens beyond the context"] = generation("Hello", max_output_tokens=limit)
    if server.claims("LIKELIHOOD"):
        requests["a continuation beyond the context"] = scoring(["Hello"], ["yes", long])
    for case, request in requests.items():
        error = await server.refused(request, grpc.StatusCode.OUT_OF_RANGE, what=case)
        message = f"{error} {' '.join(error.metadata.values())}"
        wants(bool(re.search(r"\d", message)), f"{case}: the error {str(error)!r} names neither limit nor count")
    await server.alive("over-long input")


@check
async def ignores_unknown_fields(server: Server) -> None:
    """A field of a later version in the request and inside a message of it."""
    request = server.request(user("Hello"))
    extra = type(request).FromString(request.SerializeToString() + _LATER)
    wants(b"later" in extra.SerializeToString(), "this client's protobuf dropped the unknown field")
    await server.send(extra)
    await server.send(server.request(model.Message.FromString(user("Hello").SerializeToString() + _LATER)))
