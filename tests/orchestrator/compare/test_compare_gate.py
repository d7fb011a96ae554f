"""The gate's language."""

from __future__ import annotations

import pytest
from helpers.report_runs import marvel_run
from hypothesis import given, strategies as st

from lyncean.errors import UserError
from orchestrator.compare import gate
from orchestrator.run_folder.reader import Run, open_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return open_run(marvel_run(tmp_path_factory.mktemp("gate") / "run"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("acc>=0.6", gate.Condition("acc>=0.6", "acc", operator=">=", number=0.6)),
        ("failed <= 1%", gate.Condition("failed <= 1%", "failed", operator="<=", number=0.01)),
        ("m/P^C&F>.05", gate.Condition("m/P^C&F>.05", "P^C&F", task="m", operator=">", number=0.05)),
        ("AVR.low>2e-1", gate.Condition("AVR.low>2e-1", "AVR", part="low", operator=">", number=0.2)),
        (
            "AVR[a=2D-x,b=Two row].answered<0.5",
            gate.Condition("AVR[a=2D-x,b=Two row].answered<0.5", "AVR", part="answered", operator="<", number=0.5,
                           labels=(("a", "2D-x"), ("b", "Two row"))),
        ),
        ("no_regression", gate.Condition("no_regression", "no_regression")),
        ("m/change.low>=-2%", gate.Condition("m/change.low>=-2%", "change", task="m", part="low", number=-0.02)),
    ],
)  # fmt: skip
def test_conditions(text: str, expected: gate.Condition) -> None:
    assert gate.parse(text) == [expected]


def test_commas_separate_conditions_but_not_labels() -> None:
    conditions = gate.parse("acc>=0.6, AVR[a=1,b=2]>0 ,no_regression")
    assert [condition.text for condition in conditions] == ["acc>=0.6", "AVR[a=1,b=2]>0", "no_regression"]


@pytest.mark.parametrize(
    "text", ["", "acc", "acc>=", ">=0.6", "acc=0.6", "acc==0.6", "acc>=0.6,", "acc>=many", "acc>=0.6%%",
             "AVR[pattern]>0", "AVR[=x]>0", "no_regression>1", "acc>=nan", "AVR[a=1>0", "failed<=1e999",
             "AVR[a=1,a=2]>0", "change.low>=-2", "change.answered>=0", "change[a=1]>=0"]
)  # fmt: skip
def test_what_is_none_is_named(text: str) -> None:
    with pytest.raises(UserError, match="--gate"):
        gate.parse(text)


@pytest.mark.parametrize("text", ["failed<=1", "unparsed<5", "cut<=1"])
def test_a_share_above_all_items_is_taken_for_percent_without_its_sign(text: str) -> None:
    with pytest.raises(UserError, match=r"is a share of the items: write \d% or 0.0\d"):
        gate.parse(text)


def test_all_items_are_a_share() -> None:
    assert [condition.number for condition in gate.parse("scored>=1")] == [1.0]


@pytest.mark.parametrize("text", ["acc>=60", "accuracy<=60", "AVR.low>=2"])
def test_a_limit_that_no_share_reaches_is_refused(run: Run, text: str) -> None:
    with pytest.raises(UserError, match=r"is a share: write \d+% or 0\.\d+"):
        gate.judge(gate.parse(text), run, None)
    assert gate.judge(gate.parse("acc<=150%"), run, None)[0].verdict == gate.PASS


@pytest.mark.parametrize("text", ["unparsed[cat=nonsense]<=5%", "rejected.low<=100%", "marvel/rejected[cat=x]<=0"])
def test_an_outcome_has_neither_slices_nor_parts(text: str) -> None:
    with pytest.raises(UserError, match="its share of all planned items"):
        gate.parse(text)


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        conditions = gate.parse(text)
    except UserError:
        return
    assert all(condition.name for condition in conditions)


@pytest.mark.parametrize(
    ("text", "passed"),
    [
        ("acc>=0.44", True),  # 68 of 154
        ("acc>=0.45", False),
        ("accuracy>=44%", True),
        ("avr>=0.44", True),
        ("AVR.answered>=0.47", True),
        ("AVR.low>=0.37", False),
        ("AVR.high<=0.53", True),
        ("AVR[pattern=Temporal Movement]>=0.3", False),
        ("AVR[configuration=Matrix,pattern=Quantities]>=0.2", True),
        ("failed<=0.02", True),
        ("failed<=0.01", False),
        ("unjudged<=0", True),
        ("marvel/refused<2%", True),
    ],
)
def test_a_run_is_held_against_them(run: Run, text: str, passed: bool) -> None:
    (finding,) = gate.judge(gate.parse(text), run, None)
    assert finding.verdict == (gate.PASS if passed else gate.FAIL)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("wer<=0.1", "--gate wer<=0.1: .* has no such metric; it has AVR"),
        ("AVR[pattern=Nonsense]>0", "none with these labels"),
        ("other/AVR>0", "none with these labels"),
        ("other/failed<=0", "has no results of other"),
        ("no_regression", "needs two runs"),
        ("change>=0", "needs two runs"),
    ],
)
def test_what_the_run_has_not_is_a_mistake(run: Run, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        gate.judge(gate.parse(text), run, None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("AVR>=44.2%", "marvel: AVR is 44.16%"),  # 68 of 154 are 44.1558...
        ("AVR>=44.16%", "marvel: AVR is 44.156%"),
        ("AVR>=44.1558%", "marvel: AVR is 44.15584%"),
        ("AVR>=45%", "marvel: AVR is 44.2%"),
    ],
)
def test_no_reason_is_rounded_away(run: Run, text: str, message: str) -> None:
    (finding,) = gate.judge(gate.parse(text), run, None)
    assert finding.what == message
