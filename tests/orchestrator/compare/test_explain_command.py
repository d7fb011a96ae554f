"""orchestrator explain: causes that are not recorded, text of peers, mistakes, and shares that sum to the whole."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner
from helpers.explained import causes
from helpers.mistakes import mistake
from helpers.report_runs import Writer, accuracy, marvel_run
from hypothesis import given, settings, strategies as st
from markdown_it import MarkdownIt

from orchestrator.cli import main
from orchestrator.compare.explain import explain

NASTY = "x `](http://evil) |\x1b[2J <script>alert(1)</script> @maintainer\n# Title ```"


def test_one_prompt_that_differs_may_be_another_row(tmp_path: Path) -> None:
    runs = []
    for name, noun in (("one", "door"), ("other", "chest")):
        data = {"marvel": {"origin": name, "sha256": f"{len(name)}" * 32}}
        writer = Writer(tmp_path / name, data=data)
        for number in range(3):
            parts = [{"text": f"What opens the {noun if number == 1 else 'gate'}?"}]
            writer.item(f"marvel/{number}", parts=parts, answer=noun, score=float(name == "one" or number != 1))
        runs.append(writer.close())
    assert list(causes(*runs)) == [("data", "prompt")]


def test_a_models_earlier_answers_are_no_prompt(tmp_path: Path) -> None:
    runs = []
    for name in ("1", "2"):
        writer = Writer(tmp_path / name, model=f"model-{name}")
        for number in range(4):
            parts = [{"text": f"You said: {name * number} apples. How many are left?"}]
            writer.item(f"marvel/{number}:left", parts=parts, answer=name, score=float(name == "1"))
        runs.append(writer.close())
    assert list(causes(*runs)) == [("server",)]


def test_the_same_answer_with_another_verdict_is_reading_whatever_else_differs(tmp_path: Path) -> None:
    runs = []
    for name, rule in (("one", "choice"), ("other", "lmms_vstar")):
        writer = Writer(tmp_path / name, model=name, rules={rule: name * 8})
        writer.item("marvel/1", parts=[{"text": name}], answer="(B)", rule=rule, score=float(name == "one"))
        writer.item("marvel/2", parts=[{"text": name}], answer=name, rule=rule, score=1.0)
        runs.append(writer.close())
    explained = causes(*runs)
    assert list(explained) == [("reading",)]
    assert explained["reading",]["example"]["spots"]["rule"] == ["choice oneoneoneone", "lmms_vstar otherotherot"]


@pytest.mark.parametrize(
    ("rule", "target", "options"),
    [("choice", "B", ["red", "blue"]), ("choice", "(b).", []), ("choice_number", "2", ["1", "2"])],
)
@pytest.mark.parametrize("right", ["blue", "red"])
def test_the_right_option_is_one_by_its_letter_its_number_and_its_text(
    tmp_path: Path, rule: str, target: str, options: list[str], right: str
) -> None:
    generated = Writer(tmp_path / "asked", method="generate")
    weighed = Writer(tmp_path / "weighed", method="likelihood")
    for number in range(4):
        key, score = f"marvel/{number}", float(number > 1)
        generated.item(key, answer="A", rule=rule, targets=[target], options=options, score=score)
        weighed.item(
            key, answer="x", rule="likelihood", targets=[right], options=["red", "blue"], score=1.0,
            method="likelihood", continuations=["red", "blue"], verdict={"extracted": right},
        )  # fmt: skip
    explained = causes(generated.close(), weighed.close())
    assert list(explained) == [("decoding", "reading") if right == "blue" else ("data", "decoding", "reading")]


def test_what_a_peer_said_is_shown_and_not_obeyed(tmp_path: Path) -> None:
    runs = []
    for name in ("one", "other"):
        writer = Writer(tmp_path / name, model=f"{name}{NASTY}")
        parts = [{"text": NASTY}]
        writer.item(
            f"marvel/{NASTY}", parts=parts, answer=f"{name} {NASTY}", targets=[NASTY], score=float(name == "one")
        )
        runs.append(str(writer.close()))
    shown = CliRunner().invoke(main, ["explain", *runs]).stdout
    page = CliRunner().invoke(main, ["explain", *runs, "--markdown", "-"]).stdout
    assert "\x1b" not in shown + page
    assert "\\x1b[2J" in shown
    html = MarkdownIt("commonmark").enable("table").render(page)
    assert "<script" not in html
    assert "<a " not in html
    assert "Title" in html
    outside = re.sub(r"<code>.*?</code>", "", html)
    assert not [word for word in ("@maintainer", "script", "Title", "evil") if word in outside]


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    run, going = marvel_run(tmp_path / "run", puzzles=9), marvel_run(tmp_path / "going", puzzles=9)
    (going / "results.json").unlink()
    other = Writer(tmp_path / "other", tasks=["vstar_bench"])
    other.item("vstar_bench/1", answer="A", score=1.0)
    one = str(run)
    assert "going is not complete" in mistake(main, "explain", one, str(going))
    assert "no task in common: marvel and vstar_bench" in mistake(main, "explain", one, str(other.close()))
    assert "run has no f1 of marvel; it has AVR" in mistake(main, "explain", one, one, "--metric", "f1").replace(
        one, "run"
    )
    assert "voila is not in both" in mistake(main, "explain", one, one, "--task", "voila")
    assert "one for each" in mistake(main, "explain", one, one, *["--metric", "AVR"] * 3)
    assert "--limit is for a live server" in mistake(main, "explain", one, one, "--limit", "3")
    assert "--tls is for servers" in mistake(main, "explain", one, one, "--tls")
    assert "cannot be written" in mistake(main, "explain", one, one, "--markdown", str(tmp_path / "no" / "page.md"))


OUTCOMES = st.sampled_from(["right", "wrong", "unparsed", "failed", "missing"])
SIDE = st.lists(
    st.tuples(OUTCOMES, st.sampled_from(["", " Think."]), st.sampled_from(["1", "2"])), min_size=6, max_size=6
)


@settings(max_examples=60)
@given(SIDE, SIDE, st.sampled_from([None, 0.0, 0.37, 1.0]), st.sampled_from(["AVR", "AVR.answered"]))
def test_shares_sum_to_the_whole_difference(first: Any, second: Any, reported: float | None, metric: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        runs = [write(Path(folder) / name, side) for name, side in (("first", first), ("second", second))]
        if reported is not None and (runs[1] / "results.json").exists():
            # A figure that the items do not make up, as that of a metric that weighs in its own way.
            results = json.loads((runs[1] / "results.json").read_bytes())
            for entry in results["tasks"].get("marvel", {}).get("metrics", ()):
                entry["value"] = reported
            (runs[1] / "results.json").write_bytes(orjson.dumps(results))
        explanation = explain(runs[0], runs[1], [metric])
        for task in explanation.tasks:
            assert sum(share.points for share in task.shares) == task.difference
            one, other, difference, points, percent = task.printed()
            assert (
                sum(round(100 * value) for value in points)
                == round(100 * difference)
                == round(100 * other) - round(100 * one)
            )
            assert difference == 0 or sum(value or 0 for value in percent) == 100


def write(path: Path, side: list[tuple[str, str, str]]) -> Path:
    writer = Writer(path)
    for number, (outcome, suffix, answer) in enumerate(side):
        common: dict[str, Any] = {"parts": [{"text": f"Which, {number}?{suffix}"}]}
        error = {"code": "INTERNAL", "reason": "broken", "message": "it broke"}
        if outcome == "failed":
            writer.item(f"marvel/{number}", outcome="failed", error=error, **common)
        elif outcome != "missing" or number == 0:
            kind = "unparsed" if outcome == "unparsed" else "scored"
            writer.item(f"marvel/{number}", answer=answer, outcome=kind, score=float(outcome == "right"), **common)
    return writer.close({"marvel": [accuracy("AVR", writer.verdicts)]})
