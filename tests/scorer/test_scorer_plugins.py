"""Rules and metrics of users: YAML, entry points, and the kit that tests them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from helpers.plugins import install, scorer
from hypothesis import given, settings, strategies as st

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.errors import RequestError
from scorer.listing import digest
from scorer.metrics import metrics
from scorer.registry import PluginError
from scorer.rule import Rule, scored, unparsed
from scorer.rules import rules
from scorer.rules.pattern import load
from scorer.testkit import check_cases, check_invariants, verdict

LETTER = r"""
rules:
  - name: my_letter
    description: The letter behind "answer is", else the last letter alone.
    labels: [A, B, C, D]
    choose: last
    patterns:
      - 'answer\s*(?:is|:)\s*[(*]*([A-D])\b'
      - '\(([A-D])\)'
      - '(?m)^\W*([A-D])\W*$'
"""
TEXTS = [
    "The answer is (B).",
    "answer: c",
    "(A) no, (D)!",
    "b",
    "none of them",
    "E",
    "I'm sorry, but I can't help with that.",
]


def yaml_rule(folder: Path, text: str = LETTER) -> Rule:
    file = folder / "rules.yaml"
    file.write_text(text)
    return load(file)[0]


def test_a_yaml_rule_reads(tmp_path: Path) -> None:
    rule = yaml_rule(tmp_path)
    check_cases(rule, zip(TEXTS, ["B", "C", "D", "B", "", "", ""], strict=True), targets=["B"])
    result = verdict(rule, "I think the answer is **b**", targets=["B"])
    assert (result.score, result.span.start, result.span.end) == (1.0, 24, 25)
    assert verdict(rule, TEXTS[-1], targets=["B"]).outcome == "refused"
    assert verdict(rule, TEXTS[-2], targets=["B"]).reason == "no_match"
    with pytest.raises(RequestError, match="'E'"):
        verdict(rule, "B", targets=["E"])
    with pytest.raises(RequestError, match="targets"):
        verdict(rule, "B")


def test_first_and_last(tmp_path: Path) -> None:
    for choose, wanted in (("first", "A"), ("last", "D")):
        check_cases(yaml_rule(tmp_path, LETTER.replace("last", choose)), [("(A) no, (D)!", wanted)], targets=["A"])


def test_case_can_count_and_labels_can_be_left_out(tmp_path: Path) -> None:
    rule = yaml_rule(tmp_path, "rules: [{name: number, patterns: ['(\\d+)'], choose: first}]")
    check_cases(rule, [("12 or 13", "12"), ("no", "")], targets=["12"])
    rule = yaml_rule(tmp_path, "rules: [{name: x, patterns: ['[Xx]'], labels: [X], ignore_case: false}]")
    check_cases(rule, [("x X", "X"), ("x", "")], targets=["X"])


def test_a_yaml_rule_keeps_every_promise(tmp_path: Path) -> None:
    check_invariants(yaml_rule(tmp_path), TEXTS, "ABCD", targets=["A"])


def test_a_careless_pattern_is_linear(tmp_path: Path) -> None:
    rule = yaml_rule(tmp_path, "rules: [{name: x, patterns: ['(?:a+)+b', '(?:(?:a|a)*)*c']}]")
    assert verdict(rule, "a" * 300_000, targets=["b"]).outcome == "unparsed"


@settings(max_examples=200)
@given(st.text(st.characters(codec="utf-8") | st.sampled_from("ABCD()answer is:*\n"), max_size=200))
def test_spans_are_code_points_of_any_text(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    rule = yaml_rule(tmp_path_factory.getbasetemp())
    result = verdict(rule, text, targets=["A"])
    if result.outcome == "scored":
        assert text[result.span.start : result.span.end].upper() == result.extracted


def test_any_change_of_the_file_changes_the_hash(tmp_path: Path) -> None:
    one, same = digest(yaml_rule(tmp_path)), digest(yaml_rule(tmp_path))
    other = digest(yaml_rule(tmp_path, LETTER.replace("[(*]*", "")))
    assert one == same != other


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rules: [", "YAML"),
        ("- a", "`rules`"),
        ("rules: []", "`rules`"),
        ("rules: [1]", "rule 1"),
        ("rules: [{name: a, patterns: ['('], labels: [A]}]", "missing )"),
        ("rules: [{name: a, patterns: ['(?=x)']}]", "look-around"),
        ("rules: [{name: a, patterns: ['(a)(b)']}]", "2 groups"),
        ("rules: [{name: a, patterns: [1]}]", "patterns[0]"),
        ("rules: [{name: a, patterns: []}]", "empty"),
        ("rules: [{name: a}]", "empty"),
        ("rules: [{name: a-b, patterns: [x]}]", "a-b"),
        ("rules: [{name: a, patterns: [x], choose: best}]", "best"),
        ("rules: [{name: a, patterns: [x], labels: [A, a]}]", "the same"),
        ("rules: [{name: a, patterns: [x], label: [A]}]", "`label`"),
        ("rules: [{name: a, patterns: [x], version: true}]", "version"),
    ],
)
def test_a_yaml_file_without_sense_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(PluginError) as caught:
        yaml_rule(tmp_path, text)
    assert message in str(caught.value)
    assert "rules.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_name_that_is_taken(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match="'choice' is defined twice"):
        rules([yaml_rule(tmp_path, "rules: [{name: choice, patterns: [x]}]")])


PLUGIN = """
from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.metrics.base import Metric, Plan
from scorer.rule import Rule, scored

