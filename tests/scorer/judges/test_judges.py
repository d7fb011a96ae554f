"""Judges against a real HTTP server: every kind of failure has its outcome, and nothing is paid for twice."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from dataclasses import replace
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from helpers import commands
from helpers.judge_server import Vendor

from lyncean.rpc.budget import Budget
from lyncean.rpc.limiter import retry_after
from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.statistics.intervals import wilson
from lyncean.vocabulary.outcomes import Outcome
from lyncean.vocabulary.reasons import DOUBTFUL
from scorer.calibration import SETS, calibrate, cases
from scorer.cli import main
from scorer.judges.base import JudgeError, JudgePrompt, Reply, take
from scorer.judges.cache import Cache, CacheError
from scorer.judges.options import Judging
from scorer.judges.panel import Panel
from scorer.metrics import metrics
from scorer.metrics.summarizer import Summarizer
from scorer.rules import rules
from scorer.scoring import Scorer

# Answers that no rule reads.
COMMITTED = {
    "the colour of the sky, clearly": "B",
    "whatever comes after the first two": "3",
    "beyond the border": "outside",
}


def correct_if_right(user: str) -> dict[str, Any]:
    answer = user.split("<answer>\n")[1].split("\n</answer>")[0]
    if "Options:" in user:
        return {"choice": COMMITTED.get(answer, "none")}
    return {"explanation": "because", "correct": "blue" in answer}


@pytest.fixture
def vendor() -> Vendor:
    return Vendor(correct_if_right)


def judging(url: str, **changes: Any) -> Judging:
    settings = Judging(specs=(f"openai:judge@{url}",), key="k3y", timeout=1.0, patience=20.0, poll=0.05)
    return replace(settings, **changes)


def item(text: str, key: str = "a") -> pb.ScoreRequest:
    return pb.ScoreRequest(key=key, rule="judge_answer", text=text, targets=["blue"])


async def verdicts(settings: Judging, *items: pb.ScoreRequest) -> list[pb.Verdict]:
    judges = settings.open()
    assert judges
    scorer = Scorer(rules(), judges.judge, settings.reads)
    try:
        return list(await asyncio.gather(*(scorer.verdict(request) for request in items)))
    finally:
        await judges.close()


async def test_a_verdict_is_auditable(url: str, vendor: Vendor) -> None:
    right, wrong = await verdicts(judging(url), item("It is blue.", "a"), item("red", "b"))
    assert (right.outcome, right.score, right.extracted) == ("scored", 1.0, "correct")
    assert (wrong.outcome, wrong.score, wrong.extracted) == ("scored", 0.0, "incorrect")
    assert right.judge.model == "judge-2026"
    assert json.loads(right.judge.words)["correct"] is True
    assert len(right.judge.prompt_sha256) == 64
    assert right.judge.usage.input_tokens == 100
    assert vendor.keys == {"Bearer k3y"}
    sent = vendor.requests[0]
    assert sent["temperature"] == 0
    assert sent["response_format"]["json_schema"]["strict"] is True
    assert "seed" in sent


async def test_an_address_with_a_password_is_not_logged(url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)  # the level of the server's log
    (verdict,) = await verdicts(judging(url.replace("://", "://user:hunter2@")), item("It is blue."))
    assert verdict.outcome == "scored"
    assert "hunter2" not in caplog.text


async def test_a_reply_that_breaks_off_is_paid_once(url: str, vendor: Vendor) -> None:
    vendor.faults = ["broken off"]
    (verdict,) = await verdicts(judging(url), item("It is blue."))
    assert (verdict.outcome, verdict.reason, vendor.charged) == ("unjudged", "judge_reply_cut", 1)
    assert "may have charged for" in verdict.detail
    (verdict,) = await verdicts(judging(url), item("It is blue."))
    assert (verdict.outcome, vendor.charged) == ("scored", 2)


async def test_an_empty_answer_is_never_sent(url: str, vendor: Vendor) -> None:
    empty, thought = await verdicts(judging(url), item("  \n", "a"), item("<think>blue", "b"))
    assert empty.outcome == thought.outcome == Outcome.UNPARSED
    assert not vendor.requests


@pytest.mark.parametrize(
    "faults", [["429"], ["429 after"], ["500", "500"], ["reset"], ["hang"], ["429", "500", "reset"]]
)
async def test_passing_faults_are_retried_and_paid_for_once(url: str, vendor: Vendor, faults: list[str]) -> None:
    vendor.faults = list(faults)
    (verdict,) = await verdicts(judging(url), item("blue"))
    assert verdict.outcome == Outcome.SCORED
    assert vendor.charged == 1
    assert len(vendor.requests) == len(faults) + 1


async def test_retry_after_is_waited_out(url: str, vendor: Vendor) -> None:
    vendor.faults = ["429 after"]
    await verdicts(judging(url), item("blue"))
    first, second = vendor.times
    assert second - first >= 0.3


def test_retry_after_as_endpoints_write_it() -> None:
    def pause(**headers: str) -> float | None:
        return retry_after({name.replace("_", "-"): value for name, value in headers.items()})

    assert pause() is None
    assert pause(retry_after="soon") is None
    assert pause(retry_after="2.5") == 2.5
    assert pause(retry_after_ms="250") == 0.25
    assert pause(retry_after=formatdate(time.time() - 60, usegmt=True)) == 0.0
    assert (pause(retry_after=formatdate(time.time() + 3600, usegmt=True)) or 0.0) > 3000


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("broken", "judge_bad_json"),
        ("schema", "judge_wrong_schema"),
        ("refusal", "judge_refused"),
        ("length", "judge_truncated"),
        ("html", "judge_bad_json"),
        ("cut", "judge_bad_json"),
        ("empty", "judge_bad_json"),
        ("no choices", "judge_bad_json"),
        ("400", "judge_error"),
        ("404", "judge_error"),
    ],
)
async def test_an_unusable_reply_is_unjudged_and_not_asked_again(
    url: str, vendor: Vendor, fault: str, reason: str
) -> None:
    vendor.faults = [fault]
    (verdict,) = await verdicts(judging(url), item("blue"))
    assert (verdict.outcome, verdict.reason) == (Outcome.UNJUDGED, reason)
    assert not verdict.HasField("score")
    assert verdict.judge.prompt_sha256
    assert len(vendor.requests) == 1


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("429", "judge_rate_limited"),
        ("429 after", "judge_rate_limited"),
        ("500", "judge_error"),
        ("reset", "judge_unreachable"),
        ("hang", "judge_timeout"),
    ],
)
async def test_lasting_faults_are_unjudged(url: str, vendor: Vendor, fault: str, reason: str) -> None:
    vendor.lasting = fault
    (verdict,) = await verdicts(judging(url, patience=1.0, timeout=0.3), item("blue"))
    assert (verdict.outcome, verdict.reason) == (Outcome.UNJUDGED, reason)
    assert len(vendor.requests) > 1
    assert vendor.charged == 0


async def test_rate_limits_lower_concurrency_and_lose_nothing(url: str, vendor: Vendor) -> None:
    vendor.faults = ["429 after" if n % 3 == 0 else "" for n in range(30)]
    items = [item(f"answer {n} blue", str(n)) for n in range(60)]
    done = await verdicts(judging(url), *items)
    assert [verdict.outcome for verdict in done] == ["scored"] * 60
    assert vendor.charged == 60


async def test_the_cache_survives_and_one_question_is_one_request(url: str, vendor: Vendor, tmp_path: Path) -> None:
    settings = judging(url, cache=str(tmp_path / "sub" / "judge.sqlite"))
    done = await verdicts(settings, item("blue", "a"), item("blue", "b"), item("blue", "c"))
    assert vendor.charged == 1
    assert [verdict.judge.cached for verdict in done] == [False, True, True]
    assert sum(verdict.judge.usage.input_tokens + verdict.judge.usage.output_tokens for verdict in done) == 110
    (again,) = await verdicts(settings, item("blue", "d"))
    assert vendor.charged == 1
    assert again.judge.cached
    assert again.judge.usage.input_tokens == 0
    assert again.score == 1.0
    await verdicts(replace(settings, specs=(f"openai:another@{url}",)), item("blue"))
    assert vendor.charged == 2
    assert b"k3y" not in (tmp_path / "sub" / "judge.sqlite").read_bytes()


async def test_the_budget_stops_asking(url: str, vendor: Vendor) -> None:
    settings = judging(url, budget=Budget(max_requests=2), concurrency=1)
    done = await verdicts(settings, *(item(f"blue {n}", str(n)) for n in range(5)))
    assert sorted(verdict.outcome for verdict in done) == ["scored"] * 2 + ["unjudged"] * 3
    assert {verdict.reason for verdict in done if verdict.outcome == "unjudged"} == {"judge_budget"}
    assert vendor.charged == 2
    budget = Budget(max_cost=0.001, input_price=2.0, output_price=8.0)
    budget.used(400, 30)
    assert budget.cost == pytest.approx(0.00104)
    with pytest.raises(JudgeError, match="--judge-max-cost"):
        take(budget)


def choice(text: str, key: str = "a", **fields: Any) -> pb.ScoreRequest:
    fields = {"rule": "choice", "targets": ["B"], "options": ["red", "blue"]} | fields
    return pb.ScoreRequest(key=key, text=text, **fields)


async def test_an_answer_is_read_again_where_the_rule_found_nothing(url: str, vendor: Vendor) -> None:
    plain, again, nothing = await verdicts(
        judging(url), choice("B", "a"), choice("the colour of the sky, clearly", "b"), choice("who knows", "c")
    )
    assert not plain.HasField("judge")
    assert (again.outcome, again.extracted, again.score, again.reason) == ("scored", "B", 1.0, "judge_reread")
    assert nothing.outcome == Outcome.UNPARSED
    assert nothing.HasField("judge")
    assert "right" not in vendor.requests[0]["messages"][1]["content"]
    (off,) = await verdicts(judging(url, reads="none"), choice("who knows"))
    assert not off.HasField("judge")


async def test_a_doubtful_reading_stands_where_the_judge_reads_the_same(url: str, vendor: Vendor) -> None:
    texts = ("The sky looks blue here.", "It seems blue to most.", "So B it is, not the answer to another question.")
    by_rule = await verdicts(judging(url), *(choice(text) for text in texts))
    assert {verdict.reason for verdict in by_rule} <= DOUBTFUL, [verdict.reason for verdict in by_rule]
    assert not any(verdict.HasField("judge") for verdict in by_rule)
    replies = dict(zip(texts, ("B", "A", "none"), strict=True))
    vendor.answer = lambda user: {"choice": replies[user.split("<answer>\n")[1].split("\n</answer>")[0]]}
    same, other, none = await verdicts(judging(url, reads="doubtful"), *(choice(text) for text in texts))
    assert (same.outcome, same.extracted, same.reason) == ("scored", "B", by_rule[0].reason)
    assert (other.outcome, other.score, other.reason) == ("unparsed", 0.0, "readers_differ")
    assert other.detail == f"the rule reads 'B' ({by_rule[1].reason}), the judge 'A'"
    assert (none.outcome, none.reason) == ("unparsed", "readers_differ")
    assert all(verdict.HasField("judge") for verdict in (same, other, none))
    plain, refused = await verdicts(judging(url, reads="doubtful"), choice("B"), choice("I can't assist with that."))
    assert not plain.HasField("judge")
    assert not refused.HasField("judge")


async def test_a_judge_that_reads_all_is_shown_what_the_rule_is_sure_of(url: str, vendor: Vendor) -> None:
    vendor.answer = lambda user: {"choice": "B"}
    texts = ("The answer is (B).", "The answer is (A).", "I can't assist with that.")
    same, other, refused = await verdicts(judging(url, reads="all"), *(choice(text) for text in texts))
    assert (same.outcome, same.extracted) == ("scored", "B")
    assert (other.outcome, other.reason, other.score) == ("unparsed", "readers_differ", 0.0)
    assert same.HasField("judge")
    assert refused.outcome == Outcome.REFUSED
    assert not refused.HasField("judge")


async def test_rereading_keeps_to_the_rule_of_each_kind(url: str) -> None:
    number = choice("whatever comes after the first two", rule="choice_number", targets=["3"], options=[])
    two = choice("beyond the border", rule="two_way", targets=["outside"], options=["inside", "outside"])
    first, second = await verdicts(judging(url), number, two)
    assert first.score == second.score == 1.0


class Fixed:
    """A judge with one reply, or one failure."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.identity = repr(value)

    async def ask(self, prompt: JudgePrompt) -> Reply:
        if isinstance(self.value, JudgeError):
            raise self.value
        return Reply(self.value, json.dumps(self.value), "fixed", input_tokens=1)

    async def close(self) -> None:
        pass


