"""The commands of the benchmarks' pages and of those on data, other tools and other servers, as they stand there.

What a test cannot have (the hub's data, a checkpoint, somebody's server) is replaced, and rows are few.
"""

from __future__ import annotations

import io
import json
import re
import shlex
import sys
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.engine_cluster import HERE, Cluster, Server
from helpers.page_commands import ROOT, commands
from helpers.page_typist import ROWS, Typist, counted, write_rows
from helpers.reform_folder import BUILDER, write_folder
from PIL import Image

from orchestrator.benchmarks.marvel.benchmark import BENCHMARK as MARVEL
from orchestrator.benchmarks.reform.datasets import DATASETS
from orchestrator.benchmarks.visualpuzzles.benchmark import BENCHMARK as PUZZLES
from orchestrator.benchmarks.vstar.benchmark import BENCHMARK as VSTAR

pytestmark = pytest.mark.full

DOCS = ROOT / "docs"
CHECK = ("--only", "info_is_stable")


@pytest.fixture
def typist(tmp_path: Path, demo: Server, shared_scorer: Server, monkeypatch: pytest.MonkeyPatch) -> Typist:
    monkeypatch.chdir(tmp_path)
    names = {"H:P": demo.address, "HOST:50051": demo.address, "127.0.0.1:50051": demo.address}
    return Typist(tmp_path, demo, shared_scorer, names)


def test_vstar(typist: Typist) -> None:
    write_rows(VSTAR, "vstar_bench", typist.folder / "vstar-bench/test.parquet", 4)
    for number, row in enumerate(islice(VSTAR.synthetic("vstar_bench", 0), ROWS)):
        folder = typist.folder / "annotations" / row["category"]
        folder.mkdir(parents=True, exist_ok=True)
        annotation = {"question": "Which?", "options": ["The flag is red.", "The flag is white."], "bbox": []}
        (folder / f"{number}.json").write_text(json.dumps(annotation))
        (folder / f"{number}.png").write_bytes(row.image())
    hub, likelihood, paper, drawn, searched = commands(DOCS / "benchmarks/vstar.md")
    command = [sys.executable, "-m", "tool_server", "serve", str(HERE / "search_tools.py")]
    tools = Server(typist.folder / "tools", command).start()
    typist.names["grpc:H:P"] = f"grpc:{tools.address}"
    typist.names = {name: typist.names[name] for name in sorted(typist.names, key=len, reverse=True)}
    for line in (f"{hub} --data vstar-bench/", likelihood, paper, drawn, searched):
        typist.type(line)
        assert [count["planned"] for count in counted(typist.run).values()] == [ROWS]
    tools.kill()


def tint(file: Path) -> None:
    """Gives the image of each row a background of its own, so that no two puzzles share a panel."""
    table = pq.read_table(file).to_pylist()
    for number, row in enumerate(table):
        image = Image.open(io.BytesIO(row["image"]["bytes"])).convert("RGB")
        image.point([min(value, 255 - number) for value in range(256)] * 3).save(buffer := io.BytesIO(), "PNG")
        row["image"]["bytes"] = buffer.getvalue()
    pq.write_table(pa.Table.from_pylist(table), file)


def test_marvel(typist: Typist) -> None:
    write_rows(MARVEL, "marvel", typist.folder / "marvel.parquet", 40)
    tint(typist.folder / "marvel.parquet")
    described = [
        {"id": row["id"], "description": row["description"]} for row in islice(MARVEL.synthetic("marvel", 0), 3)
    ]
    (typist.folder / "told.jsonl").write_text("".join(json.dumps(row) + "\n" for row in described))
    typist.names["descriptions=FILE"] = "descriptions=told.jsonl"
    data, drawn, report, few_shot, by_words = commands(DOCS / "benchmarks/marvel.md")
    for line, per_row in ((data, 5), (drawn, 5), (few_shot, 1), (by_words, 1)):
        typist.type(line)
        assert [count["planned"] for count in counted(typist.run).values()] == [per_row * ROWS]
        if line == drawn:
            typist.names[" RUN"] = f" {typist.run}"
            assert typist.type(report) == f"{typist.run}/report.html\n"
            assert "published" in (typist.run / "report.html").read_text()