def read(request):
    return scored(request.text.strip().lower(), float(request.text.strip().lower() in request.targets))

RULE = Rule(name="exact", description="The whole answer, in lower case.", read=read)
METRIC = Metric(name="longest", description="How many items.", plan=lambda params: Plan(
    lambda table: pb.MetricResult(value=len(table), denominator=len(table))), unit="")
"""


def test_an_entry_point_is_listed_and_used(tmp_path: Path) -> None:
    entries = "[lyncean.rules]\nexact = my_plugin:RULE\n[lyncean.metrics]\nlongest = my_plugin:METRIC\n"
    environment = install(tmp_path, PLUGIN, entries)
    listed = json.loads(scorer(environment, "rules", "--json").stdout)
    assert "exact" in {rule["name"] for rule in listed["rules"]}
    assert "longest" in {metric["name"] for metric in listed["metrics"]}
    specs = tmp_path / "specs.json"
    specs.write_text('[{"name": "n", "metric": "longest"}]')
    line = '{"key": "k", "rule": "exact", "text": " Cat ", "targets": ["cat"]}'
    done = scorer(environment, "score", "-", "--metrics", str(specs), given=line)
    verdict_line, summary = [json.loads(line) for line in done.stdout.splitlines()]
    assert (verdict_line["extracted"], verdict_line["score"]) == ("cat", 1.0)
    assert summary["summary"]["metrics"][0]["value"] == 1.0


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ("[lyncean.rules]\nchoice = my_plugin:RULE\n", "'choice'"),
        ("[lyncean.rules]\nexact = my_plugin:RULES\n", "RULES"),
        ("[lyncean.rules]\nexact = not_there:RULE\n", "not_there"),
        ("[lyncean.rules]\nother = my_plugin:RULE\n", "'exact'"),
        ("[lyncean.rules]\nexact = my_plugin:read\n", "not a Rule"),
        ("[lyncean.metrics]\nlongest = my_plugin:RULE\n", "not a Metric"),
    ],
)
def test_a_broken_entry_point_is_named_at_start(tmp_path: Path, entries: str, message: str) -> None:
    done = scorer(install(tmp_path, PLUGIN, entries), "score", "-")
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_yaml_rules_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(LETTER)
    line = '{"key": "k", "rule": "my_letter", "text": "The answer is (B).", "targets": ["B"]}'
    done = scorer(dict(os.environ), "score", "-", "--rules", str(tmp_path / "rules.yaml"), given=line)
    assert json.loads(done.stdout)["extracted"] == "B"
    (tmp_path / "rules.yaml").write_text("rules: [")
    done = scorer(dict(os.environ), "serve", "--rules", str(tmp_path / "rules.yaml"))
    assert (done.returncode, len(done.stderr.strip().splitlines())) == (2, 1)


def test_the_kit_finds_what_is_wrong() -> None:
    def careless(request: pb.ScoreRequest) -> pb.Verdict:
        tokens = request.text.split()
        return scored(tokens[-1].strip(".!*?"), 0.0) if tokens else unparsed("no_word")

    rule = Rule(name="careless", description="The last word.", read=careless)
    check_cases(rule, [("it is B.", "B")])
    with pytest.raises(AssertionError, match="wanted 'A'"):
        check_cases(rule, [("it is B.", "A")])
    with pytest.raises(AssertionError, match="question"):
        check_invariants(rule, ["it is B."])
    with pytest.raises(AssertionError, match="not a label"):
        check_invariants(rule, ["it is B."], "ACD")


def test_every_name_of_ours_leads_to_a_rule_or_metric_of_that_name() -> None:
    for registry in (rules(), metrics()):
        for name in registry.names():
            assert registry.get(name).name == name
            assert registry.get(name).description


def test_the_hash_of_a_rule_covers_the_modules_that_it_imports(tmp_path: Path) -> None:
    package = tmp_path / "my_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "unrelated.py").write_text("")
    (package / "helper.py").write_text("WORD = 'x'\n")
    (package / "rule.py").write_text(
        "from my_package import helper\nfrom scorer.rule import Rule, scored\n"
        "def read(request):\n    return scored(helper.WORD, 1.0)\n"
        "RULE = Rule(name='helped', description='x', read=read)\n"
    )
    environment = install(tmp_path, "", "[lyncean.rules]\nhelped = my_package.rule:RULE\n")

    def hashed() -> str:
        listed = json.loads(scorer(environment, "rules", "--json").stdout)
        return next(rule["sha256"] for rule in listed["rules"] if rule["name"] == "helped")

    first = hashed()
    (package / "unrelated.py").write_text("# changed\n")
    assert hashed() == first
    (package / "helper.py").write_text("WORD = 'y'\n")
    assert hashed() != first
