"""Tools on tiny checkpoints: what a template makes of them is found out, calls are read, images of results are seen."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers import tool_templates as templates
from helpers.model_serving import refusal
from helpers.tool_turns import ARGUMENTS, called, result, results, tool, user

from lyncean.model.v1 import model_pb2 as model

torch = pytest.importorskip("torch")
import transformers as tf  # noqa: E402

from model_server.hf.rows import RowDecoder  # noqa: E402

MARKS = ["<tool_call>", "</tool_call>", "[TOOL_CALLS]", "<|tool_call>", "<tool_call|>"]
CONTROLS = ["[TOOL_CALLS]", "<|tool_call>", "<tool_call|>"]
"""Those that are control tokens in the real ones: plain decoding leaves them out."""
SHORT = tool(schema='{"type": "object", "properties": {"label": {"type": "string"}}}', description="Zooms.")
CALL = '<tool_call>\n{"name": "zoom", "arguments": {"label":  "cup"}}\n</tool_call>'
NONE = model.ToolChoice(mode=model.TOOL_CHOICE_MODE_NONE)


@pytest.fixture
def serving(hf: Any, checkpoint_folder: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Serves a tiny checkpoint with a template; what the model says next is a script."""
    script: list[str] = []
    folders = itertools.count()

    def make(kind: str, template: str, *says: str) -> Any:
        folder = tmp_path / str(next(folders))
        shutil.copytree(checkpoint_folder(kind), folder)
        processor = tf.AutoProcessor.from_pretrained(folder)
        tokenizer = getattr(processor, "tokenizer", processor)
        tokenizer.add_tokens([tf.AddedToken(mark, special=mark in CONTROLS, normalized=False) for mark in MARKS])
        processor.save_pretrained(folder)
        file = tmp_path / "template.jinja"
        shown = str(getattr(processor, "image_token", "")) or "IMAGE"
        if kind.startswith("qwen"):
            shown = "<|vision_start|><|image_pad|><|vision_end|>"
        file.write_text(template.replace("IMAGE", shown))
        script[:] = says

        def scripted(decoder: RowDecoder, rows: Any, scores: Any) -> list[int]:
            plain = decoder._masked(rows, scores).argmax(-1).tolist()
            ids = tokenizer(script[0], add_special_tokens=False)["input_ids"] if script else []
            following = [*ids, tokenizer.eos_token_id]
            return [following[len(row.ids)] if script else best for row, best in zip(rows, plain, strict=True)]

        monkeypatch.setattr(RowDecoder, "choose", scripted)
        return hf(kind, model=str(folder), chat_template=file), script

    return make


@pytest.mark.parametrize(
    ("kind", "template", "form", "images", "kept"),
    [
        ("text", templates.HERMES, "hermes", model.TOOL_IMAGES_REFUSED, True),
        ("text", templates.HERMES_JSON, "hermes", model.TOOL_IMAGES_REFUSED, False),
        ("text", templates.CODER, "qwen3_coder", model.TOOL_IMAGES_REFUSED, False),
        ("text", templates.GLM, "glm", model.TOOL_IMAGES_REFUSED, False),
        ("text", templates.MISTRAL, "mistral", model.TOOL_IMAGES_REFUSED, False),
        ("text", templates.GEMMA, "gemma4", model.TOOL_IMAGES_REFUSED, False),
        ("text", templates.LLAMA, "llama_json", model.TOOL_IMAGES_REFUSED, False),
        ("qwen3_vl", templates.HERMES, "hermes", model.TOOL_IMAGES_IN_RESULT, True),
        ("qwen3_vl", templates.IMAGES_BEHIND, "hermes", model.TOOL_IMAGES_IN_USER_MESSAGE, True),
        ("text", templates.DROPS_TOOLS, "", model.TOOL_IMAGES_UNSPECIFIED, False),
        ("text", templates.DROPS_CALLS, "", model.TOOL_IMAGES_UNSPECIFIED, False),
        ("text", templates.DROPS_RESULTS, "", model.TOOL_IMAGES_UNSPECIFIED, False),
        ("text", templates.DROPS_ARGUMENTS, "", model.TOOL_IMAGES_UNSPECIFIED, False),
        ("qwen3_vl", templates.PRINTS_PARTS, "", model.TOOL_IMAGES_UNSPECIFIED, False),
        ("qwen3_vl", "llama4", "", model.TOOL_IMAGES_UNSPECIFIED, False),
    ],
)
def test_what_a_template_makes_of_tools_is_found_out(
    serving: Any, kind: str, template: str, form: str, images: Any, kept: bool
) -> None:
    from model_server.hf import checkpoint as checkpoints
    from model_server.hf.prompt import Prompter

    if template == "llama4":  # the library has it; it prints the user's parts as a Python list
        from transformers.models.llama4.processing_llama4 import chat_template as template
    backend, _ = serving(kind, template)
    tools = Prompter(checkpoints.load(backend._settings), 10**8).template.tools
    if not form:
        assert tools is None
        return
    assert tools is not None
    assert (tools.form.name, tools.rendering.images, tools.reasoning_kept) == (form, images, kept)


