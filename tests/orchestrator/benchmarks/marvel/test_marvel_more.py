"""MARVEL with demonstrations and with descriptions."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from dataclasses import replace

import pytest
from helpers.bench_scoring import score, shared_data

from lyncean.errors import UserError
from lyncean.model.v1 import model_pb2 as model
from orchestrator.benchmarks.marvel import benchmark as marvel, described as marvel_described, few_shot
from orchestrator.benchmarks.marvel.families import Pool, families
from orchestrator.data.rows import DataError, Row
from orchestrator.samples import BadRowError, Variant

SHOT = Variant("marvel_few_shot", settings=few_shot.FewShotSettings())


@pytest.fixture(scope="module")
def real() -> list[Row]:
    """Every puzzle with the pool of all of them, whose families are computed once."""
    source = few_shot.BENCHMARK.rows("marvel_few_shot", str(shared_data("marvel", "marvel.parquet")))
    return list(source)


def call(row: Row, variant: Variant = SHOT):
    (sample,) = few_shot.BENCHMARK.samples(row, variant)
    return sample.turns[0].ask([])


def test_families_of_shared_panels(real):
    pool: Pool = real[0]["pool"]
    sizes = Counter(pool.family(row["id"]) for row in real)
    shared = [size for size in sizes.values() if size > 1]
    assert (len(shared), sum(shared)) == (152, 331)


@pytest.mark.parametrize("kind", ["same_pattern", "other_pattern", "mixed_configuration"])
def test_demonstrations_of_every_puzzle(real, kind):
    settings = few_shot.FewShotSettings(shots=2, demonstrations=kind)
    pool: Pool = real[0]["pool"]
    for row in real:
        chosen = few_shot.choose(row, replace(SHOT, settings=settings))
        families_seen = {pool.family(one["id"]) for one in (row, *chosen)}
        assert len(families_seen) == 3, "three puzzles of three families"
        solid = row["pattern"] == "3D-Geometry"
        configurations = [one["task_configuration"] for one in chosen]
        patterns = {one["pattern"] for one in chosen}
        if kind == "other_pattern":
            assert row["pattern"] not in patterns
            assert configurations == ["Sequence", "Sequence"]
        else:
            assert patterns == {row["pattern"]}
            wanted = ["Sequence", "Two-row" if kind == "mixed_configuration" else "Sequence"]
            assert configurations == (["3D", "3D"] if solid else wanted)


def test_demonstrations_depend_on_seed_and_puzzle_alone(real):
    def chosen(row, variant):
        return [one["id"] for one in few_shot.choose(row, variant)]

    first = [chosen(row, SHOT) for row in real[:30]]
    assert [chosen(row, SHOT) for row in reversed(real[:30])] == first[::-1]
    assert [chosen(row, replace(SHOT, seed=1)) for row in real[:30]] != first
    assert len({tuple(one) for one in first}) > 10


def test_prompt_with_demonstrations(real):
    row = real[0]
    (demonstration,) = few_shot.choose(row, SHOT)
    (message,) = call(row).messages
    image, question, worked, target, final = message.parts
    assert (image.image.data, target.image.data) == (demonstration.image(), row.image())
    assert question.text == f"{demonstration['avr_question']}\n{few_shot.INSTRUCTION}"
    assert worked.text == f"{demonstration['explanation']}\nThe answer is choice {demonstration['answer']}."
    assert final.text == f"{row['avr_question']}\n{few_shot.INSTRUCTION}"
    turns = call(row, replace(SHOT, settings=few_shot.FewShotSettings(shots=2, chat_turns=True))).messages
    assert [one.role for one in turns] == [model.ROLE_USER, model.ROLE_ASSISTANT] * 2 + [model.ROLE_USER]


def test_reasoning_from_a_file(tmp_path, real):
    file = tmp_path / "reasoning.jsonl"
    sequences = [row["id"] for row in real if row["task_configuration"] == "Sequence"]
    file.write_text("\n".join(json.dumps({"id": i, "reasoning": f"because {i}"}) for i in sequences))
    settings = few_shot.FewShotSettings(texts=str(file), letters=True)
    assert len(settings.texts_sha256) == 64
    worked = call(real[0], replace(SHOT, settings=settings)).messages[0].parts[2].text
    assert re.fullmatch(r"because \d+\nThe answer is choice [A-D]\.", worked)
    solid = next(row for row in real if row["pattern"] == "3D-Geometry")
    with pytest.raises(BadRowError, match="has no demonstration number 1"):
        call(solid, replace(SHOT, settings=settings))
    with pytest.raises(ValueError, match="has no column reasoning"):
        few_shot.FewShotSettings(texts=str(_write(tmp_path / "bad.jsonl", [{"id": 1, "text": "x"}])))
    with pytest.raises(ValueError, match="give 1 to 8"):
        few_shot.FewShotSettings(shots=0)


def _write(path, rows):
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return path


def test_few_shot_metrics(real):
    outcome = score(few_shot.BENCHMARK, real, SHOT, lambda *_: "First ... The answer is choice 1.")
    assert outcome.percent("AVR") == 24.81
    assert outcome.percent("AVR", pattern="Mathematical") == 27.88


def test_drawn_puzzles_have_demonstrations_and_descriptions():
    rows = list(itertools.islice(few_shot.BENCHMARK.synthetic("marvel_few_shot", 0), 34))
    assert all(len(call(row).messages[0].parts) == 5 for row in rows)
    variant = Variant("marvel_described", settings=marvel_described.DescribedSettings())
    for row in rows:
        (sample,) = marvel_described.BENCHMARK.samples(row, variant)
        text = sample.turns[0].ask([]).messages[0].parts[1].text
        assert "Context panel 1: " in text
        assert "\nChoice 4: " in text


def test_descriptions_from_a_file(tmp_path, real):
    file = _write(
        tmp_path / "texts.jsonl",
        [
            {"id": 1, "description": [f"panel {i}" for i in range(8)]},
            {"id": 2, "description": "Nine panels, all told."},
        ],
    )
    settings = marvel_described.DescribedSettings(descriptions=str(file), image=False, baseline=True)
    variant = Variant("marvel_described", settings=settings)
    keys = [s.key for row in real for s in marvel_described.BENCHMARK.samples(row, variant)]
    assert keys == [f"marvel_described/{i}{end}" for i in (1, 2) for end in ("", ":plain")]
    described, plain = marvel_described.BENCHMARK.samples(real[0], variant)
    (part,) = described.turns[0].ask([]).messages[0].parts
    lines = [
        *(f"Context panel {i}: panel {i - 1}" for i in range(1, 5)),
        *(f"Choice {i}: panel {i + 3}" for i in range(1, 5)),
    ]
    assert (
        part.text
        == "\n".join(lines) + f"\n\n{real[0]['avr_question']}\nAnswer with the number of the choice: 1, 2, 3 or 4."
    )
    assert plain.turns[0].ask([]).messages[0].parts[0].image.data == real[0].image()
    outcome = score(
        marvel_described.BENCHMARK,
        real,
        variant,
        lambda sample, turn: turn.scoring.targets[0] if "plain" not in sample.key else "none of them",
    )
    assert outcome.percent("AVR") == 100
    assert outcome.metric("AVR").denominator == 2
    assert outcome.percent("AVR without description") == 0


def test_description_mistakes(tmp_path, real):
    def first(**settings):
        variant = Variant("marvel_described", settings=marvel_described.DescribedSettings(**settings))
        return list(marvel_described.BENCHMARK.samples(real[0], variant))

    with pytest.raises(DataError, match="--set descriptions=FILE"):
        first()
    short = _write(tmp_path / "short.jsonl", [{"id": 1, "description": ["one", "two"]}])
    with pytest.raises(DataError, match="2 descriptions for 4 context panels and 4 choices"):
        first(descriptions=str(short))
    with pytest.raises(ValueError, match="cannot be read"):
        marvel_described.DescribedSettings(descriptions=str(tmp_path / "gone.jsonl"))
    with pytest.raises(UserError, match="cannot shuffle"):
        marvel_described.BENCHMARK.needs(
            Variant("marvel_described", shuffle_options=True, settings=marvel_described.DescribedSettings())
        )


def test_puzzles_without_images_are_no_demonstrations():
    rows = list(marvel.BENCHMARK.rows("marvel", str(shared_data("marvel", "github"))))
    assert set(families(rows)) == {
        1,
        2,
        3,
        9,
        22,
        24,
        40,
        41,
        42,
        45,
        56,
        57,
        68,
        89,
        90,
        92,
        101,
        134,
        140,
        144,
        156,
        176,
        553,
        554,
    }
