"""voila_wd and voila_nd: prompts, chaining, scoring arithmetic, and a model that knows the truth."""

from __future__ import annotations

import io
import json
import re
import sys
from fractions import Fraction
from itertools import islice

import pytest
from helpers.bench_scoring import score, shared_data
from helpers.engine_cluster import HERE, Cluster, Server
from helpers.voila_server import answer_to
from PIL import Image

from lyncean.model.v1 import model_pb2 as model
from orchestrator.benchmarks.voila import benchmark as voila
from orchestrator.benchmarks.voila.benchmark import BENCHMARK, VoilaSettings
from orchestrator.benchmarks.voila.source import identify, open_voila
from orchestrator.benchmarks.voila.synthetic import draw
from orchestrator.benchmarks.voila.texts import SPECS
from orchestrator.data.rows import Row
from orchestrator.samples import Answer, BadRowError, NoAnswerError, Variant

WD, ND = (Variant(task, settings=VoilaSettings()) for task in ("voila_wd", "voila_nd"))
PROPERTIES = ("number", "subject_type", "action")


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return list(islice(BENCHMARK.synthetic("voila_wd", 3), 57))


def sample_of(row: Row, **settings: object):
    (sample,) = BENCHMARK.samples(row, Variant("voila_wd", settings=VoilaSettings(**settings)))
    return sample


def text_of(call) -> str:
    return "".join(part.text for message in call.messages for part in message.parts)


def test_prompts_are_the_readmes():
    """Any change of a prompt is a change of the benchmark."""
    assert (*voila.prompts("voila_wd"), voila.prompts("voila_nd")[2]) == README
    assert voila.GENERATE == "Generate the image based on the following description {output}."
    assert voila.prompts("voila_nd")[:2] == README[:2]


_APPLY = (
    "Apply the identified unchanged and changed properties to Image 3 to predict the fourth image. Give me the answer "
    "for the fourth image in the format of 'The answer is number = {number}, subject = {subject}, action = {action}'. "
    "Use the following rules to determine the properties for the fourth image: 1. If a property remains constant "
    "between Image 1 and Image 2, the property in the fourth image will have the same value as the property from Image "
    "3. 2. If a property (excluding number of subjects) changes between Image 1 and Image 2 and is the same in Image 1 "
    "and Image 3, set the property value from Image 2 to the fourth image.%s 3. To determine the number of subjects in "
    "the fourth image, apply the increase or decrease rate observed from Image 1 to Image 2 to the number of subjects "
    "in Image 3.%s"
)
README = (
    "Describe the content of the first three images in one sentence using the count of subjects and actions in the "
    "format of 'Image : Description'",
    "Identify the changed and unchanged properties observed between the first and second images, focusing on count of "
    "subjects, subject types, and action properties. For the count of subjects, consider the change in either increase "
    "or decrease.",
    _APPLY % (" Otherwise, set it to 'any'.", " If the result is less than one, set the number property to 'any'."),
    _APPLY % ("", ""),
)


def test_the_steps_are_one_growing_text(rows):
    sample = sample_of(rows[0])
    assert [turn.name for turn in sample.turns] == ["step1", "step2", "step3"]
    assert sample.item_key(sample.turns[1]) == f"voila_wd/{rows[0]['id']}:step2"
    first, second, third = README[:3]
    answers = [Answer(text="A1"), Answer(text="A2\n"), Answer(text="A3")]
    calls = [turn.ask(answers[:count]) for count, turn in enumerate(sample.turns)]
    assert [text_of(call) for call in calls] == [
        f"{first} ",
        f"{first} A1 {second} ",
        f"{first} A1 {second} A2\n {third} ",
    ]
    for call in calls:
        (message,) = call.messages
        assert [part.image is not None for part in message.parts] == [True, True, True, False]
        assert [part.image.data for part in message.parts[:3]] == [rows[0].image(f"image{n}") for n in (1, 2, 3)]
        assert (call.config.max_output_tokens, call.config.temperature) == (2048, 0.0)


def test_step_3_alone(rows):
    sample = sample_of(rows[0], first_step=3)
    (turn,) = sample.turns
    assert sample.item_key(turn) == sample_of(rows[0]).item_key(sample_of(rows[0]).turns[2])
    assert text_of(turn.ask([])) == f"{README[2]} "
    assert turn.scoring == sample_of(rows[0]).turns[2].scoring
    specs = BENCHMARK.metrics(Variant("voila_wd", settings=VoilaSettings(first_step=3)))
    assert {spec.name.partition(":")[0] for spec in specs} == {"step 3"}


