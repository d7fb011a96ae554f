"""MARVEL: rows, the five questions, their images, and metrics on the real labels."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from collections import Counter

import pyarrow
import pytest
from helpers.bench_scoring import prefer, score, shared_data
from helpers.marvel_published import ALWAYS, CONFIGURATIONS, PATTERNS
from PIL import Image, ImageChops
from pyarrow import parquet

from orchestrator.benchmarks.marvel import benchmark as marvel, image as marvel_image
from orchestrator.benchmarks.marvel.benchmark import BENCHMARK, COUNTS, MarvelSettings
from orchestrator.benchmarks.marvel.labels import fine_category, fine_options
from orchestrator.data.rows import DataError, Row
from orchestrator.samples import BadRowError, Variant

PLAIN = Variant("marvel", settings=MarvelSettings())


@pytest.fixture(scope="module")
def real() -> list[Row]:
    return list(BENCHMARK.rows("marvel", str(shared_data("marvel", "marvel.parquet"))))


def questions(row: Row, variant: Variant = PLAIN) -> dict:
    return {sample.key.rpartition(":")[2]: sample for sample in BENCHMARK.samples(row, variant)}


def first_call(sample):
    return sample.turns[0].ask([])


def picture(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


@pytest.mark.parametrize("choice", [1, 2, 3, 4])
def test_always_one_choice(real, choice):
    outcome = score(BENCHMARK, real, PLAIN, lambda *_: str(choice))
    assert outcome.summary.counts.planned == 3850
    metrics = [outcome.percent("AVR")]
    metrics += [outcome.percent("AVR", pattern=name) for name in PATTERNS]
    metrics += [outcome.percent("AVR", configuration=name) for name in CONFIGURATIONS]
    assert tuple(metrics) == ALWAYS[choice]
    assert outcome.metric("AVR").denominator == 770
    assert outcome.metric("AVR choice bias").details["constant"] is True
    assert outcome.percent("Perc^C&F&AVR") == 0


def test_knowing_everything_is_100(real):
    outcome = score(BENCHMARK, real, PLAIN, lambda _, turn: turn.scoring.targets[0])
    assert Counter(verdict.outcome for verdict in outcome.verdicts.values()) == {"scored": 3850}
    for name in ("AVR", "Fine", "Perc^C", "Perc^C&F", "Perc^C&F&AVR"):
        assert outcome.percent(name) == 100
        assert outcome.metric(name).denominator == 770


def test_groups_are_all_or_nothing(real):
    """One coarse question of every third puzzle wrong, the fine one of every fifth, AVR of every seventh."""

    def say(sample, turn):
        number, question = int(turn.scoring.group), sample.key.rpartition(":")[2]
        wrong = {"whole": 3, "fine": 5, "avr": 7}.get(question)
        return "99" if wrong and number % wrong == 0 else turn.scoring.targets[0]

    outcome = score(BENCHMARK, real, PLAIN, say)
    for name, wrong in (("Perc^C", (3,)), ("Perc^C&F", (3, 5)), ("Perc^C&F&AVR", (3, 5, 7)), ("AVR", (7,))):
        expected = sum(all(i % n for n in wrong) for i in range(1, 771))
        assert outcome.percent(name) == round(100 * expected / 770, 2)


def test_likelihood(real):
    variant = Variant("marvel", method="likelihood", settings=MarvelSettings())
    for name, sample in questions(real[0], variant).items():
        call = first_call(sample)
        assert call.continuations == sample.turns[0].scoring.options
        assert name not in marvel.COARSE or call.continuations == COUNTS
    outcome = score(BENCHMARK, real, variant, lambda _, turn: prefer(turn.scoring.options, turn.scoring.targets[0]))
    assert outcome.percent("Perc^C&F&AVR") == 100
    firsts = score(BENCHMARK, real, variant, lambda _, turn: prefer(turn.scoring.options, turn.scoring.options[0]))
    assert firsts.percent("AVR") == 24.81


def test_always_the_first_word_is_better_than_chance(real):
    """The right word is named first more often than not, which the bias metric shows."""
    outcome = score(BENCHMARK, real, PLAIN, lambda _, turn: (turn.scoring.options or ["1"])[0])
    assert outcome.percent("Fine") == 57.66
    bias = outcome.metric("Fine choice bias").details
    assert bias["constant"] is True
    assert bias["majority"] == "A"


def test_question_texts_are_the_data_s_with_one_line_added(real):
    row = real[100]
    texts = {name: first_call(sample).messages[0].parts[1].text for name, sample in questions(row).items()}
    assert texts["avr"] == row["avr_question"] + "\nAnswer with the number of the choice: 1, 2, 3 or 4."
    assert texts["fine"] == row["f_perception_question"] + "\nAnswer with one of these two: intersected, parallel."
    for name, text in zip(marvel.COARSE, row["c_perception_question_tuple"], strict=True):
        assert texts[name] == text + "\nAnswer with a number."
    bare = questions(row, Variant("marvel", settings=MarvelSettings(instruct=False)))["avr"]
    assert first_call(bare).messages[0].parts[1].text == row["avr_question"]


def test_images_are_the_file_s_bytes_but_for_coarse_questions(real):
    for row in (real[0], real[23], real[552]):
        images = {name: first_call(sample).messages[0].parts[0].image.data for name, sample in questions(row).items()}
        assert images["avr"] == images["fine"] == row.image()
        assert images["context"] == images["choices"] == images["whole"]
        before, after = picture(row.image()), picture(images["whole"])
        edge = marvel_image.CHOICE_TOP[row["task_configuration"]] + 190
        assert before.mode == after.mode == "L"
        kept = (0, 0, before.width, edge)
        assert before.crop(kept).tobytes() == after.crop(kept).tobytes()
        assert after.crop((0, edge, *after.size)).getextrema() == (255, 255)
        assert before.crop((0, edge, *before.size)).getextrema()[0] < 50


def test_every_real_image_has_the_known_layout(real):
    empty = 0
    for row in real:
        image = marvel_image.opened(row.image(), row["task_configuration"])
        context = marvel_image.context_boxes(row["task_configuration"], row["c_perception_answer_tuple"][0])
        if row["task_configuration"] != "3D":
            assert image.crop(marvel_image.inner(context[-1])).getextrema()[0] > 200, "the last panel is blank"
        boxes = marvel_image.choice_boxes(image.width, row["task_configuration"])
        empty += sum(image.crop(marvel_image.inner(box)).getextrema()[0] > 128 for box in boxes)
    assert empty == 2, "choice 2 of puzzles 321 and 662 is an empty panel"


def test_shuffled_choices_move_with_their_answer(real):
    variant = Variant("marvel", shuffle_options=True, seed=3, settings=MarvelSettings())
    places = Counter()
    for row in real[:40]:
        plain, mixed = questions(row)["avr"], questions(row, variant)["avr"]
        boxes = [
            marvel_image.inner(box)
            for box in marvel_image.choice_boxes(picture(row.image()).width, row["task_configuration"])
        ]

        def right(sample, boxes=boxes):
            index = int(sample.turns[0].scoring.targets[0]) - 1
            image = picture(first_call(sample).messages[0].parts[0].image.data)
            return image.crop(boxes[index]).tobytes(), index

        assert right(plain)[0] == right(mixed)[0]
        places[right(mixed)[1]] += 1
        assert questions(row, variant)["fine"].turns[0].scoring == questions(row)["fine"].turns[0].scoring
    assert len(places) == 4


def test_letters_in_place_of_digits(real):
    variant = Variant("marvel", settings=MarvelSettings(letters=True))
    row = real[0]
    samples = questions(row, variant)
    texts = {name: first_call(samples[name]).messages[0].parts[1].text for name in ("avr", "fine")}
    assert "(marked by A, B, C, or D). Which choice (either A, B, C, or D) is" in texts["avr"]
    assert texts["avr"].endswith("Answer with the letter of the choice: A, B, C or D.")
    assert "Is the small triangle in choice B in the upper part" in texts["fine"]
    outcome = score(BENCHMARK, real, variant, lambda *_: "A")
    assert outcome.percent("AVR") == 24.81
    assert first_call(samples["avr"]).messages[0].parts[0].image.data != row.image()


def test_a_question_mark_in_the_blank_panel(real):
    for configuration in CONFIGURATIONS:
        row = next(row for row in real if row["task_configuration"] == configuration)
        marked = picture(
            marvel_image.with_question_mark(row.image(), configuration, row["c_perception_answer_tuple"][0])
        )
        before = picture(row.image()).convert("L")
        blank = marvel_image.context_boxes(configuration, row["c_perception_answer_tuple"][0])[-1]
        changed = ImageChops.difference(before, marked).getbbox()
        assert changed
        assert blank[0] < changed[0] < changed[2] < blank[2]
        assert blank[1] < changed[1] < changed[3] < blank[3]
    solid = next(row for row in real if row["task_configuration"] == "3D")
    assert marvel_image.with_question_mark(solid.image(), "3D", 1) == solid.image()
    variant = Variant("marvel", settings=MarvelSettings(question_mark=True))
    plain, marked = (first_call(questions(real[0], setup)["avr"]) for setup in (PLAIN, variant))
    assert plain != marked
    with pytest.raises(ValueError, match="leave one out"):
        MarvelSettings(question_mark=True, panels=True)


def test_panel_by_panel(real):
    variant = Variant("marvel", settings=MarvelSettings(panels=True))
    parts = first_call(questions(real[0], variant)["avr"]).messages[0].parts
    names = [part.text for part in parts if part.text][:-1]
    assert names == [*(f"Context panel {i}:" for i in range(1, 5)), *(f"Choice {i}:" for i in range(1, 5))]
    assert all(picture(part.image.data).size == (180, 180) for part in parts if part.image)
    assert "MULTI_IMAGE" in BENCHMARK.needs(variant)


def test_fine_options_and_categories(real):
    pairs = [(row["f_perception_question"], row["f_perception_answer"], row["f_perception_distractor"]) for row in real]
    sizes = Counter(fine_category(answer, distractor) for _, answer, distractor in pairs)
    assert sizes == {"Quantity": 301, "Color": 41, "Location": 175, "Comparison": 176, "Shape": 77}
    for question, answer, distractor in pairs:
        assert fine_options(question, answer, distractor) == fine_options(question, distractor, answer)
        assert fine_category(answer, distractor) == fine_category(distractor, answer)
    order = fine_options(
        "... 3, or 4). Are the arrows in choice 2 counterclockwise or clockwise?", "clockwise", "counterclockwise"
    )
    assert order == ("counterclockwise", "clockwise")


def test_a_puzzle_that_stands_twice_is_named_before_anything_is_asked(tmp_path):
    table = parquet.read_table(shared_data("marvel", "marvel.parquet")).slice(0, 3)
    parquet.write_table(pyarrow.concat_tables([table, table.slice(1, 1)]), tmp_path / "marvel.parquet")
    with pytest.raises(DataError, match=r"marvel\.parquet: id 2 stands twice"):
        BENCHMARK.rows("marvel", str(tmp_path / "marvel.parquet"))


def test_github_checkout(caplog):
    folder = shared_data("marvel", "github")
    source = BENCHMARK.rows("marvel", str(folder))
    assert source.count == 770
    assert "746 of 770 puzzles have no image" in caplog.text
    rows = list(source)
    assert (
        first_call(questions(rows[0])["avr"]).messages[0].parts[0].image.data == (folder / "Marvel/1.png").read_bytes()
    )
    with pytest.raises(BadRowError, match=r"Marvel/4.png cannot be read"):
        first_call(questions(rows[3])["avr"])
    same = BENCHMARK.rows("marvel", str(folder / "marvel_label.json"))
    assert same.digest == source.digest


def test_github_checkout_without_images(tmp_path):
    shutil.copy(shared_data("marvel", "github", "marvel_label.json"), tmp_path)
    with pytest.raises(DataError, match="has labels but none of the images"):
        BENCHMARK.rows("marvel", str(tmp_path))


def test_corrupt_and_foreign_images_reject_the_sample(tmp_path, real):
    rows = [dict(real[0].fields) | {"image": "bad.png"}, dict(real[1].fields) | {"image": "small.png"}]
    (tmp_path / "rows.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    (tmp_path / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\n broken")
    Image.new("L", (64, 64)).save(tmp_path / "small.png")
    for row, reason in zip(BENCHMARK.rows("marvel", str(tmp_path)), ("bad_image", "unknown_layout"), strict=True):
        assert first_call(questions(row)["avr"]).messages[0].parts[0].image.data == row.image()
        with pytest.raises(BadRowError) as caught:
            first_call(questions(row)["whole"])
        assert caught.value.reason == reason


def test_keys(real):
    assert list(questions(real[16])) == ["avr", "fine", "context", "choices", "whole"]
    assert next(iter(BENCHMARK.samples(real[16], PLAIN))).key == "marvel/17:avr"
    again = Variant("marvel", repeat=1, settings=MarvelSettings())
    assert next(iter(BENCHMARK.samples(real[16], again))).key == "marvel/17:avr#1"


def test_drawn_puzzles_are_the_same_for_the_same_seed():
    rows = [row for row, _ in zip(BENCHMARK.synthetic("marvel", 7), range(36), strict=False)]
    again = [row for row, _ in zip(BENCHMARK.synthetic("marvel", 7), range(36), strict=False)]
    assert [row.fields for row in rows] == [row.fields for row in again]
    assert hashlib.sha256(rows[3].image()).digest() == hashlib.sha256(again[3].image()).digest()
    assert {row["pattern"] for row in rows} == set(PATTERNS)
    assert len({(row["pattern"], row["task_configuration"]) for row in rows}) == 17
    outcome = score(BENCHMARK, rows, PLAIN, lambda _, turn: turn.scoring.targets[0])
    assert outcome.percent("Perc^C&F&AVR") == 100


def test_drawn_choices_all_differ():
    for row, _ in zip(BENCHMARK.synthetic("marvel", 1), range(51), strict=False):
        image = marvel_image.opened(row.image(), row["task_configuration"])
        boxes = marvel_image.choice_boxes(image.width, row["task_configuration"])
        assert len({image.crop(marvel_image.inner(box)).tobytes() for box in boxes}) == 4, row.fields
        assert row["f_perception_answer"] != row["f_perception_distractor"]
        assert fine_options(row["f_perception_question"], row["f_perception_answer"], row["f_perception_distractor"])


def test_some_questions_only(real):
    variant = Variant("marvel", settings=MarvelSettings(questions="coarse, fine"))
    assert list(questions(real[0], variant)) == ["fine", *marvel.COARSE]
    assert [spec.name for spec in BENCHMARK.metrics(variant)] == ["Fine", "Perc^C", "Perc^C&F", "Fine choice bias"]
    with pytest.raises(ValueError, match="give avr, fine or coarse"):
        MarvelSettings(questions="all")


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("answer", 5, "puzzle 1: answer 5 is none of its 4 choices"),
        ("c_perception_answer_tuple", [5, 4], "puzzle 1: 3 coarse questions and 2 counts"),
    ],
)
def test_bad_rows_are_named(real, column, value, message):
    row = Row({**real[0].fields, column: value}, real[0].load)
    with pytest.raises(DataError, match=message):
        list(BENCHMARK.samples(row, PLAIN))
