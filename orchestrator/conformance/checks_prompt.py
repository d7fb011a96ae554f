"""Features for audits: rendered prompts, token numbers, and limits that hold."""

from __future__ import annotations

import grpc

from lyncean.model.v1 import model_pb2 as model
from orchestrator.conformance.check import applies, check, wants
from orchestrator.conformance.checks_images import plain
from orchestrator.conformance.server import Server, refusal, text_of, user

WORDS = "Say which of the numbers 4711 and 815 is larger."
_OTHER = "Say which of the numbers 4711 and 816 is larger."
_SYSTEM = "You are a clerk named zq7x."
_CONTINUATIONS = ["the first", "the second", "the first one"]
_MOST_IMAGES = 512
"""Limits above this are not tried."""


@check
async def rendered_prompt_is_returned(server: Server) -> str:
    """Two conversations by each method, with and without their rendered prompts."""
    prompts: dict[str, list[model.RenderedPrompt]] = {WORDS: [], _OTHER: []}
    for text, rendered in prompts.items():
        for request in server.each_method(text, _CONTINUATIONS, max_output_tokens=2):
            plain = await server.send(request)
            wants(not plain.HasField("prompt"), "prompt is set where return_prompt was not")
            request.return_prompt = True
            shown = await server.send(request)
            prompt, usage = shown.prompt, shown.usage
            wants(
                bool(prompt.text or prompt.token_ids), "return_prompt was set, and prompt has neither text nor tokens"
            )
            wants(not prompt.text or text in prompt.text, f"the user's words are not in {prompt.text[:80]!r}")
            known = not prompt.token_ids or len(prompt.token_ids) == usage.input_tokens
            wants(known, f"{len(prompt.token_ids)} token_ids, and input_tokens is {usage.input_tokens}")
            same = usage.input_tokens == plain.usage.input_tokens
            wants(same, f"input_tokens is {usage.input_tokens}, and {plain.usage.input_tokens} without return_prompt")
            if server.exact and isinstance(shown, model.GenerateResponse):
                wants(text_of(shown) == text_of(plain), f"it says {text_of(shown)!r}, and {text_of(plain)!r} without")
            rendered.append(prompt)
    one, other = prompts.values()
    wants(one[0] != other[0], f"{WORDS!r} and {_OTHER!r} have one rendered prompt")
    wants(one[0] == one[-1], "Generate and Likelihood render one conversation otherwise")
    return f"{len(one[0].token_ids)} tokens, {one[0].text!r}"[:60]


@check
async def token_ids_name_tokens(server: Server) -> str:
    """The numbers of scored and generated tokens, each of which has one text."""
    tokens: list[model.TokenLogprob | model.TopLogprob] = []
    if server.claims("LIKELIHOOD"):
        scores = await server.likelihood([WORDS], _CONTINUATIONS, tokens=True)
        tokens += [token for score in scores for token in score.tokens]
        for one, other in zip(scores[0].tokens, scores[-1].tokens, strict=False):  # which begin alike
            same = one.token != other.token or one.token_id == other.token_id
            wants(same, f"{one.token!r} has the numbers {one.token_id} and {other.token_id}")
    if server.claims("OUTPUT_LOGPROBS") and server.claims("GENERATE"):
        answer = await server.generate(WORDS, max_output_tokens=4, top_logprobs=2)
        tokens += answer.logprobs
        tokens += [other for token in answer.logprobs for other in token.top]
    texts: dict[int, bytes] = {}
    numbered = [token for token in tokens if token.HasField("token_id")]
    applies(bool(numbered), "no token has a token_id")
    for token in numbered:
        known = texts.setdefault(token.token_id, token.token)
        wants(known == token.token, f"token_id {token.token_id} is of {known!r} and of {token.token!r}")
    return f"{len(texts)} tokens"


@check
async def system_messages_are_as_stated(server: Server) -> str:
    """A system message, taken or refused as GetModelInfo says."""
    stated = server.info.system_messages
    applies(stated != model.SYSTEM_MESSAGES_UNSPECIFIED, "system_messages is not stated")
    system = model.Message(role=model.ROLE_SYSTEM, parts=[model.Part(text=_SYSTEM)])
    request = server.request(system, user(WORDS))
    if stated == model.SYSTEM_MESSAGES_REFUSED:
        refusal(await server.ending(request), "a system message", grpc.StatusCode.UNIMPLEMENTED)
        return "refused"
    request.return_prompt = server.claims("RENDERED_PROMPT")
    answer, without = await server.send(request), await server.send(server.request(user(WORDS)))
    one, other = without.usage.input_tokens, answer.usage.input_tokens
    wants(other > one, f"the prompt has {one} tokens without a system message and {other} with it: was it dropped?")
    shown = answer.prompt.text
    wants(not shown or _SYSTEM in shown, f"the words of the system message are not in {shown[:80]!r}")
    return "taken"


@check
async def image_limit_is_kept(server: Server) -> str:
    """One image more than max_images."""
    most = server.info.media_limits.max_images
    applies(0 < most <= _MOST_IMAGES, f"max_images is {most or 'not stated'}: no such request is made")
    request = server.request(user(*[plain("red", 32, 32)] * (most + 1), WORDS))
    await server.refused(request, what=f"{most + 1} images where max_images is {most}")
    await server.alive("too many images")
    return f"{most} images"
