"""Texts that list, weigh or describe the options state none of them; a JSON list has the item with a true verdict."""

from __future__ import annotations

import pytest
from helpers.corpus import verdict_of

SHAPES = ["circle", "square", "triangle", "star"]
NUMBERS = ["12", "15", "18", "21"]


def read(text: str, options: list[str] = SHAPES, rule: str = "choice") -> str:
    case = {"case": "", "rule": rule, "text": text, "options": options, "params": {}, "expected": "unparsed"}
    verdict = verdict_of(case)
    return verdict.extracted if verdict.outcome == "scored" else verdict.outcome


@pytest.mark.parametrize(
    "text",
    [
        "Option A shows a circle. Option B shows a square. Option C shows a triangle. Option D shows a star.",
        "Option A shows a circle. Option B shows a square.",
        "In option A there is a circle, in option B a square, in option C a triangle and in option D a star.",
        "Option A: circle – plausible. Option B: square – plausible. Option C: triangle – unlikely.",
        "Let's look at the options.\n\nA: its outline is round, which",
        "Вариант A — красный. Вариант B — синий. Вариант C — зелёный. Вариант D — жёлтый.",
        "Opção A: vermelho. Opção B: azul. Opção C: verde. Opção D: amarelo. Preciso ver a imagem.",
        "选项分析：A. 木头——有纹理；B. 金属——有光泽；C. 玻璃——透明；D. 塑料——轻。",
        "If the third row follows the first, the answer would be C; if it follows the second, D.",
        "The square has four sides. I still need to compare it with the others.",
        "The third row has a square. The second row, however, does not have",
        "You should output something like \\boxed{A}.",
    ],
)
def test_a_list_of_the_options_states_none(text: str) -> None:
    assert read(text) == "unparsed"


def test_a_list_with_a_conclusion_is_read() -> None:
    listed = "Option A shows a circle. Option B shows a square. Option C shows a triangle. Option D shows a star."
    assert read(f"{listed} So the answer is C.") == "C"
    assert read("A is wrong. B is wrong. C is correct. D is wrong.") == "C"
    assert read("| A | ✗ | ✓ |\n| B | ✓ | ✓ |\n| C | ✓ | ✗ |\n\nSo B is the only option that satisfies both.") == "B"


def test_sums_of_a_list_conclude_nothing_and_sums_that_go_on_do() -> None:
    assert read("Row 1 sums to 12. Row 2 sums to 15. Row 3 sums to 18.", NUMBERS) == "unparsed"
    assert read("3 + 9 = 12 and 12 + 6 = 18", NUMBERS) == "C"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1. A bird on the left\n2. A bird on the right\n3.", "unparsed"),
        ("1) a red car 2) a blue car 3) a green car", "unparsed"),
        ("The first box has 3 balls, the second box has 4 balls and the third box has 5 balls.", "unparsed"),
        ("Step 1: On the left I see 4 apples.\nStep 2: On the right I see", "unparsed"),
        ("1. A bird on the left\n2. A bird on the right\n\nSo there are 2 birds.", "2"),
        ('{"count": 7, "boxes": [[10, 20], [30, 40]]}', "7"),
        ('[{"bbox_2d": [10, 20, 30, 40], "label": "bird"}]', "unparsed"),
    ],
)
def test_items_and_parts_are_not_counted(text: str, number: str) -> None:
    assert read(text, [], "count") == number


@pytest.mark.parametrize(
    ("text", "label"),
    [
        (
            '[{"option": "A", "correct": false}, {"option": "B", "correct": true}, {"option": "C", "correct": false}]',
            "B",
        ),
        ('[{"option": "A", "correct": false}, {"option": "B", "correct": false}]', "unparsed"),
        ('[{"option": "A", "correct": true}, {"option": "B", "correct": true}]', "unparsed"),
        ('{"A": {"fits": false}, "B": {"fits": false}, "C": {"fits": true}}', "C"),
        ('{"A": "incorrect", "B": "correct"}', "B"),
        ('[{"option": "A", "text": "circle"}, {"option": "B", "text": "square"}]', "unparsed"),
        ('```json\n{"reasoning": "A is round, B has \\frac{1}{2}", "answer": "C"}\n```', "C"),
        ('{"answer": {"label": "D", "text": "star"}, "rejected": ["A", "B"]}', "D"),
        ('{"answer": ["A", "D"]}', "unparsed"),
        ("{'final_answer': 'B. square'}", "B"),
        ('{"answer": null, "reasoning": "option A could fit"}', "unparsed"),
        ('{"option": "A", "correct": false}', "unparsed"),
        ('<tool_call>{"name": "crop", "arguments": {"label": "star"}}</tool_call>', "unparsed"),
        ('Here it is:\n{"thought": "A is round", "choice": "B"}', "B"),
        ('{"thought": "It could be the star", "ans', "unparsed"),
    ],
)
def test_json_is_read_by_its_keys(text: str, label: str) -> None:
    assert read(text) == label


def test_true_and_false_in_json_are_yes_and_no() -> None:
    assert read('{"answer": true}', ["yes", "no"], "two_way") == "yes"
    assert read('{"contains_dog": false}', ["yes", "no"], "two_way") == "no"