YES, NO = {"correct": True, "explanation": "x"}, {"correct": False, "explanation": "y"}
FAILURE = JudgeError("judge_timeout", "late")


@pytest.mark.parametrize(
    ("voices", "expected"),
    [
        ([YES, YES, NO], 1.0),
        ([NO, YES, NO], 0.0),
        ([YES, YES, FAILURE], 1.0),
        ([YES, NO, FAILURE], None),
        ([YES, FAILURE, FAILURE], None),
        ([YES, NO], None),
        ([FAILURE, FAILURE, FAILURE], None),
    ],
)
async def test_a_panel_needs_more_than_half_of_all(voices: list[Any], expected: float | None) -> None:
    scorer = Scorer(rules(), Panel([Fixed(voice) for voice in voices]))
    verdict = await scorer.verdict(item("blue"))
    if expected is None:
        assert (verdict.outcome, verdict.reason) == (Outcome.UNJUDGED, "judge_no_majority")
    else:
        assert verdict.score == expected
    replies = [YES if json.loads(voice.words)["correct"] else NO for voice in verdict.panel]
    assert replies == [voice for voice in voices if voice is not FAILURE]


async def test_agreement_counts_what_the_judges_could_not_agree_on() -> None:
    summarizer = Summarizer([pb.MetricSpec(name="alpha", metric="judge_agreement")], metrics())
    for number, voices in enumerate([(YES, YES), (YES, YES), (NO, NO), (YES, NO)]):
        request = item("blue", key=str(number))
        summarizer.add(request, await Scorer(rules(), Panel([Fixed(voice) for voice in voices])).verdict(request))
    summary = summarizer.finish()
    (result,) = summary.metrics
    assert (summary.counts.scored, summary.counts.unjudged) == (3, 1)
    # By hand: observed disagreement 1/4, expected 2 * 5 * 3 / (8 * 7); without the fourth item alpha would be 1.
    assert result.value == pytest.approx(1 - (1 / 4) / (30 / 56))
    assert (result.denominator, result.details["unanimous"]) == (4, 3)