def test_visualpuzzles(typist: Typist, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISUAL_COT", "both")
    drawing = Server(cluster.folder / "both", [sys.executable, str(HERE / "visual_cot_server.py")]).start()
    cluster.servers.append(drawing)
    write_rows(PUZZLES, "VisualPuzzles_direct", typist.folder / "neulab/VisualPuzzles/train.parquet", 10)
    direct, spatial, visual, drawn = commands(DOCS / "benchmarks/visualpuzzles.md")
    typist.type(direct, "--data", "neulab/VisualPuzzles")
    typist.type(spatial)
    typist.type(drawn)
    typist.names = {"generate=H:P": f"generate={drawing.address}", **typist.names}
    typist.type(visual, "--synthetic")


def test_voila(typist: Typist) -> None:
    drawn, images, table, generated = commands(DOCS / "benchmarks/voila.md")
    typist.type(drawn)
    typist.type(images, "--size", "64")
    assert "1,000 questions" in typist.type(table)
    typist.type(generated)


def test_reform(typist: Typist, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    # Captions are measured by Java programs where there is Java, which takes them a minute.
    monkeypatch.setenv("PATH", "/nonexistent")
    typist.scorer = cluster.scorer()
    monkeypatch.undo()
    monkeypatch.chdir(typist.folder)
    write_folder(typist.folder / "DIR", 1)
    checkout = typist.folder / "CHECKOUT/build/VQA"
    checkout.mkdir(parents=True)
    (checkout / "vqa_dataset.py").write_text(BUILDER)
    records = [
        {"sample_id": "a", "answer": 0, "answer_options": ["yes", "no"], "prediction": prediction}
        for prediction in (0, 1)
    ]
    (typist.folder / "TDIUC_SingleChoice_likelihood_M_M.json").write_text(json.dumps(records))
    drawn, dimension, every, prompts, texts, worded, imported, report = commands(DOCS / "reform.md")
    typist.type(drawn)
    typist.type(dimension)
    assert len(counted(typist.run)) == 12
    typist.type(every)
    assert len(counted(typist.run)) == len(DATASETS) == 61
    first, *_ = typist.type(prompts).splitlines()
    assert json.loads(first)["task"] == "reform_visdial"
    typist.type(texts)
    typist.type(worded)
    assert "2 planned = 2 scored" in typist.type(imported)
    assert typist.type(report) == "runs/tdiuc/report.html\n"


def test_coming_from_lmms_eval(typist: Typist) -> None:
    hub = ("--data", "lmms-lab/vstar-bench")
    write_rows(VSTAR, "vstar_bench", typist.folder / hub[1] / "test.parquet")
    typist.names |= {"Qwen/Qwen2.5-VL-7B-Instruct": "demo:hash", " ...": ""}
    first, export, parity, again, importing = commands(DOCS / "coming-from-lmms-eval.md")
    typist.type(first, *hub)
    typist.type(export)
    typist.type(parity, *hub)
    typist.type(again)
    assert counted(typist.folder / "runs/qwen-vstar/parity")
    # What the second command wrote is of the form that the last one reads.
    (written,) = typist.folder.glob("logs/*/*_samples_vstar_bench.jsonl")
    typist.names["logs/MODEL/DATE_samples_vstar_bench.jsonl"] = str(written)
    typist.type(importing)
    assert counted(typist.folder / "runs/theirs") == counted(typist.folder / "runs/qwen-vstar")


def test_offline(typist: Typist) -> None:
    data: list[str] = []
    for task, benchmark in (("vstar_bench", VSTAR), ("VisualPuzzles_direct", PUZZLES)):
        write_rows(benchmark, task, typist.folder / f"{task}.parquet", 10)
        data += ["--data", f"{task}={task}.parquet"]
    typist.names["--model /models/qwen2-vl-7b"] = f"--endpoint {typist.model.address}"
    fetch, offline = commands(DOCS / "offline.md")
    typist.type(fetch, *data)
    for task in ("vstar_bench", "VisualPuzzles_direct"):
        (typist.folder / f"{task}.parquet").unlink()
    typist.type(offline)


def test_demo_model(typist: Typist) -> None:
    sighted, blind, report = commands(DOCS / "demo-model.md")[:3]
    for line in (sighted, blind):
        typist.type(line)
    assert typist.type(report) == "runs/sighted/report.html\nruns/blind/report.html\n"


def test_other_languages(typist: Typist) -> None:
    *_, check, evaluation = commands(DOCS / "other-languages.md")
    assert "passed" in typist.type(check, *CHECK)
    typist.type(evaluation)


def test_plug_your_own(typist: Typist, cluster: Cluster) -> None:
    page = (DOCS / "plug-your-own.md").read_text(encoding="utf-8")
    code, _ = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (cluster.folder / "mine.py").write_text(code)
    example, evaluation, behind = commands(DOCS / "plug-your-own.md")
    python, script, *port = shlex.split(example)
    assert (python, port) == ("python", ["--port", "50051"])
    for path in (ROOT / script, cluster.folder / "mine.py"):
        server = Server(cluster.folder / path.stem, [sys.executable, str(path)]).start()
        cluster.servers.append(server)
        typist.names["127.0.0.1:50051"] = server.address
        typist.type(evaluation)
    _, program, *args = shlex.split(behind)
    assert program == "model-server"
    cluster.servers.append(Server(cluster.folder / "behind", [sys.executable, "-m", "model_server", *args]).start())
