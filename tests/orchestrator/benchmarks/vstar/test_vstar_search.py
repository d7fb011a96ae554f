"""`vstar_search`: what is asked and searched, and how searches are held against the boxes."""

from __future__ import annotations

import io
import json
from itertools import islice
from typing import Any

import pytest
from PIL import Image

from lyncean.errors import UserError
from orchestrator.benchmarks.vstar.prompt import INSTRUCTION
from orchestrator.benchmarks.vstar.search import BENCHMARK, SearchSettings
from orchestrator.benchmarks.vstar.searching import MAX_OBJECTS, MISSING, Search, facts, missing_objects, searches
from orchestrator.data.rows import DataError, Row
from orchestrator.samples import Answer, Call, Lookups, ToolResult, Variant, image_part, text_part

TEXT = f"What is the color of the dog?\n(A) red\n(B) blue\n{INSTRUCTION}"


def picture(width: int, height: int, **options: Any) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (width, height), "red").save(buffer, "JPEG", **options)
    return buffer.getvalue()


CROP = picture(8, 8)


def row(data: bytes = b"", **more: Any) -> Row:
    fields = {"text": TEXT, "label": "B", "category": "direct_attributes", "question_id": 1, **more}
    return Row(fields, lambda _: data or picture(400, 200))


def sample(data_row: Row, method: str = "likelihood", objects: Any = "missing") -> Any:
    (planned,) = BENCHMARK.samples(data_row, Variant("vstar_search", method=method, settings=SearchSettings(objects)))
    (turn,) = planned.turns
    assert isinstance(turn.play, Lookups)
    return turn


def result(name: str, *boxes: list[float], patches: int = 3, located: bool = True) -> ToolResult:
    answer = {"object": name, "found": located, "patches": patches, "boxes": boxes, "scores": [0.9] * len(boxes)}
    return ToolResult("call_0", (text_part(json.dumps(answer)), *(image_part(CROP) for _ in boxes)))


def call_texts(call: Call) -> list[str]:
    (message,) = call.messages
    return [part.text if part.image is None else f"<{len(part.image.data)}>" for part in message.parts]


@pytest.mark.parametrize(
    ("answer", "names"),
    [
        ("The dog is blue.", []),
        (f"{MISSING} dog.", ["dog"]),
        (f"Well. {MISSING} the dog, a red car , cup", ["the dog", "a red car", "cup"]),
        (f"{MISSING} , .", []),
        (f"{MISSING} {', '.join(map(str, range(99)))}", [str(number) for number in range(MAX_OBJECTS)]),
    ],
)
def test_missing_objects(answer: str, names: list[str]) -> None:
    assert missing_objects(answer) == names


def test_it_asks_searches_and_asks_with_crops() -> None:
    turn = sample(row())
    first = turn.ask([])
    image = f"<{len(picture(400, 200))}>"
    assert call_texts(first) == [image, "What is the color of the dog?"]
    assert (first.config.max_output_tokens, first.continuations) == (200, ())
    assert turn.play.calls(Answer(text=f"{MISSING} dog, red car.")) == ['{"object": "dog"}', '{"object": "red car"}']
    second = turn.play.follow(
        first, [result("dog", [0, 0, 40, 100]), result("car", [200, 100, 400, 200], [1, 2, 3, 4])]
    )
    crop = f"<{len(CROP)}>"
    assert call_texts(second) == [
        image,
        "Additional visual information to focus on: dog ",
        crop,
        " at location [0.000,0.250,0.100,0.500]; car ",
        crop,
        " at location [0.500,0.500,1.000,0.750]; car ",
        crop,
        " at location [0.003,0.255,0.007,0.260].\nWhat is the color of the dog?",
    ]
    assert second.continuations == ("red", "blue")
    assert turn.scoring.targets == ("blue",)
    assert turn.scoring.params == {"reduction": "mean"}


def test_an_answer_without_missing_objects_leads_to_the_question() -> None:
    turn = sample(row())
    first = turn.ask([])
    assert turn.play.calls(Answer(text="Blue.")) == []
    assert call_texts(turn.play.follow(first, [])) == call_texts(first)
    failed = ToolResult("call_0", (text_part("There is no image 1"),), is_error=True)
    assert call_texts(turn.play.follow(first, [failed])) == call_texts(first)


def test_by_letters_for_models_without_log_likelihood() -> None:
    turn = sample(row(), "generate")
    first = turn.ask([])
    assert call_texts(first)[1] == "What is the color of the dog?"
    second = turn.play.follow(first, [result("dog", [0, 0, 40, 100])])
    assert call_texts(second)[-1].endswith(f"].\nWhat is the color of the dog?\nA. red\nB. blue\n{INSTRUCTION}")
    assert (second.continuations, turn.scoring.rule) == ((), "choice")