def test_a_cache_that_cannot_be_opened_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a database, but long enough to be opened as one " * 40)
    with pytest.raises(CacheError, match="cannot open"):
        Cache(str(tmp_path / "file"))
    with pytest.raises(CacheError) as caught:
        Cache("postgresql://user:s3cret@127.0.0.1:1/none")
    assert "s3cret" not in str(caught.value)


def test_the_command_line(url: str, tmp_path: Path) -> None:
    lines = tmp_path / "items.jsonl"
    lines.write_text(json.dumps({"key": "a", "rule": "judge_answer", "text": "blue", "targets": ["blue"]}) + "\n")
    command = ["score", str(lines)]
    none = commands.run(main, *command)
    assert none.exit_code == 2
    assert "judge" in none.stderr
    assert "Traceback" not in none.stderr
    arguments = [*command, "--judge", f"openai:j@{url}", "--judge-cache", str(tmp_path / "c.sqlite")]
    done = commands.run(main, *arguments, environment={"LYNCEAN_JUDGE_KEY": "k3y"})
    assert json.loads(done.stdout)["score"] == 1.0
    wrong = commands.run(main, *command, "--judge", "gpt")
    assert wrong.exit_code == 2
    assert "openai:MODEL" in wrong.stderr


@pytest.mark.parametrize("name", sorted(SETS))
async def test_calibration_counts_every_decision(name: str) -> None:
    labelled = cases(name)

    class Knowing:
        """Replies as labelled, except to the cases whose index is in `fails`."""

        identity = "knowing"

        def __init__(self, fails: set[int]) -> None:
            self.left = iter(range(len(labelled)))
            self.fails = fails

        async def ask(self, prompt: JudgePrompt) -> Reply:
            number = next(self.left)
            if number in self.fails:
                raise JudgeError("judge_timeout", "late")
            text = json.dumps(
                {"explanation": "", **labelled[number]["expected"]}
                if name == "open_answer"
                else labelled[number]["expected"]
            )
            return Reply(prompt.read(text), text, "knowing")

        async def close(self) -> None:
            pass

    perfect = await calibrate(Knowing(set()), name, labelled)
    assert perfect.agreed == perfect.decisions >= len(labelled) >= 20
    assert perfect.kappa == pytest.approx(1.0)
    assert not perfect.disagreements
    failing = await calibrate(Knowing({0, 3}), name, labelled)
    assert failing.failed > 0
    assert failing.agreed == failing.decisions - failing.failed
    assert len(failing.disagreements) == 2
    # A failed case is wrong in all its decisions: one piece of evidence, not one per decision.
    several = failing.decisions > len(labelled)
    alone, _ = wilson(failing.agreed, failing.decisions)
    assert failing.low is not None
    assert failing.low < alone - 0.01 if several else failing.low == pytest.approx(alone)


