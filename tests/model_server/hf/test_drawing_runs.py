"""Benchmarks whose models draw, from end to end with a tiny Emu3: nothing it says is right, all of it is carried on."""

from __future__ import annotations

import hashlib
import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.engine_cluster import Cluster, Server
from PIL import Image

pytest.importorskip("torch")

COT = "VisualPuzzles_visual_cot"


@pytest.mark.full
def test_visual_cot_and_voilas_fourth_step(
    cluster: Cluster, shared_scorer: Server, checkpoint_folder: Callable[[str], Path]
) -> None:
    module = [sys.executable, "-m"]
    model = ["--model", str(checkpoint_folder("emu3")), "--device", "cpu", "--processor", "image_area=1024"]
    command = [*module, "model_server", "serve", "--backend", "transformers", *model]
    server = Server(cluster.folder / "emu3", command).start()
    grades = 'constant:{"number": 0, "subject_type": 0, "action": 0}'
    judge = Server(cluster.folder / "judge", [*module, "model_server", "serve", "--model", grades]).start()
    command = [*module, "scorer", "serve", "--judge", f"grpc:{judge.address}"]
    scorer = Server(cluster.folder / "scorer", command).start()
    cluster.servers += [server, judge, scorer]
    options = ("--limit", "1", "--generation", "max_output_tokens=30", "--max-unparsed", "1")
    cluster.eval("cot", [server], shared_scorer, "--task", COT, *options)
    cluster.eval("voila", [server], scorer, "--task", "voila_wd", "--set", "steps=4", *options)
    lines: dict[str, Any] = {line["key"]: line for run in ("cot", "voila") for line in cluster.lines(run)}
    drawn = {name: line for name, line in lines.items() if name.endswith((":diagram", ":step4"))}
    assert len(drawn) == 2
    for name, line in drawn.items():
        (part,) = line["response"]["parts"]
        run = "cot" if COT in name else "voila"
        data = (cluster.folder / run / "images" / part["image"]["sha256"]).read_bytes()
        assert hashlib.sha256(data).hexdigest() == part["image"]["sha256"]
        assert Image.open(io.BytesIO(data)).size == (32, 32)
        prompt_parts = [part for message in line["request"]["messages"] for part in message["parts"]]
        assert sum("image" in part for part in prompt_parts) == (1 if COT in name else 0), "Visual CoT shows the puzzle"
        answer = lines.get(name.replace(":diagram", ":answer"))
        if run == "cot":
            sent = answer["request"]["messages"][0]["parts"]  # type: ignore[index]
            assert sent[1]["image"]["sha256"] == part["image"]["sha256"]
    assert cluster.counts("cot", COT)["failed"] == 0
    counts = cluster.counts("voila", "voila_wd")
    assert (counts["failed"], counts["unjudged"]) == (0, 0)
    assert counts["scored"] >= 1, "the judge has graded what was drawn"
