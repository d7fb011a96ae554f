"""Reads VOILA's steps like a careful person."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.errors import RequestError
from scorer.rules.voila.changes import changes
from scorer.rules.voila.properties import RULE, truth_of
from scorer.rules.voila.vocabulary import canonical, described, value_of

IMAGES = (
    "Image 1: two hamsters carrying something. Image 2: two hamsters walking. Image 3: four cats carrying something"
)
CHANGES = (
    "Number is changed from one to two. Action is changed from reading to eating food. "
    "Subject type remains constant senior man. "
)
PROPERTIES = ("number", "subject_type", "action")


def read(step: int, text: str, target: str) -> pb.Verdict:
    request = pb.ScoreRequest(key="k", text=text, targets=[target])
    request.params["step"] = step
    return RULE.read(request)


def right(verdict: pb.Verdict) -> set[str]:
    return {name for name in PROPERTIES if verdict.scores[name] == 1}


@pytest.mark.parametrize(
    "text",
    [
        IMAGES,
        "**Image 1:** Two hamsters carrying boxes\n**Image 2:** Two hamsters "
        "walking\n**Image 3:** Four cats carrying bags",
        "Image : Two hamsters carrying a log\nImage : Two hamsters walking\nImage : Four cats carrying a log",
        "The first image shows two hamsters carrying a log, the second image shows two hamsters walking, and the third "
        "image depicts four cats carrying baskets.",
        "1. Two hamsters carrying a box.\n2. Two hamsters walking.\n3. Four cats carrying a box.",
        "Two hamsters carrying a box.\nTwo hamsters walking.\nFour cats carrying a box.",
        "Two hamsters carrying a box. Two hamsters walking. Four cats carrying a box.",
        "Image 1: 2 hamsters carrying something; Image 2: 2 hamsters walking; Image 3: 4 cats carrying something",
        "Image 1: Count of subjects: 2, Subjects: hamsters, Action: carrying.\nImage 2: Count: 2; Subject: hamsters; "
        "Action: walking\nImage 3: Count of subjects = 4, subject type = cats, action = carrying",
        '{"image_1": {"number": "two", "subject": "hamsters", "action": "carrying '
        'something"}, "image_2": {"number": 2, '
        '"subject": "hamsters", "action": "walking"}, "image_3": {"number": 4, "subject": "cats", "action": "carry"}}',
        "In Image 1, there are two hamsters carrying a stick together. In Image 2, the same two hamsters are walking "
        "side by side. In Image 3, there are four cats, each carrying a bag.",
        "Image 3: Four cats carrying something. Image 1: two hamsters carrying it. Image 2: two hamsters walking.",
        "Image 1:\n- Number of subjects: Two\n- Subject: Hamsters\n- Action: "
        "Carrying\n\nImage 2:\n- Number of subjects: "
        "Two\n- Subject: Hamsters\n- Action: Walking\n\nImage 3:\n- Number of subjects: Four\n- Subject: Cats\n"
        "- Action: Carrying items",
        "Image 1: A pair of mice carry a pumpkin\nImage 2: A couple of gerbils "
        "stroll\nImage 3: Four kittens carrying it",
        "Image 1: two hamsters carrying a bag while walking. Image 2: two hamsters walking with a bag. Image 3: four "
        "cats carrying a bag.",
        IMAGES + ". Image 4: one dog swimming",
        "1: two hamsters carrying a bag, 2: two hamsters walking, 3: four cats carrying a bag",
        "The first image shows two hamsters carrying a log, the second shows two hamsters walking, and the third shows "
        "four cats carrying logs.",
        "Image 1: Two hamsters (animals) are carrying a bag. Image 2: The animals are two hamsters who walk. Image 3: "
        "Four cats (animal type) are carrying bags.",
    ],
)
def test_step_1_right(text):
    verdict = read(1, text, IMAGES)
    assert (verdict.outcome, verdict.score) == ("scored", 1.0)
    assert right(verdict) == set(PROPERTIES)
    assert {name: verdict.scores[name] for name in ("image_1", "image_2", "image_3")} == dict.fromkeys(
        ("image_1", "image_2", "image_3"), 1.0
    )


@pytest.mark.parametrize(
    ("text", "number", "subject", "action", "images"),
    [
        ("Image 1: two hamsters carrying a bag. Image 2: two hamsters walking.", 2, 2, 2, 2),
        ("Image 1: 3 hamsters carrying a bag. Image 2: two dogs walking. Image 3: four cats running", 2, 2, 2, 0),
        (
            "Image 1: hamsters carrying a bag. Image 2: two animals walking. Image 3: four cats or dogs carrying",
            2,
            1,
            3,
            0,
        ),
        ("Two hamsters are carrying something.", 0, 0, 0, 0),
        ("Image 2: two hamsters walking", 1, 1, 1, 1),
        (
            "Image 1: walking two hamsters carrying a bag. Image 2: two hamsters run. Image 3: four cats carry",
            3,
            3,
            1,
            1,
        ),
    ],
)
def test_step_1_counts_by_image(text, number, subject, action, images):
    verdict = read(1, text, IMAGES)
    assert [verdict.scores[name] for name in PROPERTIES] == pytest.approx([number / 3, subject / 3, action / 3])
    assert verdict.score == pytest.approx(images / 3)


@pytest.mark.parametrize(
    "text",
    [
        CHANGES,
        "The count of subjects increased from one to two. The subject type remains the same (senior man). The action "
        "changed from reading to eating.",
        "**Changed properties:**\n- Count of subjects: from 1 to 2 (increase)\n- Action: "
        "from reading to eating food\n\n"
        "**Unchanged properties:**\n- Subject type: senior men",
        "Changed: count of subjects (1 → 2), action (reading → eating). Unchanged: subject type (senior man).",
        "Unchanged: subject type. Changed: count of subjects, action.",
        "The subject type remains unchanged, while the count of subjects and action have changed.",
        "Between the first and second images, the number of subjects and the action change, but the subject type stays "
        "the same.",
        "Count: increase\nSubject type: unchanged\nAction: changed",
        "1. Count of Subjects: Increased from 1 to 2.\n2. Subject Type: Unchanged "
        "(senior men).\n3. Action: Changed from "
        "reading to eating.",
        "- Number: 1 -> 2\n- Subject: senior man -> senior men\n- Action: reading -> eating",
        "The changed properties between image 1 and image 2 are the count of subjects and the action. The unchanged "
        "property is the subject type.",
        "The unchanged property is the subject type, and the changed properties are the count and the action.",
        "There is an increase in the count of subjects and a change in action from "
        "reading to eating; there is no change "
        "in the subject type.",
        "Identify changed and unchanged properties:\nCount of subjects: Changed (increase)\nSubject types: Unchanged\n"
        "Action: Changed",
        "- Count of subjects: Changed from one in Image 1 to two in Image 2 (an increase of 1).\n- Subject types: "
        "Unchanged (both are senior men).\n- Action: Changed from reading in Image 1 to eating food in Image 2.",
        "| Property | Image 1 | Image 2 | Status |\n|---|---|---|---|\n| Count | 1 | 2 | Changed |\n"
        "| Subject type | senior man | senior men | Unchanged |\n| Action | reading | eating | Changed |",
        "Number of subjects does not remain the same. The subject type does not change. Actions differ.",
        "Count: 1 to 2\nSubject types: no change\nActions: Reading to eating",
        "The number doubled. The action is not the same. The subject type isn't changed.",
        "The number and the action change. Everything else remains the same.",
        "The count of subjects increased from one to two, the action changed, while the subject type (senior men) "
        "remained unchanged.",
        "The subject type (senior man) and nothing else is unchanged; number changes 1→2, action (reading) changes.",
    ],
)
def test_step_2_right(text):
    verdict = read(2, text, CHANGES)
    assert (verdict.outcome, verdict.score) == ("scored", 1.0)
    assert right(verdict) == set(PROPERTIES)


@pytest.mark.parametrize(
    "text",
    [
        "The properties that changed are number and action, and the subject type is constant.",
        "The properties that changed are number and action, the subject type remains the same.",
        "The properties that changed between the images are the count of subjects (one to two) and the action (reading "
        "to eating), the subject type remains the same.",
        "The properties that changed from image 1 to image 2 are number and action. The subject type is constant.",
        "The changed properties are number and action, and the subject type is constant.",
        "Changed properties: number and action, and the subject type is constant.",
        "What changed is the count of subjects and the action, the subject type is the same.",
        "The property that did not change is the subject type, and the number and action changed.",
        "Properties that remain the same are subject type, and properties that changed are number and action.",
        "Number and action are the changed properties, subject type is the unchanged one.",
    ],
)
def test_step_2_a_list_ends_where_another_state_begins(text):
    assert right(read(2, text, CHANGES)) == set(PROPERTIES)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The property that changed is the number, and the action and subject type are constant.", "CUU"),
        ("The number changed, and the action and subject type remained the same.", "CUU"),
        ("The properties that did not change are the number and the action, and the subject type changed.", "UCU"),
        ("The properties that changed are number, subject type and action.", "CCC"),
        ("The subject type has not changed, but the count and the action have.", "CUC"),
        ("The subject type does not change. The number and action do.", "CUC"),
        ("The subject type remains the same, but the number and action do not.", "CUC"),
        ("The count of subjects and the action have changed, but the subject type hasn't.", "CUC"),
        ("There is a change in the number of subjects and action, but not in the subject type.", "CUC"),
    ],
)
def test_step_2_lists_of_one_and_verbs_left_out(text, expected):
    stated = changes(text)
    assert "".join("C" if stated[prop].changed else "U" for prop in ("number", "subject_type", "action")) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "The number decreased from two to one. The action changed. Subject type constant.",
            {"subject_type", "action"},
        ),
        ("The count decreased. The action changed. The subject type is the same.", {"subject_type", "action"}),
        ("The count changed from one to three. The action changed. Same subject type.", {"action", "subject_type"}),
        ("Number and action changed from reading to running, subject type did not change", {"number", "subject_type"}),
        ("Number changed. Action changed. Subject type remains constant: boys", {"number", "action"}),
        ("Number changed. Number unchanged. Action changed.", {"action"}),
        ("The number and action and subject type remain the same.", {"subject_type"}),
        ("The subject type changed, the count changed, the action changed", {"number", "action"}),
        ("The action changed.", {"action"}),
        ("No change in count. No change in action. Subject type unchanged", {"subject_type"}),
        ("They go from reading to eating.", {"action"}),
        ("The only change is in the action.", {"action", "subject_type"}),
        ("Everything remains the same.", {"subject_type"}),
        ("All properties have changed.", {"number", "action"}),
        ("Not all properties have changed. The number changed.", {"number"}),
    ],
)
def test_step_2_partly(text, expected):
    verdict = read(2, text, CHANGES)
    assert right(verdict) == expected
    assert verdict.score == 0.0


FOUR_ANY = "four any walking"
BOYS = "two male children driving a car"


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("The answer is number = four, subject = any, action = walking", FOUR_ANY),
        ("The answer is number = {4}, subject = {any}, action = {walking}.", FOUR_ANY),
        ("number: 4, subject: any, action: walking", FOUR_ANY),
        ("The answer is four any walking", FOUR_ANY),
        ("4, any, walking", FOUR_ANY),
        ("Number = 4\nSubject = 'any'\nAction = Walking", FOUR_ANY),
        ("**Answer:** number = four, subject = any, action = walking\n\nThis is because number = two grows.", FOUR_ANY),
        (
            "The answer is 'number = two, subject = cats, action = walking'. Wait: The "
            "answer is number = four, subject "
            "= any, action = walking",
            FOUR_ANY,
        ),
        ("- number = 2 + 2 = 4\n- subject = any\n- action = walking", FOUR_ANY),
        ('{"number": "four", "subject": "any", "action": "walking"}', FOUR_ANY),
        ("The answer is number = four (4), subject = any (it has no pattern), action = walking", FOUR_ANY),
        ("The answer is number = any, subject = any, action = any.", "any any any"),
        ("\\boxed{number = four, subject = any, action = walking}", FOUR_ANY),
        ("The answer is number = two, subject = boys, action = driving", BOYS),
        ("The fourth image would show two boys driving a car.", BOYS),
        ("The answer is two male children driving a car.", BOYS),
        ("Two young boys driving cars", BOYS),
        ("The answer is number = 2, subject = male child, action = driving a car.", BOYS),
        (
            "Number of subjects: 2 (unchanged). Subject type: male children. Action: driving a car.\n\nTherefore, the "
            "answer is number = 2, subject = male children, action = driving a car.",
            BOYS,
        ),
        (
            "Image 1: number = three, subject = rabbits, action = eating. Image 4: number = "
            "two, subject = boys, action "
            "= driving",
            BOYS,
        ),
        (
            "In the format of 'The answer is number = {number}, subject = {subject}, action "
            "= {action}': two boys driving",
            BOYS,
        ),
        ("The answer is number = one, subject = old lady, action = ice skating", "one senior woman ice-skating"),
        ("One bunny is digging", "one rabbit digging a hole"),
    ],
)
def test_step_3_right(text, target):
    verdict = read(3, text, target)
    assert (verdict.outcome, verdict.score) == ("scored", 1.0)
    assert right(verdict) == set(PROPERTIES)
    assert text[verdict.span.start : verdict.span.end].strip()


@pytest.mark.parametrize(
    ("text", "target", "expected"),
    [
        ("number = four, subject = any cats, action = walking", FOUR_ANY, {"number", "action"}),
        ("number = four, subject = cats, action = walking", FOUR_ANY, {"number", "action"}),
        ("number = four, subject = anything, action = walking", FOUR_ANY, {"number", "action"}),
        ("number = two, subject = children, action = driving a car", BOYS, {"number", "action"}),
        ("number = two, subject = girls, action = driving a car", BOYS, {"number", "action"}),
        ("number = two, subject = men, action = driving a car", BOYS, {"number", "action"}),
        ("number = two or three, subject = boys, action = driving a car", BOYS, {"subject_type", "action"}),
        ("number = two, subject = boys, action = driving or walking", BOYS, {"number", "subject_type"}),
        ("number = two, subject = any, action = driving a car", BOYS, {"number", "action"}),
        ("number = at least two, subject = boys and girls, action = driving", BOYS, {"action"}),
        ("number = 2.5, subject = boys, action = driving", BOYS, {"subject_type", "action"}),
        ("number = two, subject = boys", BOYS, {"number", "subject_type"}),
        ("number = 22, subject = boys, action = not driving", BOYS, {"subject_type"}),
        ("number = two, subject = old men, action = driving", "two men driving a car", {"number", "action"}),
    ],
)
def test_step_3_partly(text, target, expected):
    verdict = read(3, text, target)
    assert right(verdict) == expected
    assert (verdict.outcome, verdict.score) == ("scored", 0.0)


@pytest.mark.parametrize("step", [1, 2, 3])
def test_without_content(step):
    target = {1: IMAGES, 2: CHANGES, 3: BOYS}[step]
    verdict = read(step, "What a lovely afternoon.", target)
    assert (verdict.outcome, verdict.score, verdict.reason) == ("unparsed", 0.0, "no_property")
    assert right(verdict) == set()
    assert read(step, "I'm sorry, but I can't assist with that.", target).outcome == "refused"


@pytest.mark.parametrize(
    ("step", "target"),
    [
        (1, "two cats walking"),
        (2, "Number remains constant two. "),
        (3, "two unicorns walking"),
        (4, BOYS),
        (1.5, BOYS),
    ],
)
def test_defects_of_the_request(step, target):
    with pytest.raises(RequestError):
        read(step, "two cats walking", target)


def test_needs_step_and_one_target():
    with pytest.raises(RequestError, match="step"):
        RULE.read(pb.ScoreRequest(key="k", text="x", targets=[BOYS]))
    request = pb.ScoreRequest(key="k", text="x")
    request.params["step"] = 3
    with pytest.raises(RequestError, match="one target"):
        RULE.read(request)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A senior woman is walking her dog", ("one", "senior women", "walking")),
        ("Two cats swimming in a swimming pool", ("two", "cats", "swimming")),
        ("two cats jumping into a swimming pool", ("two", "cats", "jumping")),
        ("a 10-year-old girl writing at a desk", ("one", "female children", "writing")),
        ("In a park, three rabbits run", ("three", "rabbits", "running")),
        ("A boy and a girl reading", ("one", "", "reading")),
        ("two kids playing soccer", ("two", None, "playing soccer")),
        ("hamsters (3) typing on laptops", ("three", "hamsters", "typing")),
        ("A man in running shoes sits at a desk", ("one", "men", None)),
        ("Four polar bears skateboarding", ("four", "bears", None)),
        ("twelve wolves", ("", "wolves", None)),
        ("two elderly gentlemen ice skate", ("two", "senior men", "ice-skating")),
        ("a group of women", (None, "women", None)),
    ],
)
def test_descriptions(text, expected):
    read = described(text)
    assert tuple(read.get(prop) for prop in PROPERTIES) == expected


def test_truths():
    assert truth_of("any any any") == dict.fromkeys(PROPERTIES, "any")
    assert truth_of("one senior woman digging a hole") == {
        "number": "one",
        "subject_type": "senior women",
        "action": "digging a hole",
    }
    assert truth_of("two any driving a car")["action"] == "driving a car"
    assert canonical("subject_type", "unicorns") is None


@given(st.text(max_size=300), st.sampled_from([(1, IMAGES), (2, CHANGES), (3, FOUR_ANY)]))
def test_any_text_has_a_verdict(text, step):
    verdict = read(step[0], text, step[1])
    assert verdict.outcome in ("scored", "unparsed", "refused")
    assert 0 <= verdict.score <= 1
    assert verdict.span.start <= verdict.span.end <= len(text)


_VOCABULARY = st.sampled_from(
    (
        *("number", "=", "two", "four", "any", "subject", "cats", "boys", "action", "walking", "changed", "unchanged"),
        *("Image 1", "Image 2", "the", "answer is", "and", "or", ",", ".", "\n", "from", "to", "remains", "not", ":"),
    )
)


@given(st.lists(_VOCABULARY, max_size=40).map(" ".join), st.sampled_from([(1, IMAGES), (2, CHANGES), (3, FOUR_ANY)]))
def test_any_words_have_a_verdict(text, step):
    verdict = read(step[0], text, step[1])
    assert all(0 <= value <= 1 for value in verdict.scores.values())
    if step[0] > 1:
        assert verdict.score == min(verdict.scores[name] for name in PROPERTIES)


@given(st.text(max_size=60))
def test_any_is_exactly_any(text):
    assert (value_of("number", text) == "any") <= (text.strip(" \t\"'.,;:()[]").lower() == "any" or "(" in text)


def test_scorer_and_benchmark_have_the_same_vocabulary():
    """The scorer cannot import the orchestrator, so that their vocabularies have to be kept equal."""
    from orchestrator.benchmarks.voila.texts import SPECS, describe, words

    for spec in SPECS:
        read = described(describe(spec))
        surfaces = words(spec)
        for prop, surface in zip(PROPERTIES, surfaces, strict=True):
            assert read[prop] == canonical(prop, surface) == value_of(prop, surface)
    assert len({tuple(described(describe(spec)).items()) for spec in SPECS}) == 728