def test_scorer_calibrate(url: str, tmp_path: Path) -> None:
    command = ["calibrate", "--set", "open_answer", "--judge", f"openai:j@{url}"]
    command += ["--judge-cache", str(tmp_path / "cache.sqlite")]
    done = commands.run(main, *command)
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("open_answer: agrees with ")
    assert "kappa" in done.stdout
    plain = f"openai:j@{url}"
    settings = judging(url, specs=(plain, plain.replace("://", "://me:s3cret@")), cache=str(tmp_path / "cache.sqlite"))
    known = settings.open()
    assert known
    assert known.names[0].startswith(f"{plain} (agrees with ")
    assert known.names[0].endswith(" of 30 open_answer cases)")
    assert known.names[1].endswith("(not calibrated)")
    assert "s3cret" not in known.names[1]
    custom = tmp_path / "cases.jsonl"
    case = {"question": "q", "targets": ["blue"], "answer": "blue", "expected": {"correct": True}}
    custom.write_text(json.dumps(case) + "\n")
    for flags, part in (["--json"], '"kappa": null'), ([], "kappa undefined"):
        alike = commands.run(main, *command, "--cases", str(custom), *flags)
        assert part in alike.stdout
    custom.write_text('{"question": "q"}\n')
    bad = commands.run(main, *command, "--cases", str(custom))
    assert bad.exit_code == 2
    assert "line 1" in bad.stderr
    assert "Traceback" not in bad.stderr
