"""The rules: one file each, imported when a request names it."""

from __future__ import annotations

from collections.abc import Iterable

from scorer.registry import Registry
from scorer.rule import AnyRule, JudgedRule, Rule

MODULES = {
    name: f"scorer.rules.{name}"
    for name in (
        "anls", "box", "caption", "choice", "choice_number", "contains_word", "count", "judge_answer",
        "judge_rubric", "judge_steps", "key_information", "likelihood", "lmms_visualpuzzles", "lmms_vstar", "number",
        "reform_choice", "reform_kie", "reform_ocr", "two_way", "vqa", "yes_no",
    )
} | {
    "voila_properties": "scorer.rules.voila.properties",
    "judge_voila": "scorer.rules.voila.judged",
    "judge_voila_image": "scorer.rules.voila.judged_image",
    "harness_task": "lyncean_harnesses.scoring.rule",
    "vlmevalkit": "lyncean_harnesses.scoring.vlmevalkit_rule",
}  # fmt: skip
"""Rule -> module that exports it as `RULE`; modules of an extension that is not installed are skipped."""


def rules(extra: Iterable[AnyRule] = ()) -> Registry[AnyRule]:
    """Returns the registry of all rules: ours, users' entry points, and `extra`."""
    return Registry("rule", MODULES, (Rule, JudgedRule), extra)
