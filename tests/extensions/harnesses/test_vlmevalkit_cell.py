"""VLMEvalKit's own evaluation runs in a cell: what an answer does there reaches no secret, network or evaluation."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from helpers.toy_harness import write

from lyncean_harnesses.library import HarnessError, vlmevalkit
from scorer import RequestError, foreign_tasks

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="cells are closed by Linux: run the tests there")
SECRET = "hf_a_token_of_the_user"
PACKAGE = {
    "vlmeval/__init__.py": "",
    "vlmeval/smp.py": """
import pandas

def dump(data, file):
    data.to_json(file)

def load(file):
    return pandas.read_json(file)
""",
    "vlmeval/dataset/__init__.py": """
import multiprocessing, os, pathlib, socket
import pandas
from vlmeval import smp

class Toy:
    DATASET_MD5 = {"Toy": "x"}

    def __init__(self, name):
        assert self.DATASET_MD5[name] is None
        self.data = pandas.read_csv(pathlib.Path(os.environ["LMUData"]) / f"{name}.tsv", sep="\t")

    def evaluate(self, file, model, nproc):
        found = smp.load(file)
        with multiprocessing.Pool(16) as pool:
            values = pool.map(lambda text: float(eval(str(text))), found["prediction"])
        found["score"] = [value == answer for value, answer in zip(values, found["answer"])]
        smp.dump(found, "/tmp/straight.json")
        smp.dump(smp.load("/tmp/straight.json"), file)
        return {"Overall": float(found["score"].mean())}

DATASET_CLASSES = [Toy]
build_dataset = Toy
""",
}

Evaluate = Callable[[str], vlmevalkit.Evaluated]


@pytest.fixture
def evaluate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Evaluate]:
    monkeypatch.syspath_prepend(str(write(tmp_path / "site", PACKAGE)))
    monkeypatch.setenv("HF_TOKEN", SECRET)
    (tmp_path / "token").write_text(SECRET)
    vlmevalkit._cell.cache_clear()
    vlmevalkit.runs_text.cache_clear()

    def call(answer: str) -> vlmevalkit.Evaluated:
        rows = [{"index": str(index), "answer": "3", "prediction": text} for index, text in enumerate(("3", answer))]
        return vlmevalkit.evaluate("Toy", rows)

    yield call
    vlmevalkit._cell().close()
    vlmevalkit._cell.cache_clear()
    vlmevalkit.runs_text.cache_clear()


def test_an_evaluation_reaches_nothing(evaluate: Evaluate, tmp_path: Path) -> None:
    assert evaluate("1 + 2") == vlmevalkit.Evaluated({"Overall": 1.0}, {"0": 1.0, "1": 1.0})
    assert evaluate("3 * ('HF_TOKEN' in os.environ)").metrics == {"Overall": 0.5}
    for answer, limit in {
        f"pathlib.Path({str(tmp_path / 'token')!r}).read_text()": "file",
        f"pathlib.Path({str(tmp_path / 'written')!r}).write_text('x')": "file",
        "socket.create_connection(('127.0.0.1', 9))": "network",
        "os.fork()": "process",
        "len(bytes(1 << 40))": "memory",
    }.items():
        with pytest.raises(HarnessError) as caught:
            evaluate(answer)
        assert f"its code met a limit ({limit})" in str(caught.value)
        assert SECRET not in str(caught.value)
    assert not (tmp_path / "written").exists()
    assert not Path("/tmp/straight.json").exists()
    assert evaluate("setattr(Toy, 'evaluate', None) or 3").metrics == {"Overall": 1.0}
    assert evaluate("3").metrics == {"Overall": 1.0}, "the next one is as it was"
    with pytest.raises(HarnessError, match="cannot evaluate Toy without a judge: NameError"):
        evaluate("nobody")


def test_trust_is_asked_for_where_cells_do_not_close(evaluate: Evaluate, monkeypatch: pytest.MonkeyPatch) -> None:
    from lyncean_harnesses.scoring.vlmevalkit_metric import _check

    monkeypatch.setattr(foreign_tasks, "_started_with", [foreign_tasks.ForeignTasks(on=True)])
    _check()
    monkeypatch.setattr(vlmevalkit, "closes", lambda: False)
    with pytest.raises(RequestError, match=r"VLMEvalKit runs text as Python .*calls eval.*--trust-task-code"):
        _check()
