"""`--finish-cut`: cut answers become what they would have been without a limit, at little cost, each asked once."""

from __future__ import annotations

import asyncio
import math
import random
import re
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from helpers.engine_cluster import Server
from helpers.model_serving import serve
from helpers.same_results import results_of

from lyncean.rpc import InternalFailure, InvalidRequest
from model_server.kit import Model, Output, Request, Score
from model_server.kit.backend import KitBackend
from model_server.metrics import Metrics
from orchestrator.api import evaluate
from orchestrator.errors import ConfigError, IncompleteError
from orchestrator.run.plan import make
from orchestrator.run.request import RunRequest
from orchestrator.run.resume import check_asked
from orchestrator.run_folder.log import RunLog
from orchestrator.run_folder.manifest import ManifestError
from orchestrator.run_folder.reader import open_run
from orchestrator.run_folder.usage import of_log, total


def tokens_of(run: Path) -> int:
    """Returns the tokens, in and out, of all requests of a run."""
    return sum(total(of_log(run)).tokens[:2])


TASK = """data: rows.csv
id: id
question: question
options: [A, B]
answer: answer
decoding: {max_output_tokens: 100000}
"""
LIMIT, ENOUGH = 40, 5000


def length(row: int) -> int:
    """Words of an answer: log-normal with median 20, of which one of six is longer than 40."""
    return max(1, round(math.exp(math.log(20) + 0.75 * random.Random(row).gauss(0, 1))))


class LogNormal(Model):
    """Answers in so many words, three of four rightly; one row of seven thinks apart from its answer."""

    name = "lognormal"
    reasoning = True

    def __init__(self, *, continues: bool) -> None:
        self.answer_prefix = continues
        self.calls: Counter[tuple[str, int]] = Counter()
        self.refuses = -1

    def generate(self, request: Request) -> Output:
        row = int(re.search(r"row (\d+)", request.text)[1])  # type: ignore[index]
        begun = request.answer_prefix
        self.calls[f"{row}", len(begun.split()) or request.config.max_output_tokens] += 1
        if begun and row == self.refuses:
            raise InvalidRequest("too_long", "the model's context does not take that")
        thoughts = " ".join(f"w{row * 7 + number}" for number in range(length(row)))
        answer = f"The answer is {'AB'[row % 2] if row % 4 else 'BA'[row % 2]}."
        if row % 7 == 0:
            if begun:  # the thoughts were whole
                assert (request.messages[-1].reasoning, answer.startswith(begun)) == (thoughts, True)
                return Output(answer[len(begun) :])
            return Output(answer, reasoning=thoughts)
        whole = f"{thoughts}\n{answer}"
        assert whole.startswith(begun)
        return Output(whole[len(begun) :])


def folder_of(path: Path, rows: int) -> Path:
    lines = [f"{row},row {row} ?,cat,dog,{'AB'[row % 2]}" for row in range(rows)]
    (path / "rows.csv").write_text("\n".join(["id,question,A,B,answer", *lines]))
    (path / "rows.yaml").write_text(TASK)
    return path / "rows.yaml"


async def run(task: Path, port: int, shared: Server, name: str, **more: Any) -> Path:
    folder = task.parent / name
    options = {"endpoint": f"127.0.0.1:{port}", "scorer": shared.address, "run": folder, **more}
    await asyncio.to_thread(lambda: evaluate(str(task), **options))
    return folder


