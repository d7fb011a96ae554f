"""A model that sees the colour in the middle of an image and answers by it: `python reform_server.py --port-file F`.

With COLOUR it says that of every image.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import os
import re
from pathlib import Path
from typing import Any

from PIL import Image, ImageColor

from lyncean.model.v1 import model_pb2 as model, model_pb2_grpc
from lyncean.rpc import Server, ServerConfig
from orchestrator.benchmarks.reform.synthetic import COLOURS

SERVICE = "lyncean.model.v1.ModelService"
OPTION = re.compile(r"\((\w)\) (.*?)(?=; \(\w\) |\.?$)", re.DOTALL)


def colour_of(messages: Any) -> str:
    """Returns the colour that most coloured pixels have; every request has exactly one image, in its first message."""
    images = [part.image for message in messages for part in message.parts if part.HasField("image")]
    assert len(images) == 1
    assert messages[0].parts[0].HasField("image")
    assert messages[-1].role == model.ROLE_USER
    if answer := os.environ.get("COLOUR"):
        return answer
    with Image.open(io.BytesIO(images[0].data)) as file:
        pixels = file.convert("RGB").resize((64, 64), Image.Resampling.NEAREST)
    return next((name for name in COLOURS if pixels.getpixel((28, 36)) == ImageColor.getrgb(name)), "nothing")


def fits(option: str, colour: str, question: str) -> bool:
    if option in ("yes", "no", "supported"):
        return (option != "no") == (re.search(rf"\b{colour}\b", question, re.IGNORECASE) is not None)
    return re.search(rf"\b{colour}\b", option, re.IGNORECASE) is not None


class Model(model_pb2_grpc.ModelServiceServicer):
    async def GetModelInfo(self, request: Any, context: Any) -> model.GetModelInfoResponse:  # noqa: N802
        capabilities = [
            model.CAPABILITY_GENERATE,
            model.CAPABILITY_LIKELIHOOD,
            model.CAPABILITY_IMAGE_INPUT,
        ]
        return model.GetModelInfoResponse(model_name="colours", capabilities=capabilities, max_concurrency=4)

    async def Generate(self, request: model.GenerateRequest, context: Any) -> model.GenerateResponse:  # noqa: N802
        colour, text = colour_of(request.messages), request.messages[-1].parts[-1].text
        question, _, options = text.rpartition(" Options: ")
        options = options.partition("\n")[0]
        letter = next((mark for mark, option in OPTION.findall(options) if fits(option, colour, question)), "")
        answer = f"The answer is ({letter})." if letter else f"something {colour}"
        return model.GenerateResponse(
            parts=[model.Part(text=answer)], finish_reason=model.FINISH_REASON_END_OF_SEQUENCE
        )

    async def Likelihood(self, request: model.LikelihoodRequest, context: Any) -> model.LikelihoodResponse:  # noqa: N802
        colour, text = colour_of(request.messages), request.messages[-1].parts[-1].text
        assert "Options:" not in text
        scores = [
            model.ContinuationScore(logprob=-1.0 if fits(option, colour, text) else -9.0 - index, token_count=2)
            for index, option in enumerate(request.continuations)
        ]
        return model.LikelihoodResponse(scores=scores)


async def serve() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--port-file", type=Path)
    flags = parser.parse_args()
    servicer = Model()
    server = Server(
        ServerConfig(port=flags.port, port_file=flags.port_file, grace=5.0),
        SERVICE,
        lambda s: model_pb2_grpc.add_ModelServiceServicer_to_server(servicer, s),
    )
    await server.start()
    await server.set_serving()
    await server.run_until_signal()


if __name__ == "__main__":
    asyncio.run(serve())