def test_places_are_of_the_image_as_it_is_shown() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    turn = sample(row(picture(400, 200, exif=exif)))
    second = turn.play.follow(turn.ask([]), [result("dog", [0, 0, 200, 400])])
    assert " at location [0.250,0.000,0.750,1.000]." in call_texts(second)[-1]


@pytest.mark.parametrize(
    "content",
    [
        (),
        ("not json",),
        ("[1]",),
        ('{"object": "dog", "found": true, "patches": 1, "boxes": [[1, 2, 3, 4]]}',),
        ('{"object": "dog", "found": true, "patches": 1, "boxes": [[1, 2, 3]]}', CROP),
        ('{"object": "dog", "found": true, "patches": "x", "boxes": []}',),
        ('{"object": "dog", "found": true, "patches": Infinity, "boxes": []}',),
        (f'{{"object": "dog", "found": true, "patches": {10**400}, "boxes": []}}',),
        ('{"object": "dog", "found": true, "patches": 1, "boxes": [[1, 2, 3, NaN]]}', CROP),
    ],
)
def test_results_in_another_form_found_nothing(content: tuple[str | bytes, ...]) -> None:
    parts = tuple(text_part(piece) if isinstance(piece, str) else image_part(piece) for piece in content)
    assert searches([ToolResult("call_0", parts)]) == [Search(0, False, ())]


DOG, CAR = [100.0, 100.0, 40.0, 20.0], [300.0, 50.0, 20.0, 20.0]
FOUND_DOG = result("dog", [100, 100, 140, 120], patches=7)


@pytest.mark.parametrize(
    ("results", "boxes", "in_turn", "expected"),
    [
        ([FOUND_DOG], [DOG], True, {"targets": 1, "targets_found": 1, "found": 1, "iou": 1, "search_length": 7}),
        ([FOUND_DOG], [DOG, CAR], True, {"targets": 2, "targets_found": 1, "found": 0.5, "iou": 1, "search_length": 7}),
        ([FOUND_DOG], [CAR, DOG], True, {"targets": 2, "targets_found": 0, "found": 0, "iou": 0}),
        (
            [FOUND_DOG],
            [CAR, DOG],
            False,
            {"targets": 2, "targets_found": 1, "found": 0.5, "iou": 1, "search_length": 7},
        ),
        ([], [DOG], False, {"targets": 1, "targets_found": 0, "found": 0, "iou": 0}),
        ([FOUND_DOG], [], False, {}),
        # Half of the union is not above one half; the best place alone counts; a guess is not found.
        (
            [result("dog", [100, 100, 120, 120])],
            [DOG],
            True,
            {"targets": 1, "targets_found": 0, "found": 0, "iou": 0.5},
        ),
        ([result("dog", [0, 0, 9, 9], DOG)], [DOG], True, {"targets": 1, "targets_found": 0, "found": 0, "iou": 0}),
        (
            [result("dog", [100, 100, 140, 120], located=False)],
            [DOG],
            True,
            {"targets": 1, "targets_found": 0, "found": 0, "iou": 0},
        ),
    ],
)
def test_searches_against_boxes(results: Any, boxes: Any, in_turn: bool, expected: dict[str, float]) -> None:
    assert facts(searches(results), boxes, in_turn=in_turn) == expected


def test_annotated_targets_are_searched_whatever_the_model_says() -> None:
    turn = sample(row(targets=["dog", "blue bag"], boxes=[DOG, CAR]), objects="targets")
    assert turn.play.calls(Answer(text="Blue.")) == ['{"object": "dog"}', '{"object": "blue bag"}']
    assert turn.play.facts([FOUND_DOG, result("bag")])["targets_found"] == 1
    with pytest.raises(DataError, match="names no targets: give the authors' annotations"):
        sample(row(), objects="targets")


def test_mistakes() -> None:
    with pytest.raises(DataError, match="label 'C' names none of its 2 options"):
        sample(row(label="C"))
    with pytest.raises(UserError, match="no published reference"):
        BENCHMARK.needs(Variant("vstar_search", parity=True, settings=SearchSettings()))


def test_synthetic_rows_have_the_boxes_of_what_they_ask_about() -> None:
    for data_row in islice(BENCHMARK.synthetic("vstar_search", 0), 6):
        count = 1 if data_row["category"] == "direct_attributes" else 2
        assert len(data_row["targets"]) == len(data_row["boxes"]) == count
        assert all(name in data_row["text"] for name in data_row["targets"])
    image = Image.open(io.BytesIO(data_row.image() or b""))
    for x, y, width, height in data_row["boxes"]:
        assert 0 <= x < x + width <= image.width
        assert 0 <= y < y + height <= image.height
