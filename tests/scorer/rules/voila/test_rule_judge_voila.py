"""VOILA by a judge: its prompts, the verdicts of its replies, and refused replies."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.errors import RequestError
from scorer.judges.base import JudgeError, JudgePrompt, Reply
from scorer.rules.voila import judged, judged_image
from scorer.rules.voila.prompts import image_prompt, prompt, verdict
from scorer.rules.voila.properties import truth_of

ALL = {"number": 1, "subject_type": 1, "action": 1}
IMAGES = {f"image_{number}": ALL for number in (1, 2, 3)}
TRUTH = "two any walking"


class Judge:
    """A judge with a fixed reply; records its prompts."""

    identity = "fixed"

    def __init__(self, text: str) -> None:
        self.text = text
        self.prompts: list[JudgePrompt] = []

    async def ask(self, prompt: JudgePrompt) -> Reply:
        self.prompts.append(prompt)
        return Reply(prompt.read(self.text), self.text, "judge-1", 10, 5)

    async def close(self) -> None:
        pass


def request(step: float = 3, text: str = "two any walking", target: str = TRUTH) -> pb.ScoreRequest:
    request = pb.ScoreRequest(key="k", text=text, targets=[target])
    request.params["step"] = step
    return request


def drawn(target: str, *images: bytes) -> pb.ScoreRequest:
    request = pb.ScoreRequest(key="k", targets=[target])
    request.images.SetInParent()
    for data in images:
        request.images.images.add(data=data)
    return request


def test_step_1_counts_images():
    result = verdict({**IMAGES, "image_2": {**ALL, "action": 0}, "image_3": {**ALL, "action": 0, "number": 0}})
    assert result.outcome == "scored"
    assert result.score == pytest.approx(1 / 3)
    assert dict(result.scores) == pytest.approx(
        {"number": 2 / 3, "subject_type": 1.0, "action": 1 / 3, "image_1": 1.0, "image_2": 0.0, "image_3": 0.0}
    )


async def test_a_judged_step():
    judge = Judge(json.dumps({**ALL, "number": 0}))
    result = await judged.RULE.read(request(), judge)
    assert (result.outcome, result.score) == ("scored", 0.0)
    assert dict(result.scores) == {"number": 0.0, "subject_type": 1.0, "action": 1.0, "agrees_with_rules": 0.0}
    assert (result.judge.model, result.judge.words) == ("judge-1", judge.text)
    assert result.judge.prompt_sha256 == judge.prompts[0].sha256
    agreed = await judged.RULE.read(request(), Judge(json.dumps(ALL)))
    assert (agreed.score, agreed.scores["agrees_with_rules"]) == (1.0, 1.0)
    described = "Image 1: two cats walking. Image 2: two cats reading. Image 3: one fox walking"
    for text, agrees in ((described, 1.0), (described.replace("one fox", "a wolf"), 0.0)):
        result = await judged.RULE.read(request(1, text, described), Judge(json.dumps(IMAGES)))
        assert (result.score, result.scores["image_3"], result.scores["agrees_with_rules"]) == (1.0, 1.0, agrees)


@pytest.mark.parametrize(
    ("step", "reply", "reason"),
    [
        (3, "", "judge_bad_json"),
        (3, "null", "judge_wrong_schema"),
        (3, "[]", "judge_wrong_schema"),
        (3, "The answer is right.", "judge_bad_json"),
        (3, json.dumps({**ALL, "number": 2}), "judge_wrong_schema"),
        (3, json.dumps({**ALL, "number": True}), "judge_wrong_schema"),
        (3, json.dumps({**ALL, "number": "1"}), "judge_wrong_schema"),
        (3, json.dumps({**ALL, "number": None}), "judge_wrong_schema"),
        (3, json.dumps({"number": 1, "action": 1}), "judge_wrong_schema"),
        (3, json.dumps({**ALL, "overall": 1}), "judge_wrong_schema"),
        (1, json.dumps(ALL), "judge_wrong_schema"),
        (1, json.dumps({**IMAGES, "image_2": None}), "judge_wrong_schema"),
        (1, json.dumps({**IMAGES, "image_4": ALL}), "judge_wrong_schema"),
        (1, json.dumps({"image_1": ALL, "image_2": ALL}), "judge_wrong_schema"),
    ],
)
async def test_unusable_replies_are_unjudged(step: int, reply: str, reason: str):
    result = await judged.RULE.read(request(step), Judge(reply))
    assert (result.outcome, result.reason, result.judge.words) == ("unjudged", reason, reply)
    assert not result.HasField("score")
    assert dict(result.scores) == {}


def test_schemas_are_strict():
    def check(schema: Any) -> None:
        assert schema["additionalProperties"] is False
        assert schema["required"] == list(schema["properties"])
        for part in schema["properties"].values():
            if part["type"] == "object":
                check(part)
            else:
                assert part == {"type": "integer", "enum": [0, 1]}

    for step in (1, 2, 3):
        check(prompt(step, TRUTH, "x").schema)
    check(image_prompt(truth_of(TRUTH), b"").schema)


def test_the_prompt_holds_truth_and_answer():
    text = prompt(3, TRUTH, "The answer is {number}")
    assert "Truth:\ntwo any walking\n" in text.user
    assert "<answer>\nThe answer is {number}\n</answer>" in text.user
    assert len({prompt(step, TRUTH, "x").sha256 for step in (1, 2, 3)}) == 3


async def test_any_is_left_out_of_the_image():
    judge = Judge('{"subject_type": 1}')
    result = await judged_image.RULE.read(drawn("any foxes any", b"first", b"second"), judge)
    assert (result.score, dict(result.scores)) == (1.0, {"subject_type": 1.0})
    assert judge.prompts[0].images == (b"first",)
    assert judge.prompts[0].user.endswith("Wanted:\n- subject type: foxes")
    everything = await judged_image.RULE.read(drawn("any foxes any", b"x"), Judge(json.dumps(ALL)))
    assert everything.outcome == "unjudged"
    with pytest.raises(RequestError, match="wants nothing"):
        await judged_image.RULE.read(drawn("any any any", b"x"), judge)


async def test_no_image_is_no_question():
    judge = Judge("{}")
    for unanswered in (
        drawn("two cats walking"),
        pb.ScoreRequest(key="k", text="Here you are", targets=["two cats walking"]),
    ):
        result = await judged_image.RULE.read(unanswered, judge)
        assert (result.outcome, result.reason) == ("unparsed", "no_image")
    assert judge.prompts == []


@pytest.mark.parametrize("step", [0, 4, 2.5])
async def test_defects_of_the_request(step: float):
    with pytest.raises(RequestError, match="step"):
        await judged.RULE.read(request(step), Judge("{}"))
    bare = pb.ScoreRequest(key="k", text="x")
    bare.params["step"] = 1
    with pytest.raises(RequestError, match="one target"):
        await judged.RULE.read(bare, Judge("{}"))


async def test_a_failing_judge_leaves_the_item_unjudged():
    class Failing(Judge):
        async def ask(self, prompt: JudgePrompt) -> Reply:
            raise JudgeError("judge_timeout", "too slow")

    for rule, item in ((judged.RULE, request()), (judged_image.RULE, drawn("two cats walking", b"x"))):
        result = await rule.read(item, Failing(""))
        assert (result.outcome, result.reason) == ("unjudged", "judge_timeout")
