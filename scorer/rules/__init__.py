"""The rules: one file each, imported when a request names it."""

from __future__ import annotations

from collections.abc import Iterable

from scorer.registry import Registry
from scorer.rule import AnyRule, JudgedRule, Rule

MODULES = {
    "choice": "scorer.rules.choice",
    "choice_number": "scorer.rules.choice_number",
    "count": "scorer.rules.count",
    "two_way": "scorer.rules.two_way",
    "likelihood": "scorer.rules.likelihood",
    "contains_word": "scorer.rules.contains_word",
    "key_information": "scorer.rules.key_information",
    "caption": "scorer.rules.caption",
    "voila_properties": "scorer.rules.voila.properties",
    "judge_voila": "scorer.rules.voila.judged",
    "judge_voila_image": "scorer.rules.voila.judged_image",
    "lmms_vstar": "scorer.rules.lmms_vstar",
    "lmms_visualpuzzles": "scorer.rules.lmms_visualpuzzles",
    "reform_choice": "scorer.rules.reform_choice",
    "reform_ocr": "scorer.rules.reform_ocr",
    "reform_kie": "scorer.rules.reform_kie",
    "judge_answer": "scorer.rules.judge_answer",
    "harness_task": "scorer.rules.harness_task",
    "vlmevalkit": "scorer.rules.vlmevalkit",
}
"""Rule -> module whose `RULE` it is."""


def rules(extra: Iterable[AnyRule] = ()) -> Registry[AnyRule]:
    """Returns the registry of all rules: ours, users' entry points, and `extra`."""
    return Registry("rule", MODULES, (Rule, JudgedRule), extra)
