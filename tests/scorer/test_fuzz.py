"""Foreign input of the scorer: JSON lines, metric specs, rules in YAML, messages on the stream."""

from __future__ import annotations

import json
import random
import string
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from google.protobuf.message import DecodeError
from hypothesis import example, given, settings, strategies as st

from lyncean.rpc import InvalidRequest
from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.cli import main
from scorer.errors import RequestError
from scorer.metrics import metrics
from scorer.metrics.summarizer import Summarizer
from scorer.registry import PluginError
from scorer.rules import rules
from scorer.rules.pattern import load
from scorer.scoring import Scorer
from scorer.service import Servicer
from scorer.telemetry import Telemetry

FEW = settings(max_examples=60)
REGISTRY = rules()
RULES = [name for name in REGISTRY.names() if "judge" not in name]
METRICS = [name for name in metrics().names() if name != "caption"]

scalars = st.one_of(st.none(), st.booleans(), st.integers(-5, 10**19), st.floats(), st.text(max_size=8))
trees = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)
texts = st.text(string.ascii_letters + "é(). 1#:", max_size=12)


def mixed(**wanted: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Draws objects whose fields are mostly valid."""
    return st.fixed_dictionaries({}, optional={name: wish | trees for name, wish in wanted.items()})


params = st.dictionaries(
    st.sampled_from(["count", "infer", "level", "unit", "k", "part", "label", "x"]), trees, max_size=2
)
score_requests = mixed(
    key=texts,
    rule=st.sampled_from(RULES),
    text=texts,
    targets=st.lists(texts, max_size=3),
    options=st.lists(texts, max_size=5),
    params=params,
    labels=st.dictionaries(texts, texts, max_size=2),
    group=texts,
    scores=st.lists(mixed(logprob=st.floats(), token_count=st.integers(0, 9)), max_size=3),
    verdict=mixed(outcome=st.sampled_from(["scored", "unparsed", "no"]), score=st.floats(), scores=trees),
)
specs = mixed(
    name=texts,
    metric=st.sampled_from(METRICS),
    params=params,
    by=st.lists(mixed(labels=st.lists(texts, max_size=2)), max_size=2),
    where=st.dictionaries(texts, mixed(values=st.lists(texts, max_size=2)), max_size=2),
)


def scored(folder: Path, lines: bytes, metric_specs: bytes | None = None) -> None:
    """Runs `scorer score`; passes if it succeeds or ends with one line and exit code 2."""
    file = folder / "in.jsonl"
    file.write_bytes(lines)
    arguments = ["score", str(file)]
    if metric_specs is not None:
        (folder / "metrics.json").write_bytes(metric_specs)
        arguments += ["--metrics", str(folder / "metrics.json")]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code in (0, 2), (result.output, result.exception)
    if result.exit_code:
        assert [line.startswith("Error:") for line in result.stderr.splitlines()] == [True], result.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@pytest.mark.full
@given(lines=st.lists(score_requests | trees, min_size=1, max_size=4))
@FEW
def test_any_json_lines_are_scored_or_refused_in_one_line(folder: Path, lines: list[Any]) -> None:
    scored(folder, "\n".join(json.dumps(line) for line in lines).encode("utf-8", "surrogatepass"))


@given(lines=st.binary(max_size=60))
@example(b"[" * 5000)
@example(b'{"key":"k","params":' + b'{"a":' * 300 + b"1" + b"}" * 301)
@FEW
def test_any_bytes_are_refused_in_one_line(folder: Path, lines: bytes) -> None:
    scored(folder, lines)


@pytest.mark.full
@given(wanted=st.lists(specs | trees, max_size=3))
@FEW
def test_any_metric_specs_are_computed_or_refused_in_one_line(folder: Path, wanted: list[Any]) -> None:
    lines = "\n".join(
        json.dumps({"key": f"t/{n}", "rule": "choice", "text": "A", "targets": ["A"], "options": ["a", "b"]})
        for n in range(3)
    )
    scored(folder, lines.encode(), json.dumps(wanted).encode())


yaml_rules = mixed(
    name=texts,
    description=texts,
    patterns=st.lists(st.sampled_from(["(A|B)", "(", "(?=x)", "(.*)", "a{1000}", "\\p{Greek}"]) | texts, max_size=3),
    labels=st.lists(texts, max_size=3),
    choose=st.sampled_from(["first", "last"]),
    ignore_case=st.booleans(),
    refusals=st.booleans(),
    version=st.integers(),
)


def named(error: PluginError, path: Path) -> None:
    assert str(path) in str(error)
    assert "\n" not in str(error)


def loaded(path: Path, text: bytes) -> None:
    """Checks that loaded rules read an answer, and that all else is a `PluginError` that names the file."""
    path.write_bytes(text)
    try:
        loaded_rules = load(path)
    except PluginError as error:
        named(error, path)
        return
    for rule in loaded_rules:
        try:
            rule.read(pb.ScoreRequest(key="k", text="(A) is it, not B", targets=["A"]))
        except RequestError:
            continue


@given(entries=st.lists(yaml_rules | trees, max_size=2))
@FEW
def test_any_rules_are_loaded_or_refused(folder: Path, entries: list[Any]) -> None:
    loaded(folder / "rules.yaml", json.dumps({"rules": entries}).encode())


@pytest.mark.full
@given(text=st.text(string.printable, max_size=80).map(str.encode) | st.binary(max_size=40))
@example(b"rules: &a [*a]")
@example(b"rules: [{name: x, patterns: [a], labels: [2020-01-01]}]")
@example(b"rules: [{name: x, patterns: [a], labels: [2020-13-45]}]")
@example(b"rules: [{name: x, patterns: [a], labels: &l [b, *l]}]")
@example(b"rules: " + b"[" * 3000)
@example(b"a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\nrules: *c")
@example(b"!!python/object/apply:os.system ['true']")
@example(b"rules: [{? [1] : 2}]")
@example(b"rules: [{name: x, patterns: [a], description: !!binary aGk=}]")
@FEW
def test_any_yaml_is_loaded_or_refused(folder: Path, text: bytes) -> None:
    loaded(folder / "rules.yaml", text)


class Context:
    """The part of a call that the servicer needs: its client is still connected."""

    def cancelled(self) -> bool:
        return False


async def stream(messages: list[pb.ScorerServiceScoreRequest]) -> list[pb.ScorerServiceScoreResponse]:
    async def sent() -> AsyncIterator[pb.ScorerServiceScoreRequest]:
        for message in messages:
            yield message

    servicer = Servicer(Scorer(REGISTRY), metrics(), [], Telemetry())
    return [response async for response in servicer.Score(sent(), Context())]


@given(seed=st.integers(0, 2**32))
@settings(max_examples=150)
async def test_damaged_messages_are_answered_or_refused(seed: int) -> None:
    draw = random.Random(seed)
    item = pb.ScoreRequest(key="t/1", rule=draw.choice(RULES), text="(A) red", targets=["A"], options=["red", "blue"])
    item.params["count"] = draw.choice([4.0, 1e9, 1e308, -1.0, float("nan"), float("inf")])
    spec = pb.MetricSpec(name="n", metric=draw.choice(METRICS))
    spec.params["level"] = draw.choice([0.9, 2.0, float("nan"), float("inf")])
    spec.by.add(labels=["a"])
    data = bytearray(pb.ScorerServiceScoreRequest(items=[item], metrics=[spec]).SerializeToString())
    for _ in range(draw.randrange(4)):
        data[draw.randrange(len(data))] = draw.randrange(256)
    try:
        message = pb.ScorerServiceScoreRequest.FromString(bytes(data))
    except DecodeError:
        return
    try:
        for response in await stream([message]):
            response.SerializeToString()
    except InvalidRequest:
        return


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_parameter_that_is_no_number_is_refused_by_every_metric(value: float) -> None:
    for name in METRICS:
        for key in ("level", *metrics().get(name).params):
            spec = pb.MetricSpec(name="n", metric=name)
            spec.params[key] = value
            with pytest.raises(RequestError, match="parameters cannot be read"):
                Summarizer([spec], metrics())
