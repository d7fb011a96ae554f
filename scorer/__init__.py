"""ScorerService: extraction rules, judges and metrics. Public names are imported on use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyncean.plugins.face import face

if TYPE_CHECKING:
    from scorer.errors import RequestError as RequestError
    from scorer.foreign_tasks import (
        ForeignTasks as ForeignTasks,
        allow as allow_foreign,
        allowed as foreign_allowed,
        check_code as check_code,
    )
    from scorer.rule import JudgedRule as JudgedRule, Rule as Rule, scored as scored, unparsed as unparsed
    from scorer.rules import rules as rule_registry

__all__ = ["allow_foreign", "foreign_allowed", "rule_registry"]  # mypy takes a renamed import for public by this alone

__getattr__ = face(
    __name__,
    {
        "errors": "RequestError",
        "foreign_tasks": "ForeignTasks allow:allow_foreign allowed:foreign_allowed check_code",
        "rule": "JudgedRule Rule scored unparsed",
        "rules": "rules:rule_registry",
    },
)
