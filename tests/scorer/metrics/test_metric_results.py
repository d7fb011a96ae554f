"""Every metric on items whose value is computed by hand or by another library."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers.scorer_asking import measure, passed, spec, summarize
from scipy import stats

from lyncean.scorer.v1 import scorer_pb2 as pb


def scored(key: str, score: float, extracted: str = "", **fields: object) -> pb.ScoreRequest:
    item = passed(key, "scored", score, **fields)
    item.verdict.extracted = extracted
    return item


def test_accuracy_over_planned_and_over_answered() -> None:
    items = [scored(str(n), float(n < 3)) for n in range(5)]
    items += [passed("u", "unparsed", 0.0), passed("r", "refused", 0.0), passed("f", "failed"), passed("j", "rejected")]
    result = measure(items, "accuracy")
    assert result.value == pytest.approx(3 / 9)
    assert result.value_answered == pytest.approx(3 / 6)
    assert (result.denominator, result.denominator_answered) == (9, 6)
    wilson = stats.binomtest(3, 9).proportion_ci(method="wilson")
    assert (result.interval.low, result.interval.high) == pytest.approx((wilson.low, wilson.high))
    assert (result.interval.method, result.interval.level) == ("wilson", 0.95)


def test_percent_scales_value_and_interval() -> None:
    items = [scored(str(n), float(n < 191)) for n in range(770)]
    result = measure(items, "accuracy", unit="percent")
    assert round(result.value, 2) == 24.81
    assert result.unit == "percent"
    assert 20 < result.interval.low < 24.81 < result.interval.high < 30


def test_clusters_widen_the_interval_as_scipy_finds() -> None:
    rng = np.random.default_rng(5)
    groups = [rng.binomial(5, p) for p in rng.beta(0.5, 0.5, 60)]
    items = [scored(f"{g}/{n}", float(n < right), group=str(g)) for g, right in enumerate(groups) for n in range(5)]
    clustered, independent = measure(items, "accuracy"), measure(items, "accuracy", cluster=False)
    assert clustered.value == independent.value
    assert clustered.interval.method == "wilson over clusters"
    assert independent.interval.method == "wilson"
    width = clustered.interval.high - clustered.interval.low
    assert width > 1.3 * (independent.interval.high - independent.interval.low)
    reference = stats.bootstrap((np.array(groups) / 5,), np.mean, method="percentile", n_resamples=9999, rng=1)
    assert clustered.interval.low == pytest.approx(reference.confidence_interval.low, abs=0.02)
    assert clustered.interval.high == pytest.approx(reference.confidence_interval.high, abs=0.02)


def test_partial_credit_gets_a_bootstrap() -> None:
    values = np.random.default_rng(3).beta(2, 5, 200)
    result = measure([scored(str(n), float(value)) for n, value in enumerate(values)], "mean")
    reference = stats.bootstrap((values,), np.mean, method="percentile", n_resamples=9999, rng=1)
    assert result.value == pytest.approx(values.mean())
    assert result.interval.method == "bootstrap over items, 2000 draws"
    assert result.interval.low == pytest.approx(reference.confidence_interval.low, abs=0.01)
    assert result.interval.high == pytest.approx(reference.confidence_interval.high, abs=0.01)


def test_few_or_very_many_items_of_partial_credit_get_students_interval() -> None:
    for number in (2, 12, 12_000):
        # A score above 1 might have been much higher: few such values have no bounds.
        values = np.random.default_rng(3).beta(2, 5, number) * (1 if number > 40 else 4)
        result = measure([scored(str(n), float(value)) for n, value in enumerate(values)], "mean")
        low, high = stats.t.interval(0.95, number - 1, values.mean(), stats.sem(values))
        assert result.interval.method == "t over items"
        assert (result.interval.low, result.interval.high) == pytest.approx((low, high))


def test_few_items_of_partial_credit_get_an_interval_that_knows_of_rare_scores() -> None:
    scores = [1.0] * 36 + [0.75, 0.5, 0.5]
    items = [scored(str(n), score) for n, score in enumerate(scores)]
    few, more = (measure(sample, "mean").interval for sample in (items, [*items, scored("40", 1.0), scored("41", 1.0)]))
    assert (few.method, more.method) == ("Gaffke over items", "bootstrap over items, 2000 draws")
    # Among 39 items a rate of one in eleven zeros may go unnoticed.
    assert 0.85 < few.low < 0.89
    assert measure(items[::-1], "mean").interval == few


@pytest.mark.parametrize("metric", ["mean", "consistency", "pass_at", "instability"])
def test_an_interval_says_nothing_that_cannot_be(metric: str) -> None:
    """Few values close to a bound: the interval must not go beyond it."""
    answers = {"a": "AAA", "b": "AAA", "c": "ABB" if metric == "pass_at" else "AAB"}
    items = [item for sample, texts in answers.items() for item in repeats(sample, texts, "A")]
    if metric == "mean":
        items = [scored(str(n), score) for n, score in enumerate((1.0, 1.0, 0.75))]
    low, high = (0.0, math.inf) if metric == "instability" else (0.0, 1.0)
    result = measure(items, metric, **({"k": 2} if metric == "pass_at" else {}))
    assert result.interval.method.startswith("t over" if metric == "instability" else "Gaffke over")
    assert low <= result.interval.low < result.value < result.interval.high <= high


def test_a_part_that_is_no_share_has_no_bounds() -> None:
    items = [scored(str(n), 1.0) for n in range(3)]
    for item, margin in zip(items, (0.9, 1.0, 0.2), strict=True):
        item.verdict.scores["margin"] = margin
    free, share = (measure(items, "mean", part="margin", unit=unit).interval for unit in ("fraction", "percent"))
    assert free.high > 1
    assert share.high <= 100


def test_clusters_of_partial_credit_agree_with_scipys_bootstrap() -> None:
    rng = np.random.default_rng(8)
    groups = [np.clip(rng.normal(mean, 0.1, rng.integers(1, 6)), 0.01, 0.99) for mean in rng.uniform(0.2, 0.8, 80)]
    items = [
        scored(f"{g}/{n}", float(v), group=str(g)) for g, values in enumerate(groups) for n, v in enumerate(values)
    ]
    sums, sizes = np.array([g.sum() for g in groups]), np.array([float(len(g)) for g in groups])

    def ratio(sums: np.ndarray, sizes: np.ndarray, axis: int) -> np.ndarray:
        return sums.sum(axis) / sizes.sum(axis)

    reference = stats.bootstrap((sums, sizes), ratio, paired=True, method="percentile", n_resamples=9999, rng=1)
    result = measure(items, "mean")
    assert result.value == pytest.approx(sums.sum() / sizes.sum())
    assert result.interval.method == "bootstrap over clusters, 2000 draws"
    assert result.interval.low == pytest.approx(reference.confidence_interval.low, abs=0.005)
    assert result.interval.high == pytest.approx(reference.confidence_interval.high, abs=0.005)


def test_clusters_of_one_item_are_no_clusters() -> None:
    items = [scored(str(n), float(n % 3 == 0), group=str(n)) for n in range(30)]
    assert measure(items, "accuracy").interval == measure(items, "accuracy", cluster=False).interval


def test_all_right_in_a_few_clusters_is_no_certainty() -> None:
    result = measure([scored(f"{g}/{n}", 1.0, group=str(g)) for g in range(4) for n in range(10)], "accuracy")
    wilson = stats.binomtest(4, 4).proportion_ci(method="wilson")
    assert result.interval.method == "wilson over clusters"
    assert result.interval.low < wilson.low
    assert result.interval.high == 1.0


def test_one_cluster_or_equal_partial_scores_have_no_interval() -> None:
    assert not measure([scored(str(n), float(n % 2), group="g") for n in range(9)], "accuracy").HasField("interval")
    assert not measure([scored("1", 0.5)], "accuracy").HasField("interval")
    alike = [scored(f"{g}/{n}", n / 2, group=str(g)) for g in range(9) for n in range(3)]
    assert not measure(alike, "accuracy").HasField("interval")
    assert not measure([scored(str(n), 0.5) for n in range(9)], "accuracy").HasField("interval")


def test_mean_of_a_part_counts_a_missing_one_as_zero_and_says_so() -> None:
    items = [scored(str(n), 1.0) for n in range(4)]
    for item, part in zip(items, (1.0, 0.5, 0.0), strict=False):
        item.verdict.scores["number"] = part
    result = measure(items, "mean", part="number")
    assert result.value == 1.5 / 4
    assert result.details["scored_without_part"] == 1


def test_group_all_is_all_or_nothing() -> None:
    right = {"1": (1, 1, 1), "2": (1, 1, 0), "3": (1, 1, 1), "4": (0, 0, 0)}
    items = [
        scored(f"{g}:{n}", float(s), group=g, labels={"kind": "coarse" if n < 2 else "fine"})
        for g, scores in right.items()
        for n, s in enumerate(scores)
    ]
    items[6].verdict.CopyFrom(pb.Verdict(outcome="failed"))  # group 3's first
    result = {
        f.name: f
        for f in summarize(items, spec("all", "group_all"), spec("c", "group_all", where={"kind": ["coarse"]})).metrics
    }
    assert (result["all"].value, result["all"].denominator) == (1 / 4, 4)
    assert (result["all"].value_answered, result["all"].denominator_answered) == (1 / 3, 3)
    assert result["c"].value == 2 / 4
    assert result["all"].details["items_in_largest_group"] == 3


def test_group_all_takes_each_repeat_for_itself() -> None:
    items = [scored(f"t/1{r}:{q}", float(r == "" or q == "a"), group="1") for r in ("", "#1") for q in "ab"]
    result = measure(items, "group_all")
    assert (result.value, result.denominator) == (0.5, 2)


def test_rate_of_outcome_and_reason() -> None:
    items = [scored("1", 1.0), passed("2", "unparsed", 0.0), passed("3", "unparsed", 0.0), passed("4", "failed")]
    items[2].verdict.reason = "no_choice"
    assert measure(items, "rate", outcome="unparsed").value == 0.5
    assert measure(items, "rate", outcome="unparsed").value_answered == pytest.approx(2 / 3)
    assert measure(items, "rate", reason="no_choice").value == 0.25
    failed = measure(items, "rate", outcome="failed")
    assert failed.value == 0.25
    assert not failed.HasField("value_answered")


def test_choice_bias_of_a_constant_answer() -> None:
    keys = [n % 4 for n in range(40)]
    items = [
        scored(str(n), float(key == 0), "A", targets=["ABCD"[key]], options=["cat", "dog", "cow", "hen"])
        for n, key in enumerate(keys)
    ]
    result = measure(items, "choice_bias")
    assert result.value == pytest.approx(0.75)
    details = result.details
    assert details["constant"] is True
    assert (details["majority"], details["majority_share"]) == ("A", 1.0)
    assert dict(details["chosen"]) == {"A": 1.0}
    assert (details["accuracy_elsewhere"], details["items_elsewhere"]) == (0.0, 30)


def test_choice_bias_of_a_fair_model_and_options_that_are_digits() -> None:
    rng = np.random.default_rng(0)
    items = []
    for n in range(400):
        key, pick = rng.integers(1, 5), rng.integers(1, 5)
        items.append(scored(str(n), float(key == pick), str(pick), targets=[str(key)], options=["1", "2", "3", "4"]))
    result = measure(items, "choice_bias")
    assert result.value < 0.1
    assert sorted(result.details["key"]) == ["1", "2", "3", "4"]
    assert result.details["constant"] is False
    assert result.details["p_value"] > 0.01


def test_choice_bias_names_texts_by_place() -> None:
    items = [scored("1", 0.0, "dog", targets=["cat"], options=["cat", "dog"])]
    result = measure(items, "choice_bias")
    assert dict(result.details["chosen"]) == {"B": 1.0}
    assert dict(result.details["key"]) == {"A": 1.0}


def test_choice_bias_leaves_out_what_was_not_read_and_survives_free_answers() -> None:
    items = [scored(str(n), 0.0, f"word {n}", targets=[f"other {n}"]) for n in range(200)]
    items += [scored("empty", 1.0, "", targets=["a"]), passed("u", "unparsed", 0.0, targets=["a"])]
    result = measure([*items, scored("k", 1.0, "a")], "choice_bias")
    assert (result.denominator, result.value) == (200, 1.0)
    assert result.details["items_without_answer_or_key"] == 3
    assert "chosen" not in result.details


def repeats(sample: str, answers: str, right: str, options: str = "") -> list[pb.ScoreRequest]:
    return [
        scored(f"t/{sample}" + (f"#{n}" if n else ""), float(answer == right), answer, options=list(options))
        for n, answer in enumerate(answers)
    ]


def test_instability_is_entropy_in_nats() -> None:
    result = measure([*repeats("1", "AAAA", "A"), *repeats("2", "AABB", "A"), *repeats("3", "A", "A")], "instability")
    assert result.value == pytest.approx(math.log(2) / 2)
    assert (result.denominator, result.unit) == (2, "nats")
    assert result.details["stable"] == 0.5


def test_instability_follows_the_text_of_permuted_options() -> None:
    items = [
        scored("t/1", 1.0, "A", options=["cat", "dog"]),
        scored("t/1#1", 1.0, "B", options=["dog", "cat"]),
        scored("t/1#2", 1.0, "cat", options=["dog", "cat"]),
    ]
    assert measure(items, "instability").value == 0.0
    assert measure(items, "consistency").value == 1.0


@pytest.mark.parametrize(
    ("rule", "labels", "texts"),
    [("choice", "ABD", ("BADC", "ABCD", "CADB")), ("choice_number", "124", ("2143", "1234", "3142"))],
)
def test_a_label_is_a_label_although_another_option_reads_so(rule: str, labels: str, texts: tuple[str, ...]) -> None:
    def repeated(*answers: str) -> list[pb.ScoreRequest]:
        return [
            scored(f"t/1#{n}", 1.0, answer, rule=rule, options=list(shown), targets=[label])
            for n, (answer, shown, label) in enumerate(zip(answers, texts, labels, strict=True))
        ]

    steady, first = repeated(*labels), repeated(*labels[0] * 3)
    assert measure(steady, "instability").value == 0.0
    assert measure(steady, "consistency").value == 1.0
    assert measure(first, "instability").value == pytest.approx(math.log(3))
    assert measure(first, "consistency").value == 0.0
    assert dict(measure(first, "choice_bias").details["chosen"]) == {labels[0]: 1.0}


def test_a_text_is_a_text_although_it_is_the_label_of_another() -> None:
    items = [
        scored(f"t/1#{n}", 1.0, "2", rule=rule, options=options, targets=["2"])
        for n, (rule, options) in enumerate(
            [("two_way", ["2", "1"]), ("likelihood", ["3", "2", "1"]), ("", ["2", "1"])]
        )
    ]
    items += [scored("t/1#3", 1.0, "B", rule="choice", options=["3", "2", "1"], targets=["2"])]
    assert measure(items, "instability").value == 0.0


def test_instability_keeps_turns_of_an_episode_apart() -> None:
    items = [scored(f"t/1{r}:{turn}", 1.0, turn) for r in ("", "#1") for turn in ("a", "b")]
    result = measure(items, "instability")
    assert (result.value, result.denominator) == (0.0, 2)


def test_consistency_is_the_share_of_agreeing_pairs() -> None:
    items = [*repeats("1", "AAB", "A"), *repeats("2", "BB", "A"), passed("t/2#2", "failed")]
    result = measure(items, "consistency")
    assert result.value == pytest.approx((1 / 3 + 1 / 3) / 2)
    assert result.value_answered == pytest.approx((1 / 3 + 1) / 2)
    assert result.details["unanimous"] == 0.0
    assert result.details["majority_accuracy"] == 0.5


def test_pass_at_k_and_all_of_k() -> None:
    items = [*repeats("1", "AAB", "A"), *repeats("2", "BBB", "A"), *repeats("3", "A", "A")]
    result = measure(items, "pass_at", k=2)
    assert result.value == pytest.approx((1 + 0) / 2)
    assert result.details["samples_with_fewer_than_k"] == 1
    assert measure(items, "pass_at", k=2, all=True).value == pytest.approx((1 / 3 + 0) / 2)
    assert measure(items, "pass_at").value == pytest.approx((2 / 3 + 0 + 1) / 3)


def test_multi_round_correlation_and_slope() -> None:
    items = [scored(f"{r}/{n}", float(n < 8 - 2 * r), labels={"round": str(r)}) for r in range(1, 4) for n in range(10)]
    result = measure([*items, scored("x", 1.0)], "multi_round")
    assert result.value == pytest.approx(-1.0)
    assert result.details["slope"] == pytest.approx(-0.2)
    assert [row["mean"] for row in result.details["rounds"]] == [0.6, 0.4, 0.2]
    assert result.details["items_without_round"] == 1
    flat = measure(items[:10], "multi_round")
    assert not flat.HasField("value")
    assert flat.details["slope"] == 0
    broken = measure([scored("x", 1.0, labels={"round": "two"})], "multi_round")
    assert "'two', not a number" in broken.details["metric_failed"]
    assert not broken.HasField("value")


def test_calibration_error_by_hand() -> None:
    items = []
    for n, (sure, right) in enumerate([(0.95, 1), (0.91, 1), (1.0, 0), (0.55, 1), (0.6, 0), (0.51, 0)]):
        item = scored(str(n), float(right))
        item.verdict.scores["probability"] = sure
        items.append(item)
    result = measure([*items, scored("x", 1.0), passed("y", "failed")], "calibration")
    high, low = abs((0.95 + 0.91 + 1.0) / 3 - 2 / 3), abs((0.55 + 0.6 + 0.51) / 3 - 1 / 3)
    assert result.value == pytest.approx((3 * high + 3 * low) / 6)
    assert result.details["largest_gap"] == pytest.approx(max(high, low))
    assert result.details["items_without_probability"] == 2
    assert result.denominator == 6


def test_a_number_has_an_interval_or_the_reason_why_not() -> None:
    items = []
    for n in range(60):
        fields = {"targets": ["A"], "group": str(n // 4), "labels": {"round": str(n % 3)}}
        items.append(scored(f"t/{n}", float(n * n % 7 > n % 3), "AB"[n % 2], **fields))
    for item in items:
        item.verdict.scores["probability"] = 0.5
    for metric in ("accuracy", "choice_bias", "calibration", "multi_round", "reform_instability", "group_all"):
        result = measure(items, metric)
        assert result.HasField("value"), metric
        assert result.HasField("interval") != ("no_interval" in result.details), metric
    bias, rounds = measure(items, "choice_bias"), measure(items, "multi_round")
    assert "biased upwards" in bias.details["no_interval"]
    assert rounds.interval.method == "bootstrap over groups, 1000 draws"
    assert -1 <= rounds.interval.low <= rounds.value <= rounds.interval.high <= 1
    resampled = measure(items, "choice_bias", bootstrap="groups")
    assert resampled.HasField("interval")
    assert "no_interval" not in resampled.details
    alike = measure([scored(str(n), 0.5) for n in range(9)], "accuracy")
    assert alike.details["no_interval"] == "all samples have the same value, or are in one group"