@pytest.mark.parametrize("first_step", [1, 3])
def test_true_earlier_steps_stand_in_place_of_the_model_s_own(rows, first_step):
    sample = sample_of(rows[0], true_steps=True, first_step=first_step)
    identity = identify(rows[0].fields)
    described, related, _ = voila.truths(identity.question)
    call = sample.turns[-1].ask([Answer(text="wrong")] * (3 - first_step))
    assert text_of(call) == f"{README[0]} {described} {README[1]} {related} {README[2]} "
    drawn = sample_of(rows[0], true_steps=True, steps=4).turns[3].ask([Answer(text="wrong")] * 3)
    assert "wrong" not in text_of(drawn)


@pytest.mark.parametrize("settings", [{"first_step": 4}, {"first_step": 0}, {"first_step": 3, "steps": 2}])
def test_a_first_step_that_is_not_asked_is_refused(settings):
    with pytest.raises(ValueError, match="first_step is"):
        VoilaSettings(**settings)


def test_chat_turns(rows):
    call = sample_of(rows[0], chat_turns=True).turns[2].ask([Answer(text="A1"), Answer(text="A2")])
    roles = [message.role for message in call.messages]
    assert roles == [model.ROLE_USER, model.ROLE_ASSISTANT] * 2 + [model.ROLE_USER]
    assert [message.parts[-1].text for message in call.messages] == [README[0], "A1", README[1], "A2", README[2]]
    assert sum(part.image is not None for message in call.messages for part in message.parts) == 3


def test_collage(rows):
    call = sample_of(rows[0], collage=True).turns[0].ask([])
    picture, text = call.messages[0].parts
    assert Image.open(io.BytesIO(picture.image.data)).size == (3 * 256 + 100, 256)
    assert text.text == f"{README[0]} "
    ready = Row(rows[0].fields, lambda column: b"\x89PNG ready" if column == "collage" else rows[0].image(column))
    assert sample_of(ready, collage=True).turns[0].ask([]).messages[0].parts[0].image.data == b"\x89PNG ready"


def test_step_4_asks_for_an_image_of_what_step_3_said(rows):
    sample = sample_of(rows[0], steps=4)
    said_so = [Answer(text="1"), Answer(text="2"), Answer(text="number = {two}, subject = cats")]
    call = sample.turns[3].ask(said_so)
    assert text_of(call) == "Generate the image based on the following description number = {two}, subject = cats."
    assert call.modality == model.MODALITY_IMAGE
    assert sample.turns[3].scoring.rule == "judge_voila_image"
    with pytest.raises(NoAnswerError) as caught:
        sample.turns[3].ask([*said_so[:2], Answer(text=" ")])
    assert caught.value.reason == "no_answer"
    needs = {
        frozenset(settings.items()): BENCHMARK.needs(Variant("voila_wd", settings=VoilaSettings(**settings)))
        for settings in ({}, {"steps": 4}, {"collage": True})
    }
    assert needs == {
        frozenset(): ("IMAGE_INPUT", "MULTI_IMAGE"),
        frozenset({("steps", 4)}): ("IMAGE_INPUT", "MULTI_IMAGE", "IMAGE_OUTPUT"),
        frozenset({("collage", True)}): ("IMAGE_INPUT",),
    }


def test_steps_setting(rows):
    assert [turn.name for turn in sample_of(rows[0], steps=1).turns] == ["step1"]
    for steps in (0, 5):
        with pytest.raises(ValueError, match="steps is 1 to 4"):
            VoilaSettings(steps=steps)


def test_truth_is_the_tables_own_words(rows):
    for row in rows:
        sample = sample_of(row, judge=True)
        assert [turn.scoring.targets for turn in sample.turns] == [
            (row["combined_description"],),
            (row["Real_relations"],),
            (row["desc_im4"],),
        ]
        assert {turn.scoring.rule for turn in sample.turns} == {"judge_voila"}
        assert {turn.scoring.labels["rule"] for turn in sample.turns} == {str(row["rule"])}
        assert {turn.scoring.group for turn in sample.turns} == {row["id"]}


def test_a_row_that_contradicts_itself_is_rejected_in_sight(rows):
    bad = Row({**rows[0].fields, "rule": 19}, rows[0].load)
    sample = sample_of(bad)
    assert len(sample.turns) == 3
    for turn in sample.turns:
        with pytest.raises(BadRowError, match="its rule is 19") as caught:
            turn.ask([])
        assert caught.value.reason == "inconsistent_row"


