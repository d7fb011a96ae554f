"""Questions about images through the front by clients that others wrote, as they send them: five, fifty in a week."""

from __future__ import annotations

import asyncio
import base64
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helpers.model_serving import serve
from PIL import Image

from lyncean.model.v1 import model_pb2 as model
from model_server.backend import Backend, Call, describe

pytest.importorskip("uvicorn", reason="pip install 'lyncean[http]'")

from helpers.http_front import front

QUESTION = "How wide is it?"


class Ruler(Backend):
    """Tells the width of the image that it gets."""

    decodes = False

    def info(self) -> model.GetModelInfoResponse:
        names = (model.CAPABILITY_GENERATE, model.CAPABILITY_IMAGE_INPUT, model.CAPABILITY_REASONING)
        return describe(dict.fromkeys(names, True), model_name="m", max_concurrency=8, max_context_tokens=9999)

    async def generate(self, request: model.GenerateRequest, call: Call) -> model.GenerateResponse:
        (image,) = [part.image for part in request.messages[-1].parts if part.HasField("image")]
        (text,) = [part.text for part in request.messages[-1].parts if part.text.strip()]
        assert text == QUESTION
        answer = model.GenerateResponse(finish_reason=model.FINISH_REASON_END_OF_SEQUENCE, reasoning="I measure.")
        answer.parts.add(text=str(Image.open(io.BytesIO(image.data)).width))
        answer.usage.MergeFrom(model.Usage(input_tokens=7, output_tokens=3, reasoning_tokens=1))
        return answer


def picture(width: int) -> Image.Image:
    return Image.new("RGB", (width, 150), (width, 80, 120))


def url(width: int) -> str:
    data = io.BytesIO()
    picture(width).save(data, "PNG")
    return "data:image/png;base64," + base64.b64encode(data.getvalue()).decode()


def by_openai(base: str, widths: range, folder: Path) -> list[str]:
    openai = pytest.importorskip("openai", reason="pip install openai")
    client = openai.OpenAI(base_url=base, api_key="x", max_retries=0)
    answers = []
    for width in widths:
        image = {"type": "image_url", "image_url": {"url": url(width), "detail": "high"}}
        messages = [{"role": "user", "name": "u", "content": [image, {"type": "text", "text": QUESTION}]}]
        answers.append(client.chat.completions.create(model="m", messages=messages).choices[0].message.content)
    return answers


def by_responses(base: str, widths: range, folder: Path) -> list[str]:
    openai = pytest.importorskip("openai", reason="pip install openai")
    client = openai.OpenAI(base_url=base, api_key="x", max_retries=0)
    answers = []
    for width in widths:
        parts = [{"type": "input_image", "image_url": url(width)}, {"type": "input_text", "text": QUESTION}]
        fields = {"model": "m", "input": [{"role": "user", "content": parts}], "instructions": "Be brief."}
        reply = client.responses.create(**fields, max_output_tokens=9, store=False)
        with client.responses.stream(**fields) as stream:
            texts = [event.delta for event in stream if event.type == "response.output_text.delta"]
            whole = stream.get_final_response()
        assert "".join(texts) == whole.output_text == reply.output_text
        assert whole.output[0].content[0].text == "I measure."
        assert (reply.usage.total_tokens, reply.usage.output_tokens_details.reasoning_tokens) == (10, 1)
        answers.append(reply.output_text)
    return answers


def by_inspect(base: str, widths: range, folder: Path, **settings: Any) -> list[str]:
    pytest.importorskip("inspect_ai", reason="pip install inspect-ai")
    from inspect_ai import Task, eval as evaluate
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ChatMessageUser, ContentImage, ContentText, get_model
    from inspect_ai.scorer import exact

    remote = get_model("openai/m", base_url=base, api_key="x", memoize=False, **settings)
    samples = []
    for width in widths:
        content = [ContentImage(image=url(width), detail="low"), ContentText(text=QUESTION)]
        samples.append(Sample(input=[ChatMessageUser(content=content)], target=str(width), id=width))
    task = Task(dataset=samples, scorer=exact())
    (log,) = evaluate(task, model=remote, log_dir=str(folder), display="none", log_images=False)
    assert log.status == "success", log.error
    assert log.results.scores[0].metrics["mean"].value == 1
    return [sample.output.completion for sample in log.samples]


def by_inspect_responses(base: str, widths: range, folder: Path) -> list[str]:
    return by_inspect(base, widths, folder, responses_api=True, streaming=True)


def by_litellm(base: str, widths: range, folder: Path) -> list[str]:
    litellm = pytest.importorskip("litellm", reason="pip install 'lyncean[litellm]'")
    answers = []
    for width in widths:
        image = {"type": "image_url", "image_url": {"url": url(width), "detail": "low"}}
        messages = [{"role": "user", "content": [image, {"type": "text", "text": QUESTION}]}]
        reply = litellm.completion("openai/m", messages=messages, api_base=base, api_key="x", num_retries=0)
        answers.append(reply.choices[0].message.content)
    return answers


def by_vlmevalkit(base: str, widths: range, folder: Path) -> list[str]:
    pytest.importorskip("vlmeval.api.gpt", reason="pip install ms-vlmeval", exc_type=ImportError)
    from vlmeval.api.gpt import GPT4V

    answers = []
    api = GPT4V(model="m", api_base=f"{base}/chat/completions", key="x", retry=1, wait=0, verbose=True)
    for width in widths:
        path = folder / f"{width}.png"
        picture(width).save(path)
        answers.append(api.generate([{"type": "image", "value": str(path)}, {"type": "text", "value": QUESTION}]))
    return answers


def by_lmms_eval(base: str, widths: range, folder: Path) -> list[str]:
    pytest.importorskip("lmms_eval", reason="pip install 'lyncean[lmms]'")
    from lmms_eval.models.chat.openai import OpenAICompatible

    api = OpenAICompatible(model_version="m", base_url=base, api_key="x", max_retries=1, batch_size=1)
    api.task_dict = {"t": {"test": [picture(width) for width in widths]}}

    def messages(image: Image.Image) -> list[dict[str, Any]]:
        return [{"role": "user", "content": [{"type": "image", "url": image}, {"type": "text", "text": QUESTION}]}]

    settings = {"max_new_tokens": 9, "temperature": 0, "top_p": None, "num_beams": 1, "do_sample": False}
    requests = [SimpleNamespace(args=(QUESTION, messages, settings, i, "t", "test")) for i in range(len(widths))]
    return [result.text for result in api.generate_until(requests)]


@pytest.mark.parametrize("count", [5, pytest.param(50, marks=pytest.mark.weekly)])
@pytest.mark.parametrize(
    "client", [by_openai, by_responses, by_inspect, by_inspect_responses, by_litellm, by_vlmevalkit, by_lmms_eval]
)
async def test_questions_about_images(
    client: Callable[[str, range, Path], Sequence[str]], count: int, tmp_path: Path
) -> None:
    widths = range(150, 150 + count)
    async with serve(Ruler()) as server, front(server.channel) as port:
        answers = await asyncio.to_thread(client, f"http://127.0.0.1:{port}/v1", widths, tmp_path)
    assert list(answers) == [str(width) for width in widths]
