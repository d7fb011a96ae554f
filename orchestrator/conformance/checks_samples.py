"""Several outputs of one prompt: each is what a request for it alone gives."""

from __future__ import annotations

import grpc

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import CallError
from orchestrator.conformance.check import applies, check, wants
from orchestrator.conformance.server import Server, generation, text_of

PROMPT = "Name an animal, a colour and a town, in any order."
_SEED = 2**64 - 2
"""The third output's is 0."""


def _request(samples: int, **config: object) -> model.GenerateRequest:
    request = generation(PROMPT, **{"max_output_tokens": 8, "temperature": 1.0} | config)
    request.samples = samples
    return request


async def _outputs(server: Server, request: model.GenerateRequest) -> list[model.Sample]:
    """Returns the outputs of a request for several."""
    response: model.GenerateResponse = await server.send(request)
    wants(
        len(response.samples) == request.samples,
        f"{request.samples} samples were asked for, {len(response.samples)} came",
    )
    others = [field.name for field, _ in response.ListFields() if field.name not in ("samples", "served_by", "prompt")]
    wants(not others, f"{', '.join(others)} of the response are set beside its samples")
    for index, result in enumerate(response.samples):
        if result.WhichOneof("result") == "status":
            raise CallError.from_status(result.status)
        wants(result.HasField("output"), f"sample {index} has neither output nor status")
        wants(bool(result.output.finish_reason), f"sample {index} has no finish_reason")
    return [result.output for result in response.samples]


@check
async def samples_are_separate_outputs(server: Server) -> str:
    """Three outputs of seeds that pass 2^64, and the same one by one."""
    applies(server.info.max_samples >= 3, f"max_samples is {server.info.max_samples}")
    outputs = await _outputs(server, _request(3, seed=_SEED))
    for index, output in enumerate(outputs):
        seed = (_SEED + index) % 2**64
        alone = await server.send(_request(0, seed=seed))
        wants(not alone.samples, "samples is set in the response to a request for one output")
        used = output.effective_config.seed
        wants(used == seed, f"sample {index} was drawn with the seed {used}, it is {seed}")
        same = output.usage.input_tokens == alone.usage.input_tokens
        wants(same, f"sample {index} has {output.usage.input_tokens} input_tokens, alone {alone.usage.input_tokens}")
        if server.exact:
            one, other = "".join(part.text for part in output.parts), text_of(alone)
            wants(one == other, f"sample {index} is {one!r}, and {other!r} by itself")
            tokens = output.usage.output_tokens, alone.usage.output_tokens
            wants(tokens[0] == tokens[1], f"sample {index} has {tokens[0]} output_tokens, and {tokens[1]} by itself")
    cached = sum(output.usage.cached_tokens for output in outputs)
    return f"{sum(output.usage.input_tokens for output in outputs)} prompt tokens, {cached} of them cached"


@check
async def samples_are_bounded(server: Server) -> str:
    """As many outputs as max_samples says, or sixteen; and one more than it says."""
    most = server.info.max_samples
    wants(most >= 2, f"CAPABILITY_SAMPLES is claimed, and max_samples is {most}")
    await _outputs(server, _request(min(most, 16), temperature=0.0))
    await server.refused(_request(most + 1, temperature=0.0), what=f"{most + 1} samples where max_samples is {most}")
    if server.claims("IMAGE_OUTPUT"):
        drawn = _request(2)
        drawn.modality = model.MODALITY_IMAGE
        ending = await server.ending(drawn)
        refused = isinstance(ending, CallError) and ending.code is grpc.StatusCode.UNIMPLEMENTED
        wants(refused, "2 images were asked for, and not refused with UNIMPLEMENTED")
    return f"{most} at most"
