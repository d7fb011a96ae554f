import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from scorer.metrics import caption
from scorer.metrics.base import Params
from scorer.metrics.table import CODES, Table

pytest.importorskip("pycocoevalcap", reason="the extra captions is not installed")
needs_java = pytest.mark.skipif(not shutil.which("java"), reason="no java")
SHARED = Path(os.environ.get("LYNCEAN_SHARED_DATA", Path(__file__).parents[3] / ".." / "shared" / "data"))
SHIPPED = SHARED / "reform" / "shipped_predictions" / "MSCOCO_Generation_generation_lynx_LYNX.json"

CORPUS = [
    ("a man rides a red bike", ["A man rides a bike.", "someone on a red bicycle\n"]),
    ("two dogs run on grass", ["Two dogs run across the grass.", "dogs playing"]),
    ("a plate of food", ["A plate of food on a table", "food ||| on plate"]),
]


def metric(rows, measure="cider", tokenize="raw"):
    """Returns the metric of rows: (outcome, caption, references)."""
    plan = caption.METRIC.plan(Params({"measure": measure, "tokenize": tokenize}))
    texts = sorted({("extracted", text) for _, text, _ in rows})
    vocabulary = {"extracted": [text for _, text in texts], "targets": sorted({tuple(refs) for *_, refs in rows})}
    count = len(rows)
    table = Table(
        outcome=np.array([CODES[outcome] for outcome, *_ in rows], np.uint8),
        score=np.zeros(count),
        group=np.arange(count),
        sample=np.arange(count),
        combination=np.zeros(count, np.int64),
        labels=[{}],
        codes={
            "extracted": np.array([vocabulary["extracted"].index(text) for _, text, _ in rows]),
            "targets": np.array([vocabulary["targets"].index(tuple(refs)) for *_, refs in rows]),
        },
        vocabulary=vocabulary,
        **({"repeat": np.zeros(count, np.int64)} if "repeat" in Table.__dataclass_fields__ else {}),
    )
    return plan.compute(table)


def scored(corpus):
    return [("scored", text, references) for text, references in corpus]


@pytest.mark.parametrize("measure", ["bleu_1", "bleu_2", "rouge_l", "cider"])
def test_raw_measures_need_no_java(measure, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    result = metric(scored(CORPUS), measure)
    assert result.value > 0
    assert result.value == result.value_answered
    assert dict(result.details) == {"measure": measure, "tokenize": "raw"}


@pytest.mark.parametrize(("measure", "tokenize"), [("meteor", "raw"), ("cider", "ptb")])
def test_without_java_a_metric_says_so(measure, tokenize, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    result = metric(scored(CORPUS), measure, tokenize)
    assert not result.HasField("value")
    assert "not computed: needs Java" in result.details["not_computed"]


def test_without_the_library_a_metric_says_so(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    result = metric(scored(CORPUS))
    assert not result.HasField("value")
    assert "lyncean[captions]" in result.details["not_computed"]


@needs_java
def test_words_of_the_treebank():
    # COCO's evaluation drops punctuation by a list that lacks lower-case brackets.
    assert caption.tokenized([("A man's DOG, barking.", ["It\u2028is (here)\n", ""]), ("", ["x"])]) == [
        ("a man 's dog barking", ["it is -lrb- here -rrb-", ""]),
        ("", ["x"]),
    ]


@needs_java
@pytest.mark.full
def test_meteor_survives_line_breaks_bars_and_silence():
    value = caption.meteor([*CORPUS, ("", ["a bus\r\n", "b"]), ("a ||| b", ["é"])])
    assert 0 < value < 1


def test_unanswered_items_are_empty_captions():
    rows = [*scored(CORPUS), ("failed", "", ["a red bus"])]
    result = metric(rows, "rouge_l")
    assert result.value == pytest.approx(result.value_answered * 3 / 4)
    assert (result.denominator, result.denominator_answered) == (4, 3)


def test_unanswered_items_without_references_leave_the_whole_undefined():
    result = metric([*scored(CORPUS), ("failed", "", [])], "rouge_l")
    assert not result.HasField("value")
    assert result.HasField("value_answered")


def test_nothing_answered():
    result = metric([("failed", "", ["a"]), ("failed", "", ["b"])], "cider")
    assert not result.HasField("value_answered")


shipped = pytest.mark.skipif(not SHIPPED.exists(), reason="the shipped ReForm-Eval predictions are not here")


def shipped_corpus():
    return [(record["prediction"], record["references"]) for record in json.loads(SHIPPED.read_text())]


@shipped
def test_shipped_captions_raw():
    assert caption.cider(shipped_corpus()) == pytest.approx(0.80041, abs=5e-6)
    assert caption.bleu(shipped_corpus(), 4) == pytest.approx(0.240, abs=5e-4)


@shipped
@needs_java
def test_shipped_captions_in_treebank_words():
    tokenized = caption.tokenized(shipped_corpus())
    assert caption.cider(tokenized) == pytest.approx(1.077, abs=5e-4)
    assert caption.bleu(tokenized, 4) == pytest.approx(0.305, abs=5e-4)
