"""Foreign code that asks a judge by a client of its own reaches ours: cached, paid once, and never a silent zero."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any

import openai
import pytest
from helpers.judge_server import JudgeServer, Vendor

from lyncean.rpc.budget import Budget
from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean_harnesses.scoring import judge as foreign
from scorer.errors import RequestError
from scorer.judges.base import JudgeError
from scorer.judges.chat import ChatPrompt, conversation, prompt_of
from scorer.judges.current import summarized
from scorer.judges.options import Judging
from scorer.metrics.base import Metric, Plan
from scorer.metrics.summarizer import Summarizer
from scorer.registry import Registry

PIXEL = "data:image/png;base64,iVBORw0KGgo="


def ask(content: Any, **more: Any) -> str:
    """Asks as code of lmms-eval's `llm_judge` does."""
    client = openai.OpenAI(base_url=foreign.address(), api_key="none")
    done = client.chat.completions.create(
        model="gpt-4o", messages=[{"role": "user", "content": content}], max_tokens=8, **more
    )
    return str(done.choices[0].message.content)


def ask_again_and_again(prompt: str) -> str:
    """Asks by plain HTTP, five times with growing temperature and pauses, and makes nothing of a failure."""
    for attempt in range(5):
        data = b'{"messages": [{"role": "user", "content": "%s"}], "temperature": %d}' % (prompt.encode(), attempt)
        request = urllib.request.Request(
            f"{foreign.address()}/chat/completions", data, {"Content-Type": "application/json"}
        )
        try:
            return str(urllib.request.urlopen(request).read())
        except urllib.error.HTTPError:
            time.sleep(60)
    return ""


def ask_for_ever(prompt: str) -> str:
    """Asks until there is a reply."""
    while True:
        try:
            return ask(prompt)
        except Exception:
            time.sleep(60)


def ask_until_read(prompt: str) -> float:
    """Asks until the reply is a number from 0 to 1, as MMVet does, with pauses after one that is not a number."""
    client = openai.OpenAI(base_url=foreign.address(), api_key="none")
    while True:
        messages: Any = [{"role": "user", "content": prompt}]
        done = client.chat.completions.create(model="gpt-4o", messages=messages)
        try:
            score = float(str(done.choices[0].message.content))
            if 0 <= score <= 1:
                return score
        except ValueError:
            time.sleep(60)


def ask_in_threads(count: int) -> list[str]:
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(ask, [f"part {number}" for number in range(count)]))


@cache
def remembered(prompt: str) -> str:
    try:
        return ask(prompt)
    except openai.APIError:
        return "0"


def judged(
    vendor: Vendor, *works: Callable[[], Any], together: bool = False, answers: int = 1, **more: Any
) -> list[Any]:
    """Returns what came of each piece of code, all with one judge."""

    async def run(url: str) -> list[Any]:
        opened = Judging((f"openai:strict@{url}",), **more).open()
        assert opened
        try:
            runs = (partial(foreign.run, work, answers=answers) for work in works)
            asking = (foreign.answered(foreign_run, opened.judge, together=together) for foreign_run in runs)
            return await asyncio.gather(*asking, return_exceptions=True)
        finally:
            await opened.close()

    with JudgeServer(vendor) as url:
        return asyncio.run(run(url))


def test_each_question_is_paid_once_whatever_client_asks() -> None:
    vendor = Vendor(lambda prompt: {"to": prompt})
    chain = partial(lambda: ask("then " + ask([{"type": "text", "text": "first"}])))
    first, second, many = judged(vendor, chain, chain, lambda: ask_again_and_again("more"))
    assert first.value == second.value == '{"to": "then {\\"to\\": \\"first\\"}"}'
    assert vendor.charged == 3  # two of the chain, and the first of five tries at one question
    assert [prompt.limit for prompt, _ in first.replies] == [8, 8]
    assert not all(reply.cached for _, reply in first.replies) or not all(r.cached for _, r in second.replies)
    assert "more" in many.value
    body = vendor.requests[0]
    assert (body["model"], body["temperature"], body["max_completion_tokens"]) == ("strict", 0, 8)


def test_questions_of_many_items_are_asked_together() -> None:
    vendor = Vendor(lambda prompt: {"to": prompt})
    done, patient = judged(vendor, lambda: ask_in_threads(12), lambda: ask_for_ever("part 0"), together=True)
    assert patient.value == '{"to": "part 0"}'
    assert done.value == [f'{{"to": "part {number}"}}' for number in range(12)]
    assert vendor.charged == 12


def test_a_judge_whose_reply_the_code_cannot_read_ends_it() -> None:
    for reply in ("2.0", "I would say so."):
        vendor = Vendor(lambda prompt, reply=reply: reply)
        failure, other = judged(vendor, lambda: ask_until_read("this"), lambda: ask("that"))
        assert isinstance(failure, JudgeError)
        assert "cannot read the judge's reply" in str(failure)
        assert other.value  # the next answer is judged
        assert vendor.charged == 2


