"""Code of other harnesses runs in cells: what an answer does there reaches no secret, network or other answer."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.engine_cluster import Server, wait_for
from helpers.hub import Hub
from helpers.judge_server import JudgeServer, Vendor
from helpers.toy_harness import ToyHarness, write

from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean_harnesses.library.values import encode
from lyncean_harnesses.scoring import cell, rule
from lyncean_harnesses.scoring.judge import MOST_REFUSALS
from scorer import foreign_tasks
from scorer.judges.current import summarized
from scorer.judges.options import Judging
from scorer.metrics import metrics
from scorer.metrics.summarizer import Summarizer

SECRET = "hf_a_token_of_the_user"
RIGHT = "1 + 2"

JUDGED = """
import time
from openai import OpenAI

def results(doc, answers):
    return {'right': float(ask(answers[0]) == doc['answer'])}

def ask(answer):
    client = OpenAI(base_url='http://127.0.0.1:1/v1', api_key='none', max_retries=0)
    while True:
        try:
            messages = [{'role': 'user', 'content': answer}]
            return client.chat.completions.create(model='any', messages=messages).choices[0].message.content.strip('"')
        except Exception:
            time.sleep(3600)
"""

STARTS = """
import subprocess

def results(doc, answers):
    done = subprocess.run(['sh', '-c', answers[0]], capture_output=True, text=True)
    return {'right': float(done.stdout == doc['answer'])}
"""
DECLARED = "metadata: {starts_programs: true}\n"

HOSTILE = """
import os, socket, subprocess
from pathlib import Path

ATTACKS = [
    lambda: Path(TOKEN).read_text(), lambda: os.environ['HF_TOKEN'], lambda: Path(PROOF).write_text('x'),
    lambda: socket.create_server(('127.0.0.1', PORT + 1)), lambda: os.kill(SCORER, 0), os.fork,
    lambda: Path(f'/proc/{SCORER}/environ').read_text(), lambda: subprocess.run(['true']),
    lambda: Path(__file__).write_text('def results(doc, answers): return {"right": 1.0}'),
]

def works(attack):
    try:
        attack()
    except (OSError, KeyError):
        return False
    return True

AT_IMPORT = sum(map(works, ATTACKS))

def results(doc, answers):
    if answers[0] == 'online':
        works(lambda: socket.create_connection(('127.0.0.1', PORT)))
    return {'right': float(AT_IMPORT + sum(map(works, ATTACKS)))}
