"""Limits on the items without a result in a complete run."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from helpers.commands import orchestrator

from orchestrator.errors import ConfigError, LimitError
from orchestrator.run.checks import check_limits
from orchestrator.run.request import RunRequest, checked


def run_of(folder: Path, **outcomes: int) -> Path:
    counts = {"planned": sum(outcomes.values()), **outcomes}
    (folder / "results.json").write_bytes(orjson.dumps({"tasks": {"t": {"counts": counts}}}))
    return folder


@pytest.mark.parametrize("name", ["unparsed", "failed", "rejected", "unjudged"])
def test_a_larger_share_than_allowed_is_said(tmp_path: Path, name: str) -> None:
    run = run_of(tmp_path, scored=6, **{name: 4})
    check_limits(run, RunRequest("t"))
    check_limits(run, RunRequest("t", **{f"max_{name}": 0.4}))
    with pytest.raises(LimitError, match=f"4 of 10 items are {name}, --max-{name} allows 39.0%") as caught:
        check_limits(run, RunRequest("t", **{f"max_{name}": 0.39}))
    assert caught.value.exit_code == 4


def test_a_run_of_which_one_item_was_read_is_judged(tmp_path: Path) -> None:
    check_limits(run_of(tmp_path, unjudged=3, unparsed=1), RunRequest("t"))


def test_a_share_is_written_as_gates_have_it() -> None:
    assert checked(RunRequest("t", max_failed="10%", max_rejected=0.5)).max_failed == 0.1  # type: ignore[arg-type]
    for wrong in ("110%", "ten%", "%"):
        with pytest.raises(ConfigError, match="max_failed"):
            checked(RunRequest("t", max_failed=wrong))  # type: ignore[arg-type]
    arguments = ["eval", "--task", "marvel", "--synthetic", "--limit", "1", "--dry-run", "--max-failed"]
    orchestrator(*arguments, "10%")
    for wrong in ("110%", "ten%", "-1%"):
        assert "--max-failed" in orchestrator(*arguments, wrong, code=2)