async def test_a_template_that_drops_tools_claims_none(served: Any, serving: Any) -> None:
    backend, _ = serving("text", templates.DROPS_RESULTS)
    async with served(backend) as server:
        info = await server.info()
        assert model.CAPABILITY_TOOLS not in info.capabilities
        assert not info.HasField("tool_rendering")
        sent = model.GenerateRequest(messages=[user("Where?")], tools=[SHORT])
        assert await refusal(server.send(sent)) == ("UNIMPLEMENTED", "no_tools")


def sent(*messages: model.Message, tools: Any = (SHORT,), **fields: Any) -> model.GenerateRequest:
    config = model.GenerationConfig(max_output_tokens=120, stop=fields.pop("stop", []))
    return model.GenerateRequest(messages=messages, tools=tools, config=config, return_prompt=True, **fields)


async def test_a_model_looks_and_looks_again(served: Any, serving: Any, picture: Callable[..., bytes]) -> None:
    backend, script = serving("qwen3_vl", templates.HERMES, f"I look.\n{CALL}\n{CALL}")
    async with served(backend) as server:
        info = await server.info()
        assert model.CAPABILITY_TOOLS in info.capabilities
        question = user(picture(1, (64, 64)), "Where is it?")
        first = await server.send(sent(question))
        assert [part.WhichOneof("kind") for part in first.parts] == ["text", "tool_call", "tool_call"]
        assert first.parts[0].text == "I look."
        assert [part.tool_call.id for part in first.parts[1:]] == ["call_0", "call_1"]
        assert {part.tool_call.arguments for part in first.parts[1:]} == {'{"label":  "cup"}'}  # to the last blank
        assert first.finish_reason == model.FINISH_REASON_TOOL_CALLS
        assert '"description": "Zooms."' in first.prompt.text
        assert [(image.width, image.height) for image in first.usage.images] == [(64, 64)]

        script[:] = ["In the cup."]
        crops = results(result("call_0", "one", picture(2, (96, 64))), result("call_1", picture(3, (64, 96)), "two"))
        answer = model.Message(role=model.ROLE_ASSISTANT, parts=first.parts, reasoning="A plan.")
        second = await server.send(sent(question, answer, crops))
        assert [part.text for part in second.parts] == ["In the cup."]
        assert second.finish_reason == model.FINISH_REASON_END_OF_SEQUENCE
        assert "<think>\nA plan.\n</think>\n\nI look.\n" + CALL + "\n" + CALL in second.prompt.text
        sizes = [(image.width, image.height) for image in second.usage.images]
        assert sizes == [(64, 64), (96, 64), (64, 96)]  # in the order in which they are shown
        tokens = [wide // 32 * (high // 32) for wide, high in sizes]
        assert second.usage.image_tokens == sum(tokens)
        pads = second.prompt.text.split("Where is it?")[1].split("<|vision_end|>")
        assert [part.count("<|image_pad|>") for part in pads[:2]] == tokens[1:]
        assert "one<|vision_start|>" in pads[0]

        hidden = results(result("call_0", "<|image_pad|>"), result("call_1", "two"))
        assert await refusal(server.send(sent(question, answer, hidden))) == ("INVALID_ARGUMENT", "placeholder_in_text")
        written = sent(question, tools=[tool(description="<|image_pad|>")])
        assert await refusal(server.send(written)) == ("INVALID_ARGUMENT", "placeholder_in_text")


async def test_images_stand_behind_results_that_are_text(
    served: Any, serving: Any, picture: Callable[..., bytes]
) -> None:
    backend, _ = serving("qwen3_vl", templates.IMAGES_BEHIND, "Yes.")
    async with served(backend) as server:
        conversation = sent(
            user("Where?"), called("a", arguments='{"label": "x"}'), results(result("a", picture(), "one"))
        )
        text = (await server.send(conversation)).prompt.text
        assert "<tool_response>\none\n</tool_response><|im_end|>\n<|im_start|>user\n<|vision_start|>" in text


SEVEN = '{"label": "7"}'
WRITTEN = [
    (
        templates.CODER,
        "<tool_call>\n<function=zoom>\n<parameter=label>\n7\n</parameter>\n</function>\n</tool_call>",
        "zoom",
        SEVEN,
    ),
    (
        templates.GLM,
        "<tool_call>zoom\n<arg_key>label</arg_key>\n<arg_value>7</arg_value>\n</tool_call>",
        "zoom",
        SEVEN,
    ),
    (
        templates.MISTRAL,
        '[TOOL_CALLS] [{"name": "zoom", "arguments": {"label": "7"}, "id": "abcdefghi"}]',
        "zoom",
        SEVEN,
    ),
    (templates.MISTRAL, '[TOOL_CALLS]zoom[ARGS]{"label": "7"}', "zoom", SEVEN),
    (templates.GEMMA, '<|tool_call>call:zoom{label:<|"|>7<|"|>}<tool_call|>', "zoom", '{"label":"7"}'),
    (templates.LLAMA, '{"name": "no such", "parameters": {"label": "7"}}', "no such", SEVEN),
    (templates.HERMES, '<tool_call>{"name": "zoom", "arguments": {label: 7}}</tool_call>', "zoom", "{label: 7}"),
]


@pytest.mark.parametrize(("template", "says", "name", "arguments"), WRITTEN)
async def test_each_familys_calls_are_read_and_written_again(
    served: Any, serving: Any, template: str, says: str, name: str, arguments: str
) -> None:
    backend, script = serving("text", template, says)
    async with served(backend) as server:
        first = await server.send(sent(user("Where?")))
        assert [part.WhichOneof("kind") for part in first.parts] == ["tool_call"]
        assert (first.parts[0].tool_call.name, first.parts[0].tool_call.arguments) == (name, arguments)
        assert first.parts[0].tool_call.id == ("abcdefghi" if "abcdefghi" in says else "call_0")
        script[:] = ["Here."]
        tool_results = results(result(first.parts[0].tool_call.id, "In the cup."))
        answer = model.Message(role=model.ROLE_ASSISTANT, parts=first.parts)
        second = await server.send(sent(user("Where?"), answer, tool_results))
        assert [part.text for part in second.parts] == ["Here."]
        if "[ARGS]" not in says and "label: 7" not in says:
            assert says.replace("</s>", "") in second.prompt.text.replace('{"label":"7"}', '{"label": "7"}')


async def test_what_is_no_call_is_text(served: Any, serving: Any) -> None:
    backend, script = serving("text", templates.HERMES)
    async with served(backend) as server:
        for says in ("Here.", "<tool_call>zoom</tool_call>", '<tool_call>{"name": "zoom", "arguments": {"label": "'):
            script[:] = [says]
            reply = await server.send(sent(user("Where?")))
            assert [part.text for part in reply.parts] == [says]
            assert reply.finish_reason == model.FINISH_REASON_END_OF_SEQUENCE
        script[:] = [CALL]  # a tool of nobody's, and the same words where no tools are offered
        assert [part.text for part in (await server.send(sent(user("Where?"), tools=()))).parts] == [CALL]
        reply = await server.send(sent(user("Where?"), stop=["</tool_call>"]))
        assert [part.tool_call.name for part in reply.parts] == ["zoom"]
        assert reply.finish_reason == model.FINISH_REASON_STOP_STRING


async def test_choices_are_kept_or_refused(served: Any, serving: Any) -> None:
    backend, script = serving("text", templates.HERMES, f"{CALL}\n{CALL} and more")
    async with served(backend) as server:
        one = await server.send(sent(user("Where?"), parallel_tool_calls=False))
        assert [part.WhichOneof("kind") for part in one.parts] == ["tool_call"]
        for choice in (model.ToolChoice(mode=model.TOOL_CHOICE_MODE_REQUIRED), model.ToolChoice(name="zoom")):
            wanted = sent(user("Where?"), tool_choice=choice)
            assert await refusal(server.send(wanted)) == ("UNIMPLEMENTED", "no_tool_choice")
        none = await server.send(sent(user("Where?"), tool_choice=NONE))
        assert "".join(part.text for part in none.parts) == script[0]  # a script is not kept from it
    backend, _ = serving("text", templates.LLAMA)
    async with served(backend) as server:
        for fields in ({"tool_choice": NONE}, {"parallel_tool_calls": True}):
            status, _ = await refusal(server.send(sent(user("Where?"), **fields)))
            assert status == "UNIMPLEMENTED"
        beside = sent(user("x"), called("a", text="I look.", arguments=ARGUMENTS), results(result("a", "y")))
        assert await refusal(server.send(beside)) == ("UNIMPLEMENTED", "no_text_beside_calls")


async def test_a_call_that_is_forbidden_is_not_decoded(served: Any, serving: Any, monkeypatch: Any) -> None:
    choose = RowDecoder.choose
    backend, _ = serving("text", templates.HERMES)
    monkeypatch.setattr(RowDecoder, "choose", choose)
    async with served(backend) as server:
        net, tokenizer = backend._loaded.checkpoint.model, backend._loaded.checkpoint.tokenizer
        rows = net.get_output_embeddings().weight
        reply = await server.send(sent(user("Where?")))
        first = tokenizer(reply.parts[0].text, add_special_tokens=False)["input_ids"][0]
        with torch.no_grad():
            rows[tokenizer.convert_tokens_to_ids("<tool_call>")] = 1.5 * rows[first]
        tempted = await server.send(sent(user("Where?")))
        assert tempted.parts[0].text.startswith("<tool_call>")
        kept = await server.send(sent(user("Where?"), tool_choice=NONE))
        assert "<tool_call>" not in kept.parts[0].text


def test_a_tokenizers_own_response_template_reads_calls(serving: Any) -> None:
    from model_server.hf.response_template import of_tokenizer
    from model_server.tool_calls import Written

    tokenizer = type("T", (), {})()
    assert of_tokenizer(tokenizer) == []
    field = {"open": "<call>", "close": "</call>", "repeats": True, "content": "json"}
    field["transform"] = {"type": "function", "function": "{content}"}
    tokenizer.response_template = {
        "start_anchor": "<|im_start|>assistant\n",
        "fields": {"content": {"content": "text"}, "tool_calls": field},
    }
    (form,) = of_tokenizer(tokenizer)
    text = 'Look. <call>{"name": "zoom", "arguments": {"label": "7"}}</call>'
    assert form.pieces(text, {"zoom": {}}) == ["Look.", Written("zoom", '{"label": "7"}')]
    for broken in ("Look.", "Look. <call>{</call>", '<call>{"name": 3, "arguments": {}}</call>'):
        assert form.pieces(broken, {}) == [broken]
