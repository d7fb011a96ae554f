"""VOILA by a judge: what it is asked, what its reply comes to, and what it may not do."""

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
    """Replies with given words."""

    identity = "told"

    def __init__(self, words: str) -> None:
        self.words = words
        self.asked: list[JudgePrompt] = []

    async def ask(self, prompt: JudgePrompt) -> Reply:
        self.asked.append(prompt)
        return Reply(prompt.read(self.words), self.words, "judge-1", 10, 5)

    async def close(self) -> None:
        pass


def request(step: float = 3, text: str = "two any walking", target: str = TRUTH) -> pb.ScoreRequest:
    made = pb.ScoreRequest(key="k", text=text, targets=[target])
    made.params["step"] = step
    return made


def drawn(target: str, *images: bytes) -> pb.ScoreRequest:
    made = pb.ScoreRequest(key="k", targets=[target])
    made.images.SetInParent()
    for data in images:
        made.images.images.add(data=data)
    return made


def test_step_1_counts_images():
    given = verdict({**IMAGES, "image_2": {**ALL, "action": 0}, "image_3": {**ALL, "action": 0, "number": 0}})
    assert given.outcome == "scored"
    assert given.score == pytest.approx(1 / 3)
    assert dict(given.scores) == pytest.approx(
        {"number": 2 / 3, "subject_type": 1.0, "action": 1 / 3, "image_1": 1.0, "image_2": 0.0, "image_3": 0.0}
    )


async def test_a_judged_step():
    judge = Judge(json.dumps({**ALL, "number": 0}))
    given = await judged.RULE.read(request(), judge)
    assert (given.outcome, given.score) == ("scored", 0.0)
    assert dict(given.scores) == {"number": 0.0, "subject_type": 1.0, "action": 1.0, "agrees_with_rules": 0.0}
    assert (given.judge.model, given.judge.words) == ("judge-1", judge.words)
    assert given.judge.prompt_sha256 == judge.asked[0].sha256
    agreed = await judged.RULE.read(request(), Judge(json.dumps(ALL)))
    assert (agreed.score, agreed.scores["agrees_with_rules"]) == (1.0, 1.0)
    described = "Image 1: two cats walking. Image 2: two cats reading. Image 3: one fox walking"
    for text, agrees in ((described, 1.0), (described.replace("one fox", "a wolf"), 0.0)):
        given = await judged.RULE.read(request(1, text, described), Judge(json.dumps(IMAGES)))
        assert (given.score, given.scores["image_3"], given.scores["agrees_with_rules"]) == (1.0, 1.0, agrees)


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
    given = await judged.RULE.read(request(step), Judge(reply))
    assert (given.outcome, given.reason, given.judge.words) == ("unjudged", reason, reply)
    assert not given.HasField("score")
    assert dict(given.scores) == {}


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
    asked = prompt(3, TRUTH, "The answer is {number}")
    assert "Truth:\ntwo any walking\n" in asked.user
    assert "<answer>\nThe answer is {number}\n</answer>" in asked.user
    assert len({prompt(step, TRUTH, "x").sha256 for step in (1, 2, 3)}) == 3


async def test_any_is_left_out_of_the_image():
    judge = Judge('{"subject_type": 1}')
    given = await judged_image.RULE.read(drawn("any foxes any", b"first", b"second"), judge)
    assert (given.score, dict(given.scores)) == (1.0, {"subject_type": 1.0})
    assert judge.asked[0].images == (b"first",)
    assert judge.asked[0].user.endswith("Wanted:\n- subject type: foxes")
    everything = await judged_image.RULE.read(drawn("any foxes any", b"x"), Judge(json.dumps(ALL)))
    assert everything.outcome == "unjudged"
    with pytest.raises(RequestError, match="wants nothing"):
        await judged_image.RULE.read(drawn("any any any", b"x"), judge)


async def test_no_image_is_no_question():
    judge = Judge("{}")
    for asked in (
        drawn("two cats walking"),
        pb.ScoreRequest(key="k", text="Here you are", targets=["two cats walking"]),
    ):
        given = await judged_image.RULE.read(asked, judge)
        assert (given.outcome, given.reason) == ("unparsed", "no_image")
    assert judge.asked == []


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

    for rule, asked in ((judged.RULE, request()), (judged_image.RULE, drawn("two cats walking", b"x"))):
        given = await rule.read(asked, Failing(""))
        assert (given.outcome, given.reason) == ("unjudged", "judge_timeout")
