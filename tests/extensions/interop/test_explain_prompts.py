"""orchestrator explain: the prompt of another harness, whose samples are imported, is tried with our images."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from click.testing import CliRunner
from helpers.engine_cluster import HERE, Server
from helpers.planted import evaluate, explain, planted

from orchestrator.cli import main


def test_the_prompt_of_another_harness_is_tried_with_our_images(shared_scorer: Server, tmp_path: Path) -> None:
    """Its samples have the words and the answers, and neither images nor settings."""
    planted(tmp_path, ["suffix"])
    model = Server(tmp_path / "server", [sys.executable, str(HERE / "explain_server.py")]).start()
    try:
        first, second = (
            evaluate(tmp_path, side, f"run-{side}", model, shared_scorer, "suffix") for side in ("first", "second")
        )
        tried_with_our_images(first, second, model, shared_scorer, tmp_path)
    finally:
        model.kill()


def tried_with_our_images(first: Path, second: Path, model: Server, shared_scorer: Server, tmp_path: Path) -> None:
    samples = []
    for line in map(json.loads, (second / "responses.jsonl").read_text().splitlines()):
        if line["task"] == "suffix":
            (prompt,) = (part["text"] for part in line["request"]["messages"][0]["parts"] if "text" in part)
            answer = line["response"]["parts"][0]["text"]
            samples.append(
                {"doc_id": int(line["key"].split("/")[1]), "doc": {}, "target": line["scoring"]["targets"][0],
                 "arguments": {"gen_args_0": {"arg_0": prompt, "arg_1": ""}}, "resps": [[answer]],
                 "filtered_resps": [answer], "metrics": ["acc"], "acc": 1.0}
            )  # fmt: skip
    path = tmp_path / "samples_suffix_2026-11-24T00-06-01.436358.jsonl"
    path.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    scorer = ["--scorer", shared_scorer.address]
    CliRunner().invoke(main, ["import", "lm-eval", str(path), "--run", str(tmp_path / "theirs"), *scorer])
    options = ["--endpoint", model.address, *scorer, "--limit", "500"]
    result = explain(first, tmp_path / "theirs", *options, "--json")
    assert result.exit_code == 0, (result.output, result.exception)
    explanation = json.loads(result.stdout)
    (cause,) = explanation["tasks"][0]["causes"]
    assert (cause["cause"], cause["also"], cause["not_recorded"]) == ("prompt", ["server"], ["image", "decoding"])
    assert {item["found"] for item in explanation["experiment"]["items"]} == {"prompt"}
    assert explanation["experiment"]["same_as"] == [True, False]
    assert "reproduced by" in explain(first, tmp_path / "theirs", *options).stdout
