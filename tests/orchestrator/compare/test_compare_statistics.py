"""Paired tests, ranks and what makes runs comparable."""

from __future__ import annotations

import itertools
import random
import tracemalloc
from pathlib import Path

import numpy as np
import orjson
import pytest
from helpers.report_runs import Writer, marvel_run, puzzle

from orchestrator.compare import items, scores, statistics
from orchestrator.run_folder.reader import open_run


def run(path: Path, right: str, *, group: int = 1, turn: str = "", **identity: object) -> scores.Scores:
    """A run whose items are right (1), wrong (0), half right (h) or failed (f)."""
    writer = Writer(path, **identity)
    for number, mark in enumerate(right):
        key, common = f"marvel/{number}{turn}", {"group": str(number // group), "answer": "1"}
        if mark == "f":
            writer.item(key, outcome="failed", error={"code": "UNAVAILABLE", "reason": "", "message": "gone"})
        else:
            writer.item(key, score={"1": 1.0, "0": 0.0, "h": 0.5}[mark], **common)
    return scores.read(open_run(writer.close()))


def test_rows_of_what_all_have_stand_in_the_order_of_the_first() -> None:
    luck = random.Random(5)
    for _ in range(300):
        lists = [luck.sample(range(12), luck.randint(1, 12)) for _ in range(luck.randint(2, 4))]
        rows = items.pair([np.array([b"%016d" % number for number in numbers]) for numbers in lists])
        wanted = [number for number in lists[0] if all(number in numbers for numbers in lists)]
        assert [[numbers[row] for row in mine] for numbers, mine in zip(lists, rows, strict=True)] == [wanted] * len(
            lists
        )


def test_what_is_held_of_an_item_does_not_depend_on_its_length(tmp_path: Path) -> None:
    writer, count = Writer(tmp_path / "run"), 3000
    for number in range(count):
        parts = [{"text": f"{number} " + "word " * 200}]
        writer.item(f"marvel/{'x' * 100}{number}", parts=parts, answer="1", score=number / count, group=str(number))
    opened = open_run(writer.close())
    tracemalloc.start()
    try:
        run_scores = scores.read(opened)
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(run_scores.items["marvel"]) == count
    assert held < 200 * count


def test_a_task_is_tested_by_its_primary_metric_and_only_tasks_that_can_differ_are_corrected_for(
    tmp_path: Path,
) -> None:
    """Of three tasks "a" loses 9 items, "b" changes one, which cannot reach 5%, and "c" none."""
    changed = {"a": 9, "b": 1, "c": 0}
    runs = []
    for name in ("before", "after"):
        writer = Writer(tmp_path / name, data={task: {"sha256": "1" * 64} for task in changed})
        for task, number in itertools.product(changed, range(40)):
            score = float(name == "before" or number >= changed[task])
            writer.item(f"{task}/{number}", answer="1", score=score, labels={"half": str(number % 2)})
        path = writer.close()
        manifest = orjson.loads((path / "manifest.json").read_bytes())
        halves = [{"name": half, "metric": "mean", "where": {"half": {"values": [half]}}} for half in "01"]
        specs = [{"name": "acc", "metric": "accuracy"}, *halves]
        (path / "manifest.json").write_bytes(orjson.dumps(manifest | {"metrics": dict.fromkeys(changed, specs)}))
        runs.append(scores.read(open_run(path)))
    pairs = {str(pair.step): pair for pair in statistics.compare(*runs)}
    assert [name for name, pair in pairs.items() if pair.p is not None] == ["a: acc", "b: acc", "c: acc"]
    assert pairs["a: acc"].adjusted == pairs["a: acc"].p == pytest.approx(2 / 2**9)
    assert [pairs[name].adjusted for name in ("b: acc", "c: acc", "a: 0")] == [1.0, 1.0, None]
    pooled = statistics.pool(statistics.shared(*runs))
    assert pooled is not None
    assert (pooled.items, pooled.gained, pooled.lost, pooled.regression) == (120, 0, 10, True)
    # The tasks ask about the same rows: row 0 of "a" and of "b" is one piece of evidence, not two.
    assert pooled.test.startswith("sign-flip")
    assert pooled.p == pytest.approx(2 / 2**9, abs=0.002)


def test_a_pair_counts_what_was_not_answered_as_wrong(tmp_path: Path) -> None:
    first, second = run(tmp_path / "a", "1100f1"), run(tmp_path / "b", "101010")
    (pair,) = statistics.compare(first, second)
    assert (pair.items, pair.gained, pair.lost) == (6, 2, 2)
    assert (pair.first, pair.second) == (pytest.approx(0.5), pytest.approx(0.5))
    assert pair.test == "McNemar exact; too few changes to reach 5%"
    assert pair.adjusted == pair.p, "with one test there is nothing to correct"
    assert pair.low <= pair.difference <= pair.high


def test_items_of_one_group_are_not_independent(tmp_path: Path) -> None:
    # Twenty items better, but all of them in two groups: that is little evidence.
    alone = statistics.compare(run(tmp_path / "a", "0" * 40), run(tmp_path / "b", "1" * 20 + "0" * 20))[0]
    grouped = statistics.compare(
        run(tmp_path / "c", "0" * 40, group=10), run(tmp_path / "d", "1" * 20 + "0" * 20, group=10)
    )[0]
    assert alone.p < 1e-5
    assert grouped.test.startswith("sign-flip")
    assert grouped.p > 0.3
    assert grouped.high - grouped.low > alone.high - alone.low


def test_partial_credit_is_permuted(tmp_path: Path) -> None:
    (pair,) = statistics.compare(run(tmp_path / "a", "h" * 12), run(tmp_path / "b", "1" * 12))
    assert pair.test.startswith("sign-flip")
    assert pair.difference == pytest.approx(0.5)
    assert pair.p < 0.01


def test_repeats_are_one_cluster(tmp_path: Path) -> None:
    runs = []
    for name, right in (("a", 0.0), ("b", 1.0)):
        writer = Writer(tmp_path / name)
        for number, repeat in itertools.product(range(3), ("", "#1", "#2", "#3")):
            writer.item(f"marvel/{number}{repeat}", answer="1", score=right)
        runs.append(scores.read(open_run(writer.close())))
    (pair,) = statistics.compare(*runs)
    assert pair.items == 12
    assert pair.p >= 0.2, "three questions, not twelve"


def test_a_question_repeated_in_one_run_alone_has_the_mean_over_its_repeats(tmp_path: Path) -> None:
    runs = []
    for name, repeats in (("a", 4), ("b", 1)):
        writer = Writer(tmp_path / name)
        for number, repeat in itertools.product(range(8), range(repeats)):
            right = float(repeat < number % 4) if name == "a" else 1.0
            writer.item(f"marvel/{number}{f'#{repeat}' if repeat else ''}", answer="1", score=right)
        runs.append(scores.read(open_run(writer.close())))
    (pair,) = statistics.compare(*runs)
    assert (pair.items, pair.first, pair.second) == (8, 0.375, 1.0), "of each 0, 1, 2 or 3 of four answers are right"
    cautions = scores.cautions(*runs)
    assert [one.what for one in cautions] == ["repeats"]
    assert "4 and 1 times" in cautions[0].text


def test_a_hash_within_a_name_is_no_repeat(tmp_path: Path) -> None:
    runs = []
    for name, right in (("a", 0.0), ("b", 1.0)):
        writer = Writer(tmp_path / name)
        for number in range(12):
            writer.item(f"marvel/panel#{number}-left", answer="1", score=right)
        runs.append(scores.read(open_run(writer.close())))
    (pair,) = statistics.compare(*runs)
    assert (pair.items, pair.test) == (12, "McNemar exact"), "twelve questions, not one"


def test_metrics_of_the_manifest_are_what_is_compared(tmp_path: Path) -> None:
    def make(name: str, good: bool) -> scores.Scores:
        writer = Writer(tmp_path / name)
        for number in range(10):
            for kind in ("avr", "fine"):
                score = float(good and (kind == "avr" or number < 5))
                common = {"labels": {"kind": kind}, "group": str(number), "verdict": {"scores": {"half": score / 2}}}
                writer.item(f"marvel/{number}:{kind}", answer="1", score=score, **common)
        path = writer.close()
        manifest = orjson.loads((path / "manifest.json").read_bytes())
        manifest["metrics"] = {
            "marvel": [
                {"name": "AVR", "metric": "accuracy", "where": {"kind": {"values": ["avr"]}}},
                {"name": "Both", "metric": "group_all"},
                {"name": "Half", "metric": "mean", "params": {"part": "half"}},
                {"name": "Bias", "metric": "choice_bias"},
            ]
        }
        (path / "manifest.json").write_bytes(orjson.dumps(manifest))
        return scores.read(open_run(path))

    pairs = {str(pair.step): pair for pair in statistics.compare(make("a", False), make("b", True))}
    assert list(pairs) == ["marvel: AVR", "marvel: Both", "marvel: Half"]
    assert (pairs["marvel: AVR"].items, pairs["marvel: AVR"].second) == (10, 1.0)
    assert (pairs["marvel: Both"].items, pairs["marvel: Both"].second) == (10, 0.5)
    assert (pairs["marvel: Half"].items, pairs["marvel: Half"].second) == (20, pytest.approx(0.375))


def test_ranks_within_their_intervals(tmp_path: Path) -> None:
    runs = [
        run(tmp_path / n, r)
        for n, r in (("low", "0" * 180 + "1" * 20), ("tie", "1" * 100 + "0" * 100), ("even", "0" * 100 + "1" * 100))
    ]
    count, places = statistics.leaderboard(runs, next(iter(runs[0].steps)))
    assert count == 200
    assert [(standing.name, standing.rank, standing.best, standing.worst) for standing in places] == [
        ("even", 1, 1, 2), ("tie", 1, 1, 2), ("low", 3, 3, 3),
    ]  # fmt: skip
    assert all(standing.low <= standing.score <= standing.high for standing in places)


@pytest.mark.parametrize(("items", "changed", "ranks"), [(3, 3, (1, 2)), (40, 5, (1, 2)), (40, 6, (2, 2))])
def test_ranks_that_too_few_changes_show(tmp_path: Path, items: int, changed: int, ranks: tuple[int, int]) -> None:
    runs = [run(tmp_path / "a", "1" * items), run(tmp_path / "b", "0" * changed + "1" * (items - changed))]
    _, (first, second) = statistics.leaderboard(runs, next(iter(runs[0].steps)))
    assert (first.name, second.name) == ("a", "b")
    assert (second.best, second.worst) == ranks
    assert (first.best, first.worst) == (1, 3 - ranks[0])


def test_ranks_are_over_what_all_have(tmp_path: Path) -> None:
    runs = [run(tmp_path / "a", "11110000"), run(tmp_path / "b", "1111")]
    count, places = statistics.leaderboard(runs, next(iter(runs[0].steps)))
    assert count == 4
    assert {standing.score for standing in places} == {1.0}


def test_same_command_nothing_to_warn_of(tmp_path: Path) -> None:
    first = scores.read(open_run(marvel_run(tmp_path / "a", puzzles=20)))
    second = scores.read(open_run(marvel_run(tmp_path / "b", puzzles=20, model="other", skill=0.9)))
    assert scores.cautions(first, second) == []


@pytest.mark.parametrize(
    ("identity", "message"),
    [
        ({"data": {"marvel": {"digest": "0" * 64}}}, "data.marvel.digest differs: 9f2c9f2c9f2c… and 000000000000…"),
        ({"rules": {"choice_number": "0" * 64}}, "rules.choice_number differs"),
        ({"parity": True}, "parity differs: no and yes"),
        ({"seed_of_options": 3}, "seed_of_options differs: none and 3"),
    ],
)  # fmt: skip
def test_what_differs_is_named(tmp_path: Path, identity: dict[str, object], message: str) -> None:
    first = scores.read(open_run(marvel_run(tmp_path / "a", puzzles=4)))
    second = scores.read(open_run(marvel_run(tmp_path / "b", puzzles=4, **identity)))
    assert [caution for caution in scores.cautions(first, second) if caution.text.startswith(message)]


def test_other_prompts_targets_and_items_are_counted(tmp_path: Path) -> None:
    def make(name: str, prompt: str, target: str, count: int) -> scores.Scores:
        writer = Writer(tmp_path / name)
        picture = writer.image(puzzle(1))
        for number in range(count):
            text = prompt if number == 1 else "What is missing?"
            targets = [target if number == 2 else "1"]
            parts = [picture, {"text": text}]
            writer.item(f"marvel/{number}", parts=parts, answer="1", score=1.0, targets=targets)
        return scores.read(open_run(writer.close()))

    cautions = scores.cautions(make("a", "What?", "1", 5), make("b", "Which?", "2", 4))
    assert [caution.text for caution in cautions] == [
        "marvel: 4 items in both, 1 only in a, 0 only in b",
        "marvel: prompt or images differ in 1 of 4 items",
        "marvel: targets or options differ in 1 of 4 items",
    ]
    assert scores.in_one_sentence(cautions) == (
        "the runs differ in more than the model: items (marvel), prompt or images (marvel), targets or options (marvel)"
    )
    several = [scores.Caution("rules", name, f"rules.{name} differs") for name in "abcde"]
    assert scores.in_one_sentence([scores.Caution("blind", "", "blind differs"), *several]) == (
        "the runs differ in more than the model: blind, rules (a, b and 3 more)"
    )
    assert scores.in_one_sentence([]) == ""


def test_prompts_that_hold_the_models_own_answers_are_expected_to_differ(tmp_path: Path) -> None:
    def make(name: str, answer: str) -> scores.Scores:
        writer = Writer(tmp_path / name)
        messages = [
            {"role": "ROLE_USER", "parts": [{"text": "?"}]},
            {"role": "ROLE_ASSISTANT", "parts": [{"text": answer}]},
        ]
        writer.item("voila/1:apply", answer="1", score=1.0, messages=messages)
        return scores.read(open_run(writer.close()))

    assert scores.cautions(make("a", "this"), make("b", "that")) == []
