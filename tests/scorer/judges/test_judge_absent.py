"""Commands whose judge is absent, hangs, or lacks the model: they report what they wait for, and end."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from helpers.judge_server import Vendor

from scorer.cli import calibrate, score, waiting
from scorer.judges import model_service
from scorer.judges.cache import Cache


@pytest.fixture
def vendor() -> Vendor:
    return Vendor(lambda _: {"explanation": "because", "correct": True})


@pytest.fixture
def nobody() -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{probe.getsockname()[1]}"


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "EVERY_SECONDS", 0.1)
    monkeypatch.setattr(model_service, "REACH_SECONDS", 1.0)


def calibrated(tmp_path: Path, *options: str) -> Result:
    cache = ["--judge-cache", str(tmp_path / "judge.sqlite")]
    return CliRunner().invoke(calibrate.command, ["--set", "open_answer", *cache, *options])


def test_a_dead_address_is_named_with_what_to_do(nobody: str, tmp_path: Path) -> None:
    done = calibrated(tmp_path, "--judge", f"openai:m@http://me:s3cret@{nobody}/v1")
    assert done.exit_code == 3
    assert f"0 of 30 cases replied to; waiting for openai:m@http://***@{nobody}/v1" in done.stderr
    last = done.stderr.splitlines()[-1]
    assert f"{nobody}/v1/ cannot be reached" in last
    assert "is it running there?" in last
    assert "s3cret" not in done.output
    assert not done.stdout
    assert Cache(str(tmp_path / "judge.sqlite")).calibrations(f"openai:m@http://***@{nobody}/v1") == []


def test_a_dead_grpc_address_is_named(nobody: str, tmp_path: Path) -> None:
    done = calibrated(tmp_path, "--judge", f"grpc:{nobody}")
    assert done.exit_code == 3
    assert f"the judge at {nobody}" in done.stderr
    assert "is it running there?" in done.stderr


def test_a_panel_of_which_nobody_replies_is_named(nobody: str, tmp_path: Path) -> None:
    done = calibrated(tmp_path, "--judge", f"grpc:{nobody}", "--judge", f"grpc:{nobody}")
    assert done.exit_code == 3
    assert f"the judge at {nobody}" in done.stderr


def test_a_server_that_hangs_is_given_up_after_one_timeout(url: str, vendor: Vendor, tmp_path: Path) -> None:
    vendor.lasting = "hang"
    done = calibrated(tmp_path, "--judge", f"openai:m@{url}", "--judge-timeout", "0.5")
    assert done.exit_code == 3
    assert "within 0.5 s" in done.stderr
    assert "--judge-timeout" in done.stderr.splitlines()[-1]
    # Only the first cases were sent: what hangs may have been charged.
    assert len({json.dumps(body["messages"]) for body in vendor.requests}) == 2


def test_a_wrong_model_is_said_at_once(url: str, vendor: Vendor, tmp_path: Path) -> None:
    vendor.lasting = "404"
    done = calibrated(tmp_path, "--judge", f"openai:gpt-none@{url}")
    assert done.exit_code == 3
    assert "404: The model `gpt-none` does not exist" in done.stderr
    assert "the model's name" in done.stderr
    assert len(vendor.requests) == 2


def test_what_was_measured_without_every_reply_is_not_kept(url: str, vendor: Vendor, tmp_path: Path) -> None:
    judge = f"openai:m@{url}"
    cache = Cache(str(tmp_path / "judge.sqlite"))
    vendor.faults = ["", "", "", "404"]
    done = calibrated(tmp_path, "--judge", judge)
    assert done.exit_code == 3
    assert "not kept" in done.stderr
    assert cache.calibrations(judge) == []
    again = calibrated(tmp_path, "--judge", judge)
    assert again.exit_code == 0
    assert len(vendor.requests) == 31
    assert set(vendor.asked.values()) == {1}
    assert [decisions for _, _, decisions in cache.calibrations(judge)] == [30]


def test_an_unusable_reply_is_the_judges_own(url: str, vendor: Vendor, tmp_path: Path) -> None:
    vendor.lasting = "refusal"
    done = calibrated(tmp_path, "--judge", f"openai:m@{url}")
    assert done.exit_code == 0
    assert "agrees with 0 of 30" in done.stdout
    assert "30 without a usable reply" in done.stdout
    assert set(vendor.asked.values()) == {1}


def test_no_case_is_a_mistake(url: str, tmp_path: Path) -> None:
    (tmp_path / "none.jsonl").write_text("")
    done = calibrated(tmp_path, "--judge", f"openai:m@{url}", "--cases", str(tmp_path / "none.jsonl"))
    assert done.exit_code == 2
    assert "holds no case" in done.stderr


@pytest.mark.full
def test_scoring_says_whom_it_waits_for_and_what_became_of_it(nobody: str, tmp_path: Path) -> None:
    lines = [{"key": str(n), "rule": "judge_answer", "text": f"blue {n}", "targets": ["blue"]} for n in range(3)]
    (tmp_path / "items.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    command_line = [str(tmp_path / "items.jsonl"), "--judge", f"openai:m@http://{nobody}/v1"]
    done = CliRunner().invoke(score.command, [*command_line, "--judge-cache", str(tmp_path / "judge.sqlite")])
    assert done.exit_code == 0
    assert f"3 items wait for openai:m@http://{nobody}/v1" in done.stderr
    assert [json.loads(line)["reason"] for line in done.stdout.splitlines()] == ["judge_unreachable"] * 3
    last = done.stderr.splitlines()[-1]
    assert last.startswith("unjudged: 3 items")
    assert f"{nobody}/v1/ cannot be reached" in last
