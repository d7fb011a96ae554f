"""V*-Bench by the paper: the authors' annotations, the appendix's sets, and log-likelihood after the question alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.bench_scoring import prefer, score
from PIL import Image

from lyncean.model.v1 import model_pb2 as model
from orchestrator.benchmarks.vstar.annotations import FOLDERS
from orchestrator.benchmarks.vstar.benchmark import BENCHMARK, VstarSettings
from orchestrator.data.rows import DataError
from orchestrator.errors import ConfigError
from orchestrator.samples import Answer, Sample, Turn, Variant

PAPER = Variant("vstar_bench", "likelihood", settings=VstarSettings(protocol="paper"))
LETTER = Variant("vstar_bench", settings=VstarSettings())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number, name in enumerate(FOLDERS):
        (tmp_path / name).mkdir()
        for stem in ("sa_1", "sa_2", "sa_3"):
            options = [f"The {stem} is {word}." for word in ("right", "wrong", "worse", "worst")]
            boxes = [[564, 142, 155, 157.5], [1, 2, 3, 4]][: number if stem == "sa_1" else 1]
            annotation = {
                "target_object": ["glove", "flag"][: len(boxes)],
                "bbox": boxes,
                "question": f"What is {name} {stem}?",
                "options": options[: 2 if name == "relative_position" else 4],
            }
            (tmp_path / name / f"{stem}.json").write_text(json.dumps(annotation))
            Image.new("RGB", (8, 8), (number * 40, 0, 0)).save(tmp_path / name / f"{stem}.JPG", "JPEG")
    return tmp_path


def samples(folder: Path, variant: Variant) -> list[Sample]:
    return [one for row in BENCHMARK.rows(variant.task, str(folder)) for one in BENCHMARK.samples(row, variant)]


def test_each_task_has_its_categories(folder: Path) -> None:
    categories = {task: [row["category"] for row in BENCHMARK.rows(task, str(folder))] for task in BENCHMARK.tasks}
    assert {task: sorted(set(names)) for task, names in categories.items()} == {
        "vstar_bench": ["direct_attributes", "relative_position"],
        "vstar_bench_direct_attributes": ["direct_attributes"],
        "vstar_bench_relative_position": ["relative_position"],
        "vstar_bench_appendix": ["GPT4V-hard", "OCR"],
    }
    assert BENCHMARK.rows("vstar_bench", str(folder)).count == 6


def test_the_paper_asks_the_question_alone(folder: Path) -> None:
    sample = samples(folder, PAPER)[0]
    call, scoring = sample.turns[0].ask([]), sample.turns[0].scoring
    image, text = call.messages[0].parts
    assert image.image.media_type == "image/jpeg"
    assert text.text == "What is direct_attributes sa_1?"
    assert sorted(call.continuations) == sorted(f"The sa_1 is {word}." for word in ("right", "wrong", "worse", "worst"))
    assert (scoring.rule, scoring.params, scoring.targets) == (
        "likelihood", {"reduction": "mean"}, ("The sa_1 is right.",)
    )  # fmt: skip
    assert scoring.options == call.continuations


def test_the_right_option_is_not_always_the_first(folder: Path) -> None:
    places = {sample.turns[0].scoring.targets[0] for sample in samples(folder, LETTER)}
    assert len(places) > 1
    again = [sample.turns[0].scoring.targets for sample in samples(folder, LETTER)]
    assert again == [sample.turns[0].scoring.targets for sample in samples(folder, LETTER)]


def test_boxes_are_labels(folder: Path) -> None:
    labels = [sample.turns[0].scoring.labels for sample in samples(folder, PAPER)]
    assert [entry["boxes"] for entry in labels] == ["0", "1", "1", "1", "1", "1"]
    assert labels[1]["box"] == "564,142,155,157.5"
    assert labels[1]["targets"] == "glove"


def by_length(turn: Turn) -> Answer:
    """Losses of 1 a token for the right option, of 2 for a wrong one, which is of two tokens and not of eight."""
    return Answer(
        scores=tuple(
            model.ContinuationScore(logprob=-8.0, token_count=8)
            if option in turn.scoring.targets
            else model.ContinuationScore(logprob=-4.0, token_count=2)
            for option in turn.scoring.options
        )
    )


def test_the_mean_over_tokens_decides(folder: Path) -> None:
    rows = list(BENCHMARK.rows("vstar_bench", str(folder)))
    outcome = score(BENCHMARK, rows, PAPER, lambda _, turn: by_length(turn))
    assert outcome.percent("accuracy") == 100.0
    plain = Variant("vstar_bench", "likelihood", settings=VstarSettings())
    assert score(BENCHMARK, rows, plain, lambda _, turn: by_length(turn)).percent("accuracy") == 0.0


def test_ids_come_from_the_list_of_questions(folder: Path) -> None:
    line = {"image": "relative_position/sa_2.jpg", "text": "", "category": "relative_position", "question_id": 117}
    (folder / "test_questions.jsonl").write_text(json.dumps(line) + "\n")
    keys = [sample.key for sample in samples(folder, PAPER)]
    assert "vstar_bench/117" in keys
    assert "vstar_bench/relative_position/sa_1" in keys


def test_the_appendix_is_sliced_by_category(folder: Path) -> None:
    variant = Variant("vstar_bench_appendix", "likelihood", settings=VstarSettings(protocol="paper"))
    rows = list(BENCHMARK.rows(variant.task, str(folder)))
    outcome = score(
        BENCHMARK, rows, variant,
        lambda sample, turn: by_length(turn) if "OCR" in sample.key else prefer(turn.scoring.options, ""),
    )  # fmt: skip
    assert outcome.percent("accuracy", category="OCR") == 100.0
    assert outcome.metric("accuracy", category="GPT4V-hard").denominator == 3


@pytest.mark.parametrize(
    "changed", [{"method": "generate"}, {"settings": VstarSettings(protocol="paper", letters=True)}]
)
def test_the_protocol_is_log_likelihood_of_texts(changed: dict[str, object]) -> None:
    options = {"method": "likelihood", "settings": VstarSettings(protocol="paper"), **changed}
    with pytest.raises(ConfigError, match="protocol=paper scores options' texts"):
        BENCHMARK.needs(Variant("vstar_bench", **options))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: (folder / "OCR/sa_1.JPG").unlink(), "0 images of its name"),
        (lambda folder: (folder / "OCR/sa_1.json").write_text("{"), "is not an annotation"),
        (lambda folder: (folder / "OCR/sa_1.json").write_text('{"question": "?", "options": ["a"]}'), "has 1 options"),
        (lambda folder: (folder / "test_questions.jsonl").write_text("[]"), "is not the list"),
    ],
)
def test_damaged_annotations_are_named(folder: Path, change, message: str) -> None:
    change(folder)
    with pytest.raises(DataError, match=message):
        BENCHMARK.rows("vstar_bench", str(folder))
