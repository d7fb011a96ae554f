"""Dialogues: true histories, own histories, majorities."""

from __future__ import annotations

import pytest

from lyncean.model.v1 import model_pb2 as model
from orchestrator.benchmarks.reform import dialogs
from orchestrator.benchmarks.reform.benchmark import samples
from orchestrator.benchmarks.reform.settings import ReformSettings
from orchestrator.data.rows import Row
from orchestrator.samples import Answer, BadRowError, Variant

FIELDS = {
    "image_id": 9,
    "questions": ("is it red", "What is it?", "is it BIG?"),
    "answers": ("yes", "no", "a BMW", "a bus", "maybe"),
    "dialog": [
        {"question": 0, "answer": 0, "answer_options": [1, 0]},
        {"question": 1, "answer": 2, "answer_options": [2, 3]},
        {"question": 2, "answer": 4, "answer_options": [0, 1, 4]},
    ],
    "row": 0,
    "first_round": 0,
}


def samples_of(fields=FIELDS, **options):
    settings = ReformSettings(**options.pop("settings", {}))
    variant = Variant("reform_visdial", settings=settings, **options)
    return list(samples(Row(fields, lambda _: b"\xff\xd8\xff image"), variant))


def texts(call):
    return [part.text for message in call.messages for part in message.parts if part.image is None]


def test_offline_rounds_stand_alone_with_the_true_history():
    offline = samples_of(settings={"online": "off", "in_context": "off"})
    assert [sample.key for sample in offline] == [f"reform_visdial/9_{at}" for at in range(3)]
    assert texts(offline[2].turns[0].ask([]))[1:] == [
        "(B) yes",
        "What is it? Options: (A) a BMW; (B) a bus.",
        "(A) a BMW",
        "is it BIG? Options: (A) yes; (B) no; (C) maybe.",
    ]
    assert texts(offline[2].turns[0].ask([]))[0].endswith(" is it red? Options: (A) no; (B) yes.")
    assert [sample.turns[0].scoring.labels["round"] for sample in offline] == ["0", "1", "2"]


def test_capitals():
    sample = samples_of(settings={"online": "off", "capitalize": "on"})[1]
    prompt = texts(sample.turns[0].ask([]))
    assert "Can you see the image? Options: (A) Yes" in prompt[0]
    assert "What is it? Options: (A) A bmw; (B) A bus." in prompt[-1]


def test_likelihood_shows_a_bare_history():
    sample = samples_of(method="likelihood", settings={"online": "off", "in_context": "off"})[1]
    call = sample.turns[0].ask([])
    assert texts(call)[0].endswith(" is it red?")
    assert texts(call)[1:] == ["yes", "What is it?"]
    assert call.continuations == ("a BMW", "a bus")


def test_online_history_is_what_the_model_said():
    (sample,) = samples_of(settings={"in_context": "off"})
    assert [turn.name for turn in sample.turns] == ["0", "1", "2"]
    first, second = Answer(text="(A)"), Answer(text="no idea")
    assert texts(sample.turns[2].ask([first, second]))[1:4] == [
        "(A) no",
        "What is it? Options: (A) a BMW; (B) a bus.",
        "no idea",
    ]
    # A mark beyond the options, and an option's own text.
    assert texts(sample.turns[2].ask([Answer(text="(Z)"), Answer(text="a bus")]))[1::2][:2] == ["(Z)", "(B) a bus"]


def test_online_likelihood():
    (sample,) = samples_of(method="likelihood", settings={"in_context": "off"})
    scores = (model.ContinuationScore(logprob=-4, token_count=4), model.ContinuationScore(logprob=-3, token_count=1))
    assert texts(sample.turns[1].ask([Answer(scores=scores)]))[1] == "yes"
    (sample,) = samples_of(method="likelihood", settings={"in_context": "off", "likelihood_reduction": "mean"})
    assert texts(sample.turns[1].ask([Answer(scores=scores)]))[1] == "no"


def test_the_majority_of_the_repeats_is_heard():
    (sample,) = samples_of(repeats=3, settings={"in_context": "off"})
    assert [turn.name for turn in sample.turns[:4]] == ["0", "0#1", "0#2", "1"]
    assert samples_of(repeats=3, repeat=1) == []
    answers = [Answer(text=text) for text in ("(A)", "(B)", "(B)")]
    for turn, repeat in zip(sample.turns[3:6], range(3), strict=True):
        assert texts(turn.ask([*answers, *[Answer(text="x")] * repeat]))[1] == "(B) yes"
    tied = [Answer(text=text) for text in ("hm", "(A)", "(B)")]
    assert texts(sample.turns[3].ask(tied))[1] == "hm"
    assert {turn.scoring.group for turn in sample.turns} == {"9"}
    (sample,) = samples_of(repeats=3, parity=True)
    assert {turn.scoring.group for turn in sample.turns} == {"9_0", "9_1", "9_2"}


def test_shuffled_tests_agree_on_texts_not_marks():
    (sample,) = samples_of(repeats=5, shuffle_options=True, settings={"in_context": "off"})
    answers = []
    for turn in sample.turns[:5]:
        assert turn.scoring
        answers.append(Answer(text=turn.scoring.targets[0]))
    # The history shows the stored order.
    assert texts(sample.turns[5].ask(answers))[1] == "(B) yes"


def test_marks_of_a_history_are_drawn_once():
    offline = samples_of(repeats=2, settings={"online": "off", "option_mark": "random", "in_context": "off"})
    again = samples_of(repeats=2, repeat=1, settings={"online": "off", "option_mark": "random", "in_context": "off"})
    assert texts(offline[2].turns[0].ask([]))[1:4] == texts(again[2].turns[0].ask([]))[1:4]


def test_subsample():
    assert samples_of({**FIELDS, "row": 1}, settings={"subsample": 1}) == []
    assert len(samples_of(settings={"subsample": 1})) == 1


@pytest.mark.parametrize(
    "dialog",
    [
        [{"question": 99, "answer": 0, "answer_options": [0, 1]}],
        [{"question": 0, "answer": 3, "answer_options": [0, 1]}],
        [{"question": 0}],
    ],
)
def test_a_broken_dialogue_is_rejected(dialog):
    (sample,) = samples_of({**FIELDS, "dialog": dialog})
    with pytest.raises(BadRowError):
        sample.turns[0].ask([])


def test_reading_an_answer_for_the_history():
    options = ("x", "y")
    assert dialogs.answer_text(Answer(text="I say (b)."), options, "sum") == "y"
    assert dialogs.answer_text(Answer(text="(2)"), options, "sum") == "y"
    assert dialogs.answer_text(Answer(text="y"), options, "sum") == "y"
    assert dialogs.answer_text(Answer(text=""), options, "sum") == ""


def test_layout_history_has_the_prefix():
    (sample,) = samples_of(settings={"in_context": "off", "prompt_style": "lynx"})
    (text,) = texts(sample.turns[1].ask([Answer(text="dunno")]))
    assert "\nBot: The answer is dunno\nUser: What is it? Options" in text