"""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ToyHarness]:
    """The toy harness, in this process allowed; beside it a token in the cache's root, and one in the environment."""
    harness = ToyHarness(tmp_path)
    task = (harness.tasks / "compares.yaml").read_text().replace("compares", "asks").replace("plain", "judged")
    write(harness.tasks, {"asks.yaml": task, "judged.py": JUDGED})
    write(tmp_path / "hf", {"token": SECRET, "hub/part": "public"})
    monkeypatch.syspath_prepend(str(harness.site))
    for name in ("HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, harness.environment[name])
    monkeypatch.setenv("HF_TOKEN", SECRET)
    before = foreign_tasks._started_with[0]
    foreign_tasks.allow(foreign_tasks.ForeignTasks(on=True, include=(str(harness.tasks),)))
    yield harness
    foreign_tasks.allow(before)
    cell._close()


def request(answer: str, task: str = "computes", index: int = 0) -> pb.ScoreRequest:
    item = pb.ScoreRequest(key=f"lm-eval:{task}/{index}", rule="harness_task", text=answer)
    item.params.update({"task": f"lm-eval:{task}", "doc": encode({"question": "?", "answer": "3"}), "index": index})
    return item


def read(*requests: pb.ScoreRequest, judge: Any = None) -> list[pb.Verdict]:
    async def run() -> list[pb.Verdict]:
        return [await rule.read(item, judge) for item in requests]

    return asyncio.run(run())


def attack(expression: str) -> str:
    """Returns an answer that does something and is right if that works."""
    return f"[3, {expression}][0]"


def test_an_answer_reaches_nothing(toy: ToyHarness, tmp_path: Path, subtests: pytest.Subtests) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        attacks = {
            "token": (f"open({str(tmp_path / 'hf' / 'token')!r}).read()", "file"),
            "home": ("__import__('os').listdir('/root')", "file"),
            "environment of the scorer": (f"open('/proc/{os.getpid()}/environ').read()", "file"),
            "write": (f"open({str(tmp_path / 'proof')!r}, 'w')", "file"),
            "write into the task": (f"open({str(toy.tasks / 'plain.py')!r}, 'a')", "file"),
            "socket": (f"__import__('socket').create_connection(('127.0.0.1', {port}))", "network"),
            "listening": ("__import__('socket').create_server(('127.0.0.1', 0))", "network"),
            "program": ("__import__('subprocess').run(['true'])", "process"),
            "memory": ("bytearray(16 << 30)", "memory"),
        }
        for name, (expression, limit) in attacks.items():
            with subtests.test(name):
                (verdict,) = read(request(attack(expression)))
                assert (verdict.outcome, verdict.reason) == ("unjudged", "task_limit")
                assert verdict.detail.startswith(f"{limit}: ")
                assert SECRET not in str(verdict)
        listening.setblocking(False)
        with pytest.raises(BlockingIOError):
            listening.accept()
    assert not (tmp_path / "proof").exists()
    public = f"'{SECRET}' not in str(dict(__import__('os').environ)) and open({str(tmp_path / 'hf/hub/part')!r}).read()"
    assert [verdict.score for verdict in read(request(attack(f"1 // bool({public})")))] == [1.0]


def test_a_hostile_task_reaches_nothing_when_it_is_loaded_and_when_it_scores(toy: ToyHarness, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        known = {"TOKEN": str(tmp_path / "hf" / "token"), "PROOF": str(tmp_path / "proof"), "SCORER": os.getpid()}
        known["PORT"] = listening.getsockname()[1]
        task = (toy.tasks / "compares.yaml").read_text().replace("compares", "hostile").replace("plain", "hostile")
        values = "".join(f"{name} = {value!r}\n" for name, value in known.items())
        write(toy.tasks, {"hostile.yaml": task, "hostile.py": values + HOSTILE})
        verdict, online = read(request("3", "hostile"), request("online", "hostile"))
        listening.setblocking(False)
        with pytest.raises(BlockingIOError):
            listening.accept()
    assert (verdict.outcome, verdict.score) == ("scored", 0.0), verdict
    assert (online.outcome, online.reason) == ("unjudged", "needs_network")
    assert f"127.0.0.1:{known['PORT']}" in online.detail
    assert not (tmp_path / "proof").exists()


def test_declared_tasks_start_programs_which_reach_nothing_and_end(toy: ToyHarness, tmp_path: Path) -> None:
    task = (toy.tasks / "compares.yaml").read_text().replace("compares", "starts").replace("plain", "starting")
    ours = (toy.tasks / "computes.yaml").read_text().replace("computes", "both") + DECLARED
    undeclared = task.replace("task: starts", "task: silent")
    write(toy.tasks, {"starts.yaml": task + DECLARED, "silent.yaml": undeclared, "both.yaml": ours})
    write(toy.tasks, {"starting.py": STARTS})
    secret, proof = tmp_path / "hf" / "token", tmp_path / "proof"
    command = f"cat {secret}; touch {proof}; printf 3"
    scored, refused = read(request(command, "starts"), request("printf 3", "silent"))
    assert (scored.outcome, scored.score) == ("scored", 1.0)
    assert (refused.reason, refused.detail[:9]) == ("task_limit", "process: ")
    # An answer that runs, and whose programs would go on: they end with it.
    left = f"__import__('subprocess').Popen(['sleep', '{os.getpid()}987'])"
    away = "__import__('subprocess').Popen(['sleep', '1'], start_new_session=True)"
    first, second, third = read(*(request(attack(code), "both") for code in (left, away)), request(RIGHT, "both"))
    assert (first.score, second.reason, third.score) == (1.0, "task_limit", 1.0)
    assert not proof.exists()
    running = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not [command for command in running if f"{os.getpid()}987".encode() in command]


def test_what_computes_without_end_is_ended(toy: ToyHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cell, "SECONDS", 1.0)
    endless = attack("sum(iter(int, 1))")
    ended, asleep, right = read(request(endless), request(attack("__import__('time').sleep(3600)")), request(RIGHT))
    for verdict in (ended, asleep):
        assert (verdict.outcome, verdict.reason, verdict.detail[:5]) == ("unjudged", "task_limit", "cpu: ")
    assert right.score == 1.0


def test_nothing_of_one_answer_reaches_another(toy: ToyHarness) -> None:
    everything = "[setattr(m, n, lambda *_, **__: 7.0) for m in list(__import__('sys').modules.values()) "
    everything += "for n in ('number', 'read_here', 'results', 'scored', 'encode', 'decode', 'run') if hasattr(m, n)]"
    loaded = "__import__('builtins').__dict__.update(float=lambda *_: 7.0, len=lambda *_: 0)"
    forged = "[__import__('os').write(n, bytes([2]) + bytes(7) + b'{}') for n in range(3, 9)]"
    hostile = [request(f"[{code}, 3][1]") for code in (everything, loaded, forged, "__import__('os')._exit(0)")]
    answers = [RIGHT, "4", "3.0", "2 * 2", "int('3')", "0", "9 - 6"]
    alone = read(*map(request, answers))
    assert [verdict.score for verdict in alone] == [1, 0, 1, 0, 1, 0, 1]
    attacked, beside = [], []
    for number, answer in enumerate(answers):
        first, second = read(hostile[number % len(hostile)], request(answer))
        attacked.append(first)
        beside.append(second)
    assert beside == alone
    assert {verdict.outcome for verdict in attacked} <= {"scored", "unjudged"}


READS = """
from pathlib import Path
import filelock

def results(doc, answers):
    with filelock.FileLock(HUB + '/part.lock', timeout=1):
        return {'right': float(Path(HUB, 'part').read_text() == 'public' and not Path(HUB, 'part.lock').exists())}
"""


def test_a_task_reads_the_caches_that_libraries_lock(toy: ToyHarness, tmp_path: Path) -> None:
    pytest.importorskip("filelock")
    task = (toy.tasks / "compares.yaml").read_text().replace("compares", "reads").replace("plain", "reading")
    write(toy.tasks, {"reads.yaml": task, "reading.py": f"HUB = {str(tmp_path / 'hf' / 'hub')!r}\n{READS}"})
    (verdict,) = read(request("3", "reads"))
    assert verdict.score == 1.0, verdict


def test_a_run_names_what_an_answer_met_and_does_not_score_it_again(toy: ToyHarness, tmp_path: Path) -> None:
    program = str(Path(__file__).parents[2] / "helpers" / "answering_server.py")
    hostile = attack(f"open({str(tmp_path / 'proof')!r}, 'w')")
    server = Server(tmp_path / "model", ["env", f"ANSWER={hostile}", sys.executable, program]).start()
    command = [sys.executable, "-m", "orchestrator", "eval", "--task", "lm-eval:computes", "--data", str(toy.data)]
    command += ["--include-path", str(toy.tasks), "--endpoint", server.address, "--run", str(tmp_path / "run")]
    try:
        logs = []
        for _ in range(2):
            done = subprocess.run(
                command, env=toy.environment, cwd=tmp_path, capture_output=True, text=True, check=False
            )
            assert done.returncode == 4, done.stderr
            last = done.stderr.strip().splitlines()[-1]
            assert "Error: none of the 2 items could be judged; task_limit: file: " in last
            assert last.endswith(f"; mend it, then run: orchestrator score {tmp_path / 'run'}")
            logs.append((tmp_path / "run" / "verdicts.jsonl").read_bytes())
            (tmp_path / "run" / "results.json").unlink()
    finally:
        server.kill()
    verdicts = [json.loads(line) for line in logs[0].splitlines()]
    reasons = [(line["reason"], line["detail"][:6]) for line in verdicts if line.get("outcome") == "unjudged"]
    assert reasons == [("task_limit", "file: ")] * 2, logs[0]
    assert logs[0] == logs[1]
    assert not (tmp_path / "proof").exists()


PATCHES = """
import sys

def results(doc, answers):
    sys.modules['lyncean_harnesses.scoring.rule'].number_of = lambda value: 7.0
    return {'right': 1.0}
"""


def test_each_task_has_a_cell_made_of_one_process_and_reaches_no_other(toy: ToyHarness) -> None:
    task = (toy.tasks / "compares.yaml").read_text().replace("compares", "patches").replace("plain", "patching")
    write(toy.tasks, {"patches.yaml": task, "patching.py": PATCHES})
    verdicts = read(request("3", "compares"), request("4", "patches"), request("4", "compares"), request("3", "asks"))
    assert [verdict.score for verdict in verdicts[:3]] == [1.0, 7.0, 0.0]
    assert verdicts[3].reason == "no_judge"
    assert read(request(RIGHT))[0].score == 1.0
    (imported,) = cell._imported.values()
    assert imported.zygote._process
    parents = {parent(workspace.cell._process) for workspace in cell._workspaces.values()}
    assert parents == {imported.zygote._process.pid}
    assert "lm_eval" not in sys.modules  # the scorer itself imports nothing of the harness


def parent(process: Any) -> int:
    return int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_the_cell_that_is_unused_for_longest_gives_way(toy: ToyHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cell, "MOST_CELLS", 2)
    for answer, task in (("3", "compares"), ("3", "asks"), (RIGHT, "computes"), ("3", "compares")):
        read(request(answer, task))
        assert len(cell._workspaces) <= 2
    assert [kind.task for kind in cell._workspaces] == ["computes", "compares"]
    (imported,) = cell._imported.values()
    assert len(list(Path(imported.folder).iterdir())) == 4, "folders go with their cells"
    assert read(request(RIGHT))[0].score == 1.0


def test_a_process_that_imported_the_harness_and_ended_starts_again(toy: ToyHarness) -> None:
    assert read(request("3", "compares"))[0].score == 1.0
    (imported,) = cell._imported.values()
    first = imported.zygote._process
    assert first
    first.kill()
    first.wait()
    wait_for(lambda: not any(workspace.cell.running for workspace in cell._workspaces.values()))
    verdicts = read(request("3", "compares"), request("4", "compares"))
    assert [(verdict.score, verdict.detail) for verdict in verdicts] == [(1.0, ""), (0.0, "")]
    assert imported.zygote._process is not first


def test_a_judge_in_a_tasks_code_replies_and_metrics_are_computed(toy: ToyHarness) -> None:
    vendor = Vendor(lambda prompt: "3" if prompt == "right" else "4")

    async def run(url: str) -> tuple[list[pb.Verdict], pb.Summary]:
        opened = Judging((f"openai:strict@{url}",)).open()
        assert opened
        try:
            requests = [request(answer, "asks", index) for index, answer in enumerate(("right", "wrong"))]
            verdicts = [await rule.read(item, opened.judge) for item in requests]
            wanted = pb.MetricSpec(name="m", metric="harness_task")
            wanted.params.update({"task": "lm-eval:asks", "metric": "right"})
            summarizer = Summarizer([wanted], metrics())
            for item, verdict in zip(requests, verdicts, strict=True):
                summarizer.add(item, verdict)
            return verdicts, await summarized(summarizer.finish, opened.judge)
        finally:
            await opened.close()

    with JudgeServer(vendor) as url:
        verdicts, summary = asyncio.run(run(url))
    assert [verdict.score for verdict in verdicts] == [1.0, 0.0], verdicts
    assert all(verdict.HasField("judge") for verdict in verdicts)
    assert vendor.charged == 2 < MOST_REFUSALS
    assert summary.metrics[0].value == 0.5, summary
    assert json.loads(verdicts[0].details)["results"] == {"none": {"right": 1.0}}


FETCHES = """
from huggingface_hub import hf_hub_download, snapshot_download

OTHER = 'someone/' + 'else'

def results(doc, answers):
    if answers[0] == 'other':
        hf_hub_download(repo_id=OTHER, filename='key.txt', repo_type='dataset')
    file = hf_hub_download('toys/keys', 'key.txt', repo_type='dataset')
    folder = snapshot_download(repo_id='toys/keys', repo_type='dataset', allow_patterns=['more/*'])
    return {'right': float(open(file).read() + open(folder + '/more/part.txt').read() == doc['answer'])}
"""
SCORES = """
import asyncio, sys
from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean_harnesses.scoring import rule
from scorer import foreign_tasks

if __name__ == "__main__":
    foreign_tasks.allow(foreign_tasks.ForeignTasks(on=True, include=(sys.argv[1],)))
    for text in sys.stdin.buffer.read().split(b"--"):
        verdict = asyncio.run(rule.read(pb.ScoreRequest.FromString(bytes.fromhex(text.decode())), None))
        print(verdict.outcome, verdict.score, verdict.reason, verdict.detail, flush=True)
"""


def test_what_a_task_names_on_the_hub_is_fetched_outside_of_its_cell(toy: ToyHarness, tmp_path: Path) -> None:
    """Only repositories that its files name are fetched, so that no answer can leak data to the hub."""
    task = (toy.tasks / "compares.yaml").read_text().replace("compares", "fetches").replace("plain", "fetching")
    write(toy.tasks, {"fetches.yaml": task, "fetching.py": FETCHES})
    script = tmp_path / "scores.py"
    script.write_text(SCORES)
    messages = b"--".join(request(text, "fetches").SerializeToString().hex().encode() for text in ("3", "other", "3"))
    with Hub({"toys/keys": {"key.txt": b"3", "more/part.txt": b"", "secret.txt": b""}}) as hub:
        environment = {**toy.environment, "HF_ENDPOINT": hub.address, "HF_HUB_OFFLINE": "0", "HF_TOKEN": SECRET}

        def run(**more: str) -> list[str]:
            command = [sys.executable, str(script), str(toy.tasks)]
            done = subprocess.run(command, input=messages, env=environment | more, capture_output=True, check=True)
            return done.stdout.decode().splitlines()

        offline = run(HF_HUB_OFFLINE="1")
        assert all(line.startswith("unjudged 0.0 needs_network network: ") for line in offline), offline
        assert "HF_HUB_OFFLINE is set" in offline[0]
        assert not hub.paths
        first, other, again = run()
    assert first == again == "scored 1.0  "
    assert other.startswith("unjudged 0.0 needs_network network: "), other
    assert {path for path in hub.paths if "resolve" in path} == {
        f"/datasets/toys/keys/resolve/{name}" for name in ("main/key.txt", f"{hub.commit}/more/part.txt")
    }
    assert f"Bearer {SECRET}" in hub.tokens
