"""`eval --dry-run`: what it says of a run that it does not make."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from lyncean.model.v1 import model_pb2 as model
from orchestrator.cli import main
from orchestrator.data.rows import DataError
from orchestrator.engine.deviations import Deviations
from orchestrator.run.dry_run import walk
from orchestrator.samples import BadRowError, Call, NoAnswerError, Sample, Turn, text_part, user


def dry(*options: str) -> str:
    result = CliRunner().invoke(main, ["eval", "--synthetic", "--limit", "2", "--dry-run", *options])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-t", "VisualPuzzles_cot"), "at most 8,192 output tokens\n"),
        # A diagram has no bound, the answer after it has one of 512.
        (("-t", "VisualPuzzles_visual_cot"), "at most 1,024 output tokens, and 2 calls set no bound\n"),
        (("-t", "VisualPuzzles_cot", "-t", "VisualPuzzles_spatial_visual_cot"),
         "at most 9,216 output tokens, and 2 calls set no bound\n"),
        (("-t", "vstar_bench", "--method", "likelihood"), "no output tokens: nothing is generated\n"),
    ],
)  # fmt: skip
def test_every_turns_own_bound_counts(options: tuple[str, ...], message: str) -> None:
    assert message in dry(*options)


def test_what_the_items_can_show_counts_groups_and_no_repeats() -> None:
    output = dry("-t", "marvel", "-t", "vstar_bench", "--limit", "10", "--repeats", "3")
    for name, figures in (("marvel", "10"), ("vstar_bench", "10"), ("all tasks", "20")):
        assert f"{name}: {figures} independent items or groups, 95% CI ±" in output
    assert (
        "a fall found in 4 of 5 cases: 70.1 points from a run on the same items (if 15% of the answers change), 47.5"
        in output
    )


def test_the_first_request_is_whole_json_with_the_prompt_as_it_is_sent() -> None:
    output = dry("-t", "marvel")
    request = json.loads(output[output.index("{\n") :])
    [text] = [part["text"] for part in request["messages"][0]["parts"] if "text" in part]
    assert text.startswith("You are given a puzzle, with its context on top and four choices (marked by 1, 2, 3, or 4)")


def test_what_a_run_would_reject_is_passed_over() -> None:
    def ask(error: Exception | None) -> Call:
        if error:
            raise error
        return Call((user(text_part("?")),))

    def sample(second: Exception | None) -> Sample:
        return Sample(
            "t/1", (Turn(lambda _: ask(None), "a"), Turn(lambda _: ask(second), "b"), Turn(lambda _: ask(None)))
        )

    assert [turn.name for turn, _ in walk(sample(None), Deviations())] == ["a", "b", ""]
    for error, reason in (
        (DataError("page 3 is damaged"), "unreadable_row"),
        (BadRowError("bad_image", "cut"), "bad_image"),
        (NoAnswerError("no_image", "none"), "no_image"),
    ):
        (_, first), (turn, second) = walk(sample(error), Deviations())
        assert isinstance(first, Call)
        assert turn.name == "b"
        assert isinstance(second, type(error) if not isinstance(error, DataError) else BadRowError)
        assert (second.reason, str(second)) == (reason, str(error))


def test_the_stand_in_for_an_image_is_an_image() -> None:
    seen = []
    draw = Call((user(text_part("draw")),), modality=model.MODALITY_IMAGE)
    turns = (Turn(lambda _: draw, "draw"), Turn(lambda answers: seen.append(answers[0]) or draw))
    list(walk(Sample("t/1", turns), Deviations()))
    assert seen[0].images[0].media_type == "image/png"