def knowing(wrong: str = ""):
    """Answers as one who knows the truth, of the sample's own targets, but one property."""

    def say(sample, turn):
        number = sample.key.partition("/")[2]
        prompt = {"step1": README[0], "step2": README[1], "step3": README[2]}[turn.name]
        return answer_to(KNOWN[number], prompt, wrong)

    return say


KNOWN: dict = {}


@pytest.fixture(scope="module", autouse=True)
def _known(rows):
    KNOWN.update({row["id"]: identify(row.fields).question for row in rows})


def test_knowing_everything_is_100(rows):
    outcome = score(BENCHMARK, rows, WD, knowing())
    assert outcome.summary.counts.scored == outcome.summary.counts.planned == 171
    for step in (1, 2, 3):
        for name in ("all three", "number", "subject type", "action"):
            assert outcome.percent(f"step {step}: {name}") == 100
    for rule in range(1, 20):
        assert outcome.percent("step 3: all three", rule=str(rule)) == 100
    assert {outcome.metric("step 3: all three", distractions=str(n)).denominator for n in (0, 1, 2)} == {21, 27, 9}


@pytest.mark.parametrize("wrong", PROPERTIES)
def test_knowing_all_but_one_property(rows, wrong):
    outcome = score(BENCHMARK, rows, WD, knowing(wrong))
    for step in (1, 2, 3):
        assert outcome.percent(f"step {step}: all three") == 0
        for prop in PROPERTIES:
            assert outcome.percent(f"step {step}: {prop.replace('_', ' ')}") == (0 if prop == wrong else 100)
    kind = {"number": ("S", "A", "A'", "D")}.get(wrong, ("S", "C", "D"))
    for value in kind:
        assert outcome.percent(f"step 3: {wrong.replace('_', ' ')}", **{f"{wrong}_rule": value}) == 0


def test_step_1_counts_images(rows):
    """Image 2's number is wrong in every question, image 3's action in every second."""

    def say(sample, turn):
        question = KNOWN[sample.key.partition("/")[2]]
        if turn.name != "step1":
            return "nothing of use"
        first, second, third = question.images
        second = second._replace(number=(second.number + 1) % 4)
        if list(KNOWN).index(sample.key.partition("/")[2]) % 2:
            third = third._replace(action=(third.action + 1) % 13)
        return answer_to(question._replace(images=(first, second, third)), README[0])

    outcome = score(BENCHMARK, rows, WD, say)
    odd = len(rows) // 2
    images = 3 * len(rows)
    assert outcome.metric("step 1: number").value == pytest.approx(100 * Fraction(2, 3))
    assert outcome.metric("step 1: action").value == pytest.approx(100 * Fraction(images - odd, images))
    assert outcome.metric("step 1: subject type").value == pytest.approx(100)
    assert outcome.metric("step 1: all three").value == pytest.approx(100 * Fraction(images - len(rows) - odd, images))
    assert outcome.summary.counts.unparsed == 2 * len(rows)
    assert outcome.percent("step 2: number") == outcome.percent("step 3: all three") == 0


def test_metrics_of_a_judged_run_and_of_step_4():
    judged = {
        spec.name: spec for spec in BENCHMARK.metrics(Variant("voila_wd", settings=VoilaSettings(steps=4, judge=True)))
    }
    assert {f"step {step}: judge agrees with rules" for step in (1, 2, 3)} <= set(judged)
    assert "step 4: judge agrees with rules" not in judged
    # A property that may be anything is not looked for in an image, so its questions do not count.
    assert "D" not in judged["step 4: number"].where["number_rule"].values
    assert "number_rule" not in judged["step 3: number"].where
    assert not any("judge" in spec.name for spec in BENCHMARK.metrics(WD))


def test_answering_any_everywhere_is_right_of_distractions_only(rows):
    outcome = score(BENCHMARK, rows, WD, lambda *_: "The answer is number = any, subject = any, action = any")
    for prop in PROPERTIES:
        name = f"step 3: {prop.replace('_', ' ')}"
        assert outcome.percent(name, **{f"{prop}_rule": "D"}) == 100
        assert outcome.percent(name, **{f"{prop}_rule": "S"}) == 0
    assert outcome.percent("step 3: all three") == 0


