"""Usage and cost of a run: tokens, seconds and money in its results, and a budget of money."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from helpers.commands import orchestrator
from helpers.engine_cluster import Cluster, Server
from helpers.report_runs import Writer

from lyncean.rpc.budget import Budget, Prices
from orchestrator import load
from orchestrator.errors import ConfigError
from orchestrator.run.prices import PriceTable
from orchestrator.run_folder.usage import of_log, seconds, summary

TABLE = """
currency: EUR
models:
  other-*: {input: 1000, output: 1000}
  "*": {input: 2000, cached: 500, output: 10000, reasoning: 20000}
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    instance = Cluster(tmp_path)
    (tmp_path / "prices.yaml").write_text(TABLE)
    yield instance
    instance.close()


def results_of(cluster: Cluster, run: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((cluster.folder / run / "results.json").read_bytes())
    return loaded


def test_money_is_for_parts_of_the_tokens() -> None:
    prices = Prices(2, 10, 0.5, 20)
    assert prices.cost(1_000_000, 1_000_000) == pytest.approx(12)
    assert prices.cost(1_000_000, 1_000_000, 400_000, 300_000) == pytest.approx(1.2 + 0.2 + 7 + 6)
    assert Prices(2, 10).cost(1_000_000, 1_000_000, 400_000, 300_000) == pytest.approx(12)
    assert prices.cost(10, 10, 99, 99) == pytest.approx(10 * 0.5e-6 + 10 * 20e-6), "a part is no more than the whole"
    judge = Budget(None, None, 1.0, 2.0, 10.0)
    judge.used(1_000, 1_000)
    assert judge.cost == pytest.approx(0.012)


def test_results_have_tokens_and_seconds_and_with_prices_their_cost(cluster: Cluster, shared_scorer: Server) -> None:
    server = cluster.model()
    options = ("--task", "toy_two", "--limit", "5")
    shown = cluster.eval("run", [server], shared_scorer, *options, "--prices", "prices.yaml")
    lines = cluster.lines("run")
    used = [line["response"]["usage"] for line in lines]
    read, written = (sum(counts.get(name, 0) for counts in used) for name in ("input_tokens", "output_tokens"))
    usage = results_of(cluster, "run")["usage"]
    assert (usage["requests"], usage["input_tokens"], usage["output_tokens"]) == (len(lines), read, written)
    taken = json.loads((cluster.folder / "run" / "manifest.json").read_text())["seconds"]
    assert taken["all"] == pytest.approx(sum(line["seconds"] for line in lines), abs=1e-3)
    assert taken["tasks"] == {"toy_two": taken["all"]}
    assert usage["cost"] == pytest.approx((read * 2000 + written * 10000) / 1e6)
    assert usage["tasks"]["toy_two"]["cost"] == usage["cost"]
    assert usage["prices"] == {"model": "*", "currency": "EUR", "input": 2000, "cached": 500, "output": 10000,
                               "reasoning": 20000}  # fmt: skip
    line = f"EUR for {read:,} tokens in and {written:,} out, without judges"
    assert line in " ".join(shown.split())
    assert line in (cluster.folder / "run" / "report.html").read_text()
    cluster.eval("plain", [server], shared_scorer, *options)
    plain = results_of(cluster, "plain")["usage"]
    assert plain["input_tokens"] == read
    assert "cost" not in plain
    cluster.orchestrator("score", "plain", "--scorer", shared_scorer.address, "--prices", "prices.yaml")
    assert results_of(cluster, "plain")["usage"]["cost"] == usage["cost"]
    cluster.orchestrator("score", "plain", "--scorer", shared_scorer.address)
    assert results_of(cluster, "plain")["usage"]["cost"] == usage["cost"], "the run keeps its prices"


def test_a_budget_of_money_stops_a_run_and_more_of_it_resumes(cluster: Cluster, shared_scorer: Server) -> None:
    server = cluster.model("--concurrency", "2")
    options = ("--prices", "prices.yaml")
    cluster.eval("whole", [server], shared_scorer, *options)
    cost = results_of(cluster, "whole")["usage"]["cost"]
    answered = []
    for _ in range(2):
        error = cluster.eval("run", [server], shared_scorer, *options, "--max-cost", str(cost / 2), code=3)
        assert f"the budget of {cost / 2:,g} EUR is spent" in error
        assert "run the command again with more to resume" in error
        answered.append(cluster.answered("run"))
    assert 0 < answered[0] == answered[1] < 40
    cluster.eval("run", [server], shared_scorer, *options, "--max-cost", str(10 * cost))
    assert cluster.results("run") == cluster.results("whole")
    assert results_of(cluster, "run")["usage"]["cost"] == pytest.approx(cost)
    assert len({line["key"] for line in cluster.lines("run")}) == len(cluster.lines("run")) == 40


@pytest.mark.parametrize(
    ("table", "options", "says"),
    [
        ("", ("--max-cost", "1"), "--max-cost bounds money, and no price is known: give --prices FILE"),
        (TABLE, ("--prices", "none.yaml"), "none.yaml cannot be read"),
        (TABLE, ("--prices", "prices.yaml", "--stage", "draw=h:1"), "--prices is for runs of one model"),
        (TABLE.replace("cached", "cahced"), ("--prices", "prices.yaml"), "line 5: unknown key 'cahced': did you mean"),
        (TABLE.replace("500", "-1"), ("--prices", "prices.yaml"), "line 5: models.*.cached: -1 is less than"),
        (TABLE.replace("500", ".nan"), ("--prices", "prices.yaml"), "models"),
        (TABLE.replace("EUR", '"\\e[31m"'), ("--prices", "prices.yaml"), "line 2: currency is"),
        ("models: {}", ("--prices", "prices.yaml"), "models: {} should be non-empty"),
    ],
)  # fmt: skip
def test_a_table_that_cannot_be_used_is_refused_before_anything_is_asked(
    tmp_path: Path, table: str, options: tuple[str, ...], says: str
) -> None:
    (tmp_path / "prices.yaml").write_text(table)
    command = ("eval", "--task", "vstar_bench", "--synthetic", "--endpoint", "127.0.0.1:9", "--run", "run")
    error = orchestrator(*command, *options, folder=tmp_path, code=2)
    assert says in error
    assert "\x1b" not in error
    assert not (tmp_path / "run").exists()


def test_a_model_without_a_price_is_refused_with_the_place(cluster: Cluster, shared_scorer: Server) -> None:
    (cluster.folder / "prices.yaml").write_text(TABLE.replace('"*"', '"nobody"'))
    error = cluster.eval("run", [cluster.model()], shared_scorer, "--prices", "prices.yaml", code=2)
    assert "prices.yaml, line 3: models has no price of " in error
    assert cluster.calls().total() == 0
    with pytest.raises(ConfigError, match="has no price of gpt"):
        PriceTable.read(cluster.folder / "prices.yaml").of("gpt")
    assert PriceTable.read(cluster.folder / "prices.yaml").of("other-1")["input"] == 1000


def test_what_was_asked_twice_was_paid_twice(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run")
    usage = {"input_tokens": 10, "cached_tokens": 4, "output_tokens": 8, "reasoning_tokens": 6}
    response = {"parts": [{"text": "1"}], "finish_reason": "FINISH_REASON_END_OF_SEQUENCE", "usage": usage}
    for _ in range(2):
        writer.item("marvel/1", response=response, score=1.0, seconds=0.5)
    error = {"code": "INTERNAL", "reason": "broken", "message": "it broke"}
    writer.item("marvel/2", outcome="failed", error=error)
    run = writer.close()
    total = summary(of_log(run), {"input": 1e6, "cached": 0, "output": 1e6, "currency": "USD", "model": "*"})
    assert total["requests"] == 2
    assert (total["cost"], seconds(of_log(run))["seconds"]["all"]) == (2 * (6 + 8), 1.0)
    assert {name: total[name] for name in usage} == {name: 2 * value for name, value in usage.items()}
    results = orjson.loads((run / "results.json").read_bytes())
    (run / "results.json").write_bytes(orjson.dumps({**results, "usage": total}))
    assert "cost: 28.00 USD for 20 tokens in (8 cached) and 16 out (12 reasoning)" in str(load(run))