def test_an_aggregation_may_ask_the_same_for_each_of_its_answers() -> None:
    vendor = Vendor(lambda prompt: 1)
    (outcome,) = judged(vendor, lambda: [ask_until_read("this") for _ in range(60)], together=True, answers=60)
    assert outcome.value == [1.0] * 60
    assert vendor.charged == 1


@pytest.mark.parametrize(
    ("work", "faults", "reason"),
    [
        (lambda: ask_again_and_again("this"), ["400"], "judge_error"),
        (lambda: ask("this", n=3), [], "judge_error"),
        (lambda: ask("this", tools=[{"type": "function", "function": {"name": "f"}}]), [], "judge_error"),
        (lambda: remembered("this"), [], "judge_error"),
    ],
    ids=["the judge fails", "several replies", "tools", "the code remembers its failure"],
)
def test_a_judge_that_fails_is_never_a_zero(work: Callable[[], Any], faults: list[str], reason: str) -> None:
    (error,) = judged(Vendor(lambda prompt: {"to": prompt}, faults=faults), work)
    assert isinstance(error, JudgeError)
    assert error.reason == reason


def test_the_budget_holds_and_without_a_judge_nothing_is_asked() -> None:
    vendor = Vendor(lambda prompt: {"to": prompt})
    outcomes = judged(vendor, *(partial(ask, f"item {number}") for number in range(4)), budget=Budget(max_requests=2))
    assert [type(outcome).__name__ for outcome in outcomes].count("JudgeError") == 2 == vendor.charged
    with pytest.raises(JudgeError, match="give --judge"):
        asyncio.run(foreign.answered(partial(foreign.run, partial(ask, "x")), None))
    with pytest.raises(ZeroDivisionError):
        asyncio.run(foreign.answered(partial(foreign.run, lambda: 1 // 0), None))
    with pytest.raises(RuntimeError, match="ends the process: 3"):
        asyncio.run(foreign.answered(partial(foreign.run, lambda: exit(3)), None))


def test_another_process_of_the_machine_cannot_ask() -> None:
    program = f"import urllib.request; urllib.request.urlopen('{foreign.address()}/models')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "Connection refused" in done.stderr
    assert urllib.request.urlopen(f"{foreign.address()}/models").status == 200


def test_a_metric_may_ask_the_judge_of_its_scorer() -> None:
    def compute(_: Any) -> pb.MetricResult:
        return foreign.answered_here(partial(foreign.run, lambda: pb.MetricResult(value=len(ask_in_threads(3)))))

    asks = Metric(name="asks", description="Asks.", plan=lambda _: Plan(compute))
    registry = Registry("metric", {}, (Metric,), [asks])
    vendor = Vendor(lambda prompt: {"to": prompt})

    def summarizer() -> Summarizer:
        instance = Summarizer([pb.MetricSpec(name="m", metric="asks")], registry)
        instance.add(pb.ScoreRequest(key="k"), pb.Verdict(key="k", outcome="scored", score=1))
        return instance

    async def run(url: str) -> pb.Summary:
        opened = Judging((f"openai:strict@{url}",)).open()
        assert opened
        try:
            return await summarized(summarizer().finish, opened.judge)
        finally:
            await opened.close()

    with JudgeServer(vendor) as url:
        assert asyncio.run(run(url)).metrics[0].value == 3
    assert vendor.charged == 3
    (alone,) = summarizer().finish().metrics
    assert "give --judge" in str(alone.details)


def test_a_conversation_reaches_a_model_service_or_is_refused() -> None:
    seen = [{"type": "text", "text": "Is it?"}, {"type": "image_url", "image_url": {"url": PIXEL}}]
    body = {"messages": [{"role": "system", "content": "Judge."}, {"role": "user", "content": seen}], "top_p": None}
    system, user = conversation(prompt_of(body))
    assert (system.parts[0].text, user.parts[0].text) == ("Judge.", "Is it?")
    assert user.parts[1].image.data == b"\x89PNG\r\n\x1a\n"
    seen[1]["image_url"]["url"] = "https://example.org/a.png"  # type: ignore[index]
    with pytest.raises(JudgeError, match="not an encoded image"):
        conversation(prompt_of(body))
    for broken in (None, {}, {"messages": []}, {"messages": ["x"]}):
        with pytest.raises(JudgeError, match="no messages"):
            prompt_of(broken)
    assert isinstance(prompt_of(body), ChatPrompt)
    assert not issubclass(JudgeError, RequestError)


def test_a_part_that_may_not_ask_is_ended_alone() -> None:
    def work() -> tuple[bool, str]:
        with foreign.unanswered() as was_asked:
            ask_for_ever("only here")
        return was_asked(), ask("and then")

    vendor = Vendor(lambda prompt: {"to": prompt})
    (done,) = judged(vendor, work)
    assert done.value == (True, '{"to": "and then"}')
    assert vendor.charged == 1