def test_the_published_questions_answered_by_their_own_words(tmp_path):
    table = shared_data("voila", "VOILA_ND_Testing_No_Distraction_LLM_3.6K.csv")
    published = list(open_voila("voila_nd", f"{table},images=drawn"))
    outcome = score(BENCHMARK, published, ND, lambda _, turn: turn.scoring.targets[0])
    assert outcome.summary.counts.planned == outcome.summary.counts.scored == 3 * 3689
    for step in (1, 2, 3):
        assert outcome.percent(f"step {step}: all three") == 100
        assert outcome.metric(f"step {step}: all three", rule="9").denominator == 527


def test_all_728_drawings_differ():
    drawings = {draw.__wrapped__(spec, size=48): spec for spec in SPECS}
    assert len(drawings) == 728
    assert draw.__wrapped__(SPECS[0], size=48) in drawings, "drawing again gives the same bytes"
    assert draw(SPECS[0], 1) != draw(SPECS[0])
    assert Image.open(io.BytesIO(draw(SPECS[0]))).size == (256, 256)


def server(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, wrong: str = "") -> Server:
    monkeypatch.setenv("VOILA_ROWS", "19")
    monkeypatch.setenv("VOILA_WRONG", wrong)
    command = [sys.executable, str(HERE / "voila_server.py")]
    started = Server(cluster.folder / f"model{len(cluster.servers)}", command).start()
    cluster.servers.append(started)
    return started


def metrics(cluster: Cluster, run: str) -> dict[str, float]:
    entries = json.loads(cluster.results(run))["tasks"]["voila_wd"]["metrics"]
    return {metric["name"]: metric["value"] for metric in entries if not metric.get("labels")}


def all_scored(planned: int) -> dict[str, int]:
    return {
        **dict.fromkeys(("unparsed", "refused", "rejected", "unjudged", "failed"), 0),
        **{"planned": planned, "scored": planned},
    }


OPTIONS = ("--task", "voila_wd", "--limit", "19")


def test_a_model_that_knows_by_looking(cluster: Cluster, shared_scorer: Server, monkeypatch: pytest.MonkeyPatch):
    """Real servers, real images: the model tells them by their bytes alone, and lies about the actions."""
    cluster.eval("run", [server(cluster, monkeypatch, "action")], shared_scorer, *OPTIONS)
    assert cluster.counts("run", "voila_wd") == all_scored(57)
    for name, value in metrics(cluster, "run").items():
        expected = 0 if re.search(r"action|all three", name) else 100
        assert value == pytest.approx(expected), name


def test_all_four_steps_by_a_judge(cluster: Cluster, monkeypatch: pytest.MonkeyPatch):
    """The model knows and draws, and a judge that compares words agrees with the rules."""
    knowing = server(cluster, monkeypatch)
    folder = cluster.folder / "judged"
    judged = Server(folder, [sys.executable, "-m", "scorer", "serve", "--judge", f"grpc:{knowing.address}"]).start()
    cluster.servers.append(judged)
    cluster.eval("run", [knowing], judged, *OPTIONS, "--set", "judge=true", "--set", "steps=4")
    assert cluster.counts("run", "voila_wd") == all_scored(76)
    values = metrics(cluster, "run")
    assert len(values) == 4 * 4 + 3
    assert values == pytest.approx(dict.fromkeys(values, 100))
    assert {line["judge"]["model"] for line in cluster.lines("run", "verdicts.jsonl")} == {"knowing"}


@pytest.mark.full
def test_step_4_by_an_openai_compatible_endpoint(cluster: Cluster, monkeypatch: pytest.MonkeyPatch):
    """The endpoint draws what step 3 said, and grades it as the judge; both through the proxy."""
    monkeypatch.setenv("VOILA_ENDPOINT", "1")
    url = f"http://{server(cluster, monkeypatch).address}/v1"
    monkeypatch.delenv("VOILA_ENDPOINT")
    command = [sys.executable, "-m", "model_server", "serve", "--backend", "openai", "--model", "m", "--base-url", url]
    proxy = Server(cluster.folder / "proxy", [*command, "--image-output", "chat"]).start()
    command = [sys.executable, "-m", "scorer", "serve", "--judge", f"grpc:{proxy.address}"]
    judged = Server(cluster.folder / "judged", command).start()
    cluster.servers += [proxy, judged]
    options = ("--task", "voila_wd", "--limit", "3", "--set", "judge=true", "--set", "steps=4")
    cluster.eval("run", [proxy], judged, *options)
    assert cluster.counts("run", "voila_wd") == all_scored(12)
    values = {name: value for name, value in metrics(cluster, "run").items() if name.startswith("step 4")}
    assert values == pytest.approx(dict.fromkeys(values, 100))
    assert values