def results(folder: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = orjson.loads((folder / "results.json").read_bytes())
    return loaded


def accuracy(folder: Path) -> dict[str, Any]:
    (metric,) = [entry for entry in results(folder)["tasks"]["rows"]["metrics"] if entry["metric"] == "accuracy"]
    return metric  # type: ignore[no-any-return]


@pytest.mark.parametrize("continues", [True, False])
async def test_the_accuracy_is_that_without_a_limit(tmp_path: Path, shared_scorer: Server, continues: bool) -> None:
    task, model = folder_of(tmp_path, 240), LogNormal(continues=continues)
    short = {"generation": f"max_output_tokens={LIMIT}"}
    async with serve(KitBackend(model, Metrics())) as server:
        free = await run(task, server.port, shared_scorer, "free")
        cut = await run(task, server.port, shared_scorer, "cut", **short)
        band, items = accuracy(cut)["cut"], results(cut)["tasks"]["rows"]["cut"]["items"]
        assert 20 < items < 60
        assert band["low"] <= accuracy(free)["value"] <= band["high"]
        assert accuracy(cut)["value"] < accuracy(free)["value"] - 5
        model.calls.clear()
        await run(task, server.port, shared_scorer, "cut", **short, finish_cut=ENOUGH)
        assert model.calls.total() == items
        assert set(model.calls.values()) == {1}
        await run(task, server.port, shared_scorer, "cut", **short, finish_cut=ENOUGH)
        assert model.calls.total() == items, "what is finished is not asked again"
        at_once = await run(task, server.port, shared_scorer, "at_once", **short, finish_cut=ENOUGH)
    assert abs(accuracy(cut)["value"] - accuracy(free)["value"]) <= 0.5
    assert tokens_of(cut) <= 1.3 * tokens_of(free)
    assert results(cut)["tasks"]["rows"]["cut"]["items"] == 0
    assert results(cut)["deviations"]["finish_cut"] == ENOUGH
    assert "cut answers finished up to 5,000 tokens" in (cut / "report.html").read_text()
    assert results_of(at_once) == results_of(cut)
    texts = [{item.key: (item.text, item.outcome, item.score) for item in open_run(folder)} for folder in (free, cut)]
    assert texts[0] == texts[1]
    # Other code of the benchmark is held against what was asked before the answers were finished.
    log, request = RunLog(cut), RunRequest(str(task), **short)
    try:
        check_asked(make(request), log, None, make(request).changes())
        task.write_text(TASK + 'prompt: "Well, {question}"\n')
        with pytest.raises(ManifestError, match="rows/0 would be asked otherwise now"):
            check_asked(make(request), log, None, make(request).changes())
    finally:
        log.close()


async def test_an_answer_that_is_still_too_long_stays_cut(tmp_path: Path, shared_scorer: Server) -> None:
    """A larger limit goes on where the smaller one ended; a server that refuses is asked once, and the answer kept."""
    task, model = folder_of(tmp_path, 60), LogNormal(continues=True)
    short = {"generation": f"max_output_tokens={LIMIT // 4}"}
    longest = max((row for row in range(60) if row % 7), key=length)
    model.refuses = min(row for row in range(60) if row % 7 and length(row) > LIMIT)
    async with serve(KitBackend(model, Metrics())) as server:
        folder = await run(task, server.port, shared_scorer, "run", **short, finish_cut=length(longest) - 5)
        left = {f"rows/{longest}", f"rows/{model.refuses}"}
        assert left <= {item.key for item in open_run(folder) if item.cut}
        (refused,) = open_run(folder).read([f"rows/{model.refuses}"])
        assert (refused.outcome, refused.response["finished"]["error"]) == ("unparsed", "too_long")
        before = model.calls.total()
        await run(task, server.port, shared_scorer, "run", **short, finish_cut=length(longest) - 5)
        assert model.calls.total() == before
        await run(task, server.port, shared_scorer, "run", **short, finish_cut=ENOUGH)
    assert {item.key for item in open_run(folder) if item.cut} == {f"rows/{model.refuses}"}
    (item,) = open_run(folder).read([f"rows/{longest}"])
    assert item.score == 1.0 if longest % 4 else item.score == 0.0


async def test_a_run_killed_while_it_finishes_goes_on(tmp_path: Path, shared_scorer: Server) -> None:
    task, model = folder_of(tmp_path, 60), LogNormal(continues=True)
    async with serve(KitBackend(model, Metrics())) as server:
        arguments = [sys.executable, "-m", "orchestrator", "eval", "--task", str(task), "--concurrency", "1", "--quiet"]
        arguments += ["--endpoint", f"127.0.0.1:{server.port}", "--scorer", shared_scorer.address]
        arguments += ["--generation", f"max_output_tokens={LIMIT // 2}"]

        async def go(name: str, *more: str) -> asyncio.subprocess.Process:
            return await asyncio.create_subprocess_exec(*arguments, "--run", str(tmp_path / name), *more)

        assert await (await go("killed")).wait() == 4, "so many cut answers are not a result"
        assert await (await go("whole", "--finish-cut", str(ENOUGH))).wait() == 0
        cut = [item.key for item in open_run(tmp_path / "killed") if item.cut]
        assert len(cut) > 10
        model.calls.clear()
        finishing = await go("killed", "--finish-cut", str(ENOUGH))
        while model.calls.total() < 5:
            assert finishing.returncode is None
            await asyncio.sleep(0.01)
        finishing.send_signal(signal.SIGKILL)
        await finishing.wait()
        assert await (await go("killed", "--finish-cut", str(ENOUGH))).wait() == 0
    assert len(model.calls) == len(cut)
    assert model.calls.total() <= len(cut) + 1, "but for the request that was under way"
    assert results_of(tmp_path / "killed") == results_of(tmp_path / "whole")


def test_what_cannot_be_finished_is_refused(tmp_path: Path) -> None:
    task = folder_of(tmp_path, 4)
    with pytest.raises(ConfigError, match="--finish-cut is for --method generate"):
        evaluate(str(task), method="likelihood", finish_cut=100)
    with pytest.raises(ConfigError, match="--finish-cut is for a run without --until"):
        evaluate(str(task), until="width<=8", finish_cut=100)


class Stubborn(LogNormal):
    """Has a limit of its own, and fails now and then."""

    cap, broken = 12, True

    def generate(self, request: Request) -> Output:
        begun = request.answer_prefix
        output = super().generate(request)
        if begun and self.broken:
            raise InternalFailure("broken", "it does not work today")
        request.config.max_output_tokens = min(request.config.max_output_tokens, self.cap)
        return output


async def test_a_server_with_a_limit_of_its_own_that_fails(tmp_path: Path, shared_scorer: Server) -> None:
    """It is asked for more as long as it goes on; a failure leaves an answer cut until the command runs again."""
    task, model = folder_of(tmp_path, 30), Stubborn(continues=True)
    async with serve(KitBackend(model, Metrics())) as server:
        with pytest.raises(IncompleteError, match=r"\d+ cut answers could not be finished; run the same command again"):
            await run(task, server.port, shared_scorer, "run", finish_cut=ENOUGH)
        folder = tmp_path / "run"
        left = results(folder)["tasks"]["rows"]["cut"]["items"]
        assert left == sum(length(row) + 4 > 12 for row in range(30))
        model.broken = False
        await run(task, server.port, shared_scorer, "run")  # the folder knows that they are to be finished
    items = {item.key: item for item in open_run(folder)}
    assert [row for row in range(30) if items[f"rows/{row}"].cut] == [
        row for row in range(0, 30, 7) if length(row) >= 12
    ], "thoughts that were cut by the server's own limit cannot be finished"
    assert all(items[f"rows/{row}"].score == float(bool(row % 4)) for row in range(30) if row % 7)


class Reasoner(Model):
    """Thinks in so many words, then prefers the letter that its words end in; what was cut prefers B."""

    name = "reasoner"
    answer_prefix = True

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    def generate(self, request: Request) -> Output:
        row, begun = int(request.text.split()[1]), request.answer_prefix
        self.calls["generate"] += 1
        whole = " ".join([*(f"w{number}" for number in range(length(row))), "AB"[row % 2]])
        assert whole.startswith(begun)
        return Output(whole[len(begun) :])

    def likelihood(self, request: Request, continuations: Sequence[str]) -> Sequence[Score]:
        self.calls["likelihood"] += 1
        last = request.answer_prefix.split("\n\n")[0].split()[-1]
        best = f" {last}" if last in "AB" else " B"
        return [Score(value, [(text, value)]) for text in continuations for value in [-1.0 - (text != best)]]


async def test_options_are_scored_again_after_words_that_were_finished(tmp_path: Path, shared_scorer: Server) -> None:
    task, model = folder_of(tmp_path, 60), Reasoner()
    short = {"answer": "likelihood-after-reasoning", "generation": f"max_output_tokens={LIMIT // 2}"}
    async with serve(KitBackend(model, Metrics())) as server:
        folder = await run(task, server.port, shared_scorer, "run", **short)
        cut = results(folder)["tasks"]["rows"]["cut"]["items"]
        assert cut > 10
        assert accuracy(folder)["value"] < 90
        model.calls.clear()
        await run(task, server.port, shared_scorer, "run", **short, finish_cut=ENOUGH)
        assert model.calls == {"generate": cut, "likelihood": cut}
        await run(task, server.port, shared_scorer, "run", **short, finish_cut=ENOUGH)
        at_once = await run(task, server.port, shared_scorer, "at_once", **short, finish_cut=ENOUGH)
        assert model.calls["generate"] == 2 * cut + 60
        # As if it had been killed between the two requests of a sample: options scored after cut words do not count.
        torn = tmp_path / "torn"
        shutil.copytree(folder, torn)
        lines = (folder / "responses.jsonl").read_bytes().splitlines(keepends=True)
        (torn / "responses.jsonl").write_bytes(b"".join(lines[: 120 + cut - 5]))
        (torn / "results.json").unlink()
        turns = [orjson.loads(line)["turn"] for line in lines[120 : 120 + cut - 5]]
        model.calls.clear()
        await run(task, server.port, shared_scorer, "torn", **short)
        left = {"generate": cut - turns.count("reasoning"), "likelihood": cut - turns.count("")}
        assert model.calls == +Counter(left)
    assert (accuracy(folder)["value"], results(folder)["tasks"]["rows"]["cut"]["items"]) == (100.0, 0)
    for same in (at_once, torn):
        assert results_of(same) == results_of(folder)
