"""Tables remade from one command: models that answer as a printed row come out as that row, cell by cell."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from helpers.bench_scoring import shared_data
from helpers.engine_cluster import HERE, Cluster, Server
from helpers.label_runs import say
from helpers.mistakes import mistake
from helpers.report_runs import Writer, accuracy, sliced
from PIL import Image

from orchestrator.cli import main
from orchestrator.papers.remade import Cell, Verdict, judge, remake
from orchestrator.papers.suites import Runs
from orchestrator.papers.tables import Column, Table, papers
from orchestrator.run_folder.reader import open_run


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("oracle"), [sys.executable, str(HERE / "oracle_server.py")]).start()
    yield server
    server.kill()


def models(cluster: Cluster, name: str, server: Server, scorer: Server, data: Path) -> Path:
    file = cluster.folder / "models.yaml"
    options = {"scorer": scorer.address, "data": str(data)}
    file.write_text(json.dumps({"models": {name: {"endpoint": server.address}}, "options": options}))
    return file


def reproduce(cluster: Cluster, *options: str, code: int = 0) -> list[dict[str, Any]]:
    """The tables that a command prints as JSON, beside its progress."""
    output = cluster.orchestrator("reproduce", *options, "--run", str(cluster.folder / "made"), "--json", code=code)
    tables, _ = json.JSONDecoder().raw_decode(output[output.index("[\n  {") :])
    return tables


def annotations(folder: Path, row: list[float | None]) -> Path:
    """V*-Bench's 191 questions, as many of which say that they are answered right as a printed row has it."""
    for name, count, printed in (("direct_attributes", 115, row[0]), ("relative_position", 76, row[1])):
        (folder / name).mkdir(parents=True)
        right = -(-round(float(printed or 0) * count) // 100)  # the next count: the cells are truncated
        for number in range(count):
            options = ["It is right.", "It is wrong, and said in so many more words.", "No, wrong.", "wrong"]
            annotation = {
                "question": f"What is it? {'#right#' if number < right else ''}",
                "options": options[: 2 if name == "relative_position" else 4],
                "bbox": [[number, 2, 3, 4]],
                "target_object": ["glove"],
            }
            (folder / name / f"{number}.json").write_text(json.dumps(annotation))
            Image.new("L", (8, 8), number).save(folder / name / f"{number}.png")
    return folder


def test_the_search_lengths_of_a_strategy(cluster: Cluster, oracle: Server, shared_scorer: Server) -> None:
    data = annotations(cluster.folder / "annotations", [50.0, 50.0])
    for file in data.rglob("*.json"):
        targets = {"target_object": ["cup", "dog"], "bbox": [[0, 0, 8, 8], [0, 0, 2, 2]]}
        file.write_text(json.dumps(json.loads(file.read_text()) | targets))
    command = [sys.executable, "-m", "tool_server", "serve", str(HERE / "search_tools.py")]
    tools = Server(cluster.folder / "tools", command).start()
    file = cluster.folder / "models.yaml"
    model = {"endpoint": oracle.address, "tools": [f"grpc:{tools.address}"]}
    options = {"scorer": shared_scorer.address, "data": str(data), "limit": 3}
    file.write_text(json.dumps({"models": {"Sequential-BFS": model}, "options": options}))
    (remade,) = reproduce(cluster, "vstar", "--table", "3", "--models", str(file))
    tools.kill()
    (cell,) = remade["ours"]["Sequential-BFS"]
    assert (cell["value"], cell["n"], cell["printed"], cell["verdict"]) == (1, 3, 6.62, "not compared")


def test_the_paper_s_row_of_llava_comes_out_exactly(cluster: Cluster, oracle: Server, shared_scorer: Server) -> None:
    table = papers()["vstar"].table("1")
    data = annotations(cluster.folder / "annotations", list(table.rows["LLaVA-1.5"]))
    file = models(cluster, "llava-1.5", oracle, shared_scorer, data)
    (remade,) = reproduce(cluster, "vstar", "--table", "1", "--models", str(file))
    cells = remade["ours"]["llava-1.5"]
    assert [cell["printed"] for cell in cells] == [43.47, 56.57, 48.68]
    assert [round(cell["value"] * cell["n"] / 100) for cell in cells] == [50, 43, 93]
    assert [cell["verdict"] for cell in cells] == ["agrees"] * 3
    assert not remade["missing"]
    shown = cluster.orchestrator("reproduce", "vstar", "--table", "1", "--run", str(cluster.folder / "made"))
    assert "ours: llava-1.5" in shown
    assert "https://github.com/vstar-seal/vstar-seal.github.io" in shown


def puzzles(folder: Path, direct: list[float | None], cot: list[float | None]) -> Path:
    """The 1,168 puzzles of VisualPuzzles, of which as many are answered right as two printed rows have it."""
    folder.mkdir()
    Image.new("L", (8, 8)).save(folder / "puzzle.png")
    columns = papers()["visualpuzzles"].table("7").columns[:5]
    lines: list[dict[str, Any]] = []
    for column, first, second in zip(columns, direct, cot, strict=False):
        counts = {
            "direct": round(float(first or 0) * column.n / 100),
            "cot": round(float(second or 0) * column.n / 100),
        }
        for number in range(column.n):
            runs = ", ".join(name for name, count in counts.items() if number < count)
            letter = "ABCD"[number % 4]
            lines.append(
                {
                    "id": len(lines),
                    "category": column.name,
                    "question": f"Which? #right in {runs}: {letter}#",
                    "options": ["one", "two", "three", "four"] if number % 2 else None,
                    "answer": letter,
                    "difficulty": ("easy", "medium", "hard")[number % 3],
                    "image": "puzzle.png",
                }
            )
    (folder / "puzzles.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder / "puzzles.jsonl"


def test_direct_answers_against_chain_of_thought(cluster: Cluster, oracle: Server, shared_scorer: Server) -> None:
    paper = papers()["visualpuzzles"]
    rows = [list(paper.table(name).rows["GPT-4o"]) for name in ("8", "7")]
    file = models(cluster, "gpt-4o", oracle, shared_scorer, puzzles(cluster.folder / "data", *rows))
    tables = [word for name in ("8", "7", "11", "2", "figure-12") for word in ("--table", name)]
    remade = {table["table"]: table for table in reproduce(cluster, "2504.10342", *tables, "--models", str(file))}
    for name in ("8", "7"):
        assert [cell["verdict"] for cell in remade[name]["ours"]["gpt-4o"]] == ["agrees"] * 6
        assert [cell["printed"] for cell in remade[name]["ours"]["gpt-4o"]] == list(paper.table(name).rows["GPT-4o"])
    # Table 2 has the better of both, overall.
    assert [cell["value"] for cell in remade["2"]["ours"]["gpt-4o"]] == [
        cell["value"] for cell in remade["7"]["ours"]["gpt-4o"]
    ]
    # What one table was made of is there for another one, whichever was asked for last.
    (again,) = reproduce(cluster, "visualpuzzles", "--table", "8", "--models", str(file))
    assert again == remade["8"]
    assert reproduce(cluster, "visualpuzzles", "--table", "7") == [remade["7"]]
    (contrast,) = remade["11"]["contrasts"]
    assert (contrast["items"], contrast["tasks"]) == (1168, ["direct", "cot"])
    assert round(contrast["difference"] * 1168) == 482 - 397
    assert contrast["low"] > 0
    assert (round(contrast["printed"], 1), contrast["verdict"]) == (7.6, "agrees")
    kinds = {cell["column"]: cell["n"] for cell in remade["figure-12"]["ours"]["gpt-4o"]}
    assert kinds["text options, all"] + kinds["image options, all"] == 1168


def test_what_is_missing_is_named_and_the_rest_is_there(
    cluster: Cluster, oracle: Server, shared_scorer: Server
) -> None:
    data = cluster.folder / "data"
    data.mkdir()
    Image.new("L", (8, 8)).save(data / "puzzle.png")
    line = {"id": 0, "category": "spatial", "options": None, "answer": "A", "image": "puzzle.png"}
    line["question"] = "Which? #right in direct: A#"
    (data / "puzzles.jsonl").write_text(json.dumps(line) + "\n")
    file = models(cluster, "mine", oracle, shared_scorer, data / "puzzles.jsonl")
    (remade,) = reproduce(cluster, "visualpuzzles", "--table", "7", "--models", str(file), code=3)
    cells = {cell["column"]: cell for cell in remade["ours"]["mine"]}
    assert (cells["spatial"]["value"], cells["spatial"]["n"]) == (0.0, 1)
    assert "mine: algorithmic, analogical, deductive, inductive" in remade["missing"]
    arguments = ("reproduce", "marvel", "--table", "3", "--models", str(file), "--run", str(cluster.folder / "other"))
    shown = cluster.orchestrator(*arguments, code=3)
    assert "missing: zero-shot (marvel) was not run" in shown
    assert "Error: marvel was not run" in shown


@pytest.mark.full
def test_always_one_is_blip_2(cluster: Cluster, shared_scorer: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """BLIP-2 answers 1 to every puzzle: its rows of tables 3 and 4 are counts of the data, and come out as printed."""
    monkeypatch.setenv("ANSWER", "1")
    server = Server(cluster.folder / "one", [sys.executable, str(HERE / "answering_server.py")]).start()
    cluster.servers.append(server)
    file = models(cluster, "BLIP-2", server, shared_scorer, shared_data("marvel", "marvel.parquet"))
    for table in reproduce(cluster, "marvel", "--table", "3", "--table", "4", "--models", str(file)):
        cells = table["ours"]["BLIP-2"]
        assert [round(cell["value"], 2) for cell in cells] == [cell["printed"] for cell in cells]
        assert {cell["verdict"] for cell in cells} == {"agrees"}


def reform_runs(folder: Path, scores: dict[str, tuple[float, float]]) -> Runs:
    """Runs of two data sets of one dimension and one of another, by model."""
    runs = {}
    for model, (fine, coarse) in scores.items():
        writer = Writer(folder / model, model=model)
        for task, right in (("reform_mscoco_mci", fine), ("reform_flowers102", coarse)):
            for number in range(10):
                writer.item(f"{task}/{number}", answer="(A)", score=float(number < 10 * right))
        metrics = {
            task: [{**accuracy("Accuracy", [one for one in writer.verdicts if one["task"] == task])}]
            for task in ("reform_mscoco_mci", "reform_flowers102")
        }
        runs[model, "generation"] = open_run(writer.close(metrics))
    return Runs(runs, ())


def test_ranks_over_dimensions(tmp_path: Path) -> None:
    paper = papers()["reform"]
    runs = reform_runs(tmp_path, {"BLIP-2": (0.6, 0.2), "Lynx": (0.5, 0.9), "mmGPT": (0.4, 0.1)})
    remade = remake(paper, paper.table("1"), runs)
    ours = {model: [cell.value for cell in cells] for model, cells in remade.rows.items()}
    assert ours["BLIP-2"] == [1.5, pytest.approx(40.0), None, None]
    assert ours["Lynx"] == [1.5, pytest.approx(70.0), None, None]
    assert ours["mmGPT"] == [3.0, pytest.approx(25.0), None, None]
    assert [cell.printed for cell in remade.rows["BLIP-2"]] == [2.3, 62.94, 4.3, 62.92]
    assert "BLIP-2: likelihood rank, likelihood score" in remade.missing
    assert "Lynx: generation score is over 2 of 8 dimensions, 2 of 61 data sets" in remade.missing


def test_categories_are_correlated_over_models(tmp_path: Path) -> None:
    paper = papers()["visualpuzzles"]
    runs = {}
    for at, (model, rights) in enumerate({"a": (1, 2), "b": (2, 3), "c": (4, 9)}.items()):
        writer = Writer(tmp_path / model, tasks=["VisualPuzzles_cot"])
        for category, right in zip(("algorithmic", "spatial"), rights, strict=True):
            for number in range(10):
                labels = {"category": category}
                key = f"VisualPuzzles_cot/{category}{number}"
                writer.item(key, answer=str(at), score=float(number < right), labels=labels)
        metrics = sliced("accuracy", writer.verdicts, ("category",))
        runs[model, "cot"] = open_run(writer.close({"VisualPuzzles_cot": metrics}))
    (row,) = remake(paper, paper.table("figure-7"), Runs(runs, ())).rows.values()
    cells = {cell.column: cell for cell in row}
    assert cells["algorithmic ~ spatial"].value == pytest.approx(0.97986, abs=1e-4)
    assert cells["algorithmic ~ spatial"].printed == 0.67
    assert cells["algorithmic ~ inductive"].value is None


def test_knowledge_is_correlated_with_reasoning_over_models(tmp_path: Path) -> None:
    paper = papers()["visualpuzzles"]
    runs = {}
    for model, knows, right in (("a", 1, 2), ("b", 2, 3), ("c", 4, 9), ("d", None, 10)):
        for run, task, metric, count in (
            ("knowledge", "VisualPuzzles_knowledge", "Items known", knows),
            ("cot", "VisualPuzzles_cot", "accuracy", right),
        ):
            if count is None:
                continue
            writer = Writer(tmp_path / model / run, tasks=[task])
            for number in range(10):
                writer.item(f"{task}/{number}", answer="A", score=float(number < count))
            runs[model, run] = open_run(writer.close({task: [accuracy(metric, writer.verdicts)]}))
    remade = remake(paper, paper.table("figure-3"), Runs(runs, ()))
    assert [cell.value for cell in remade.rows["c"]] == [None, None, 40.0, 90.0]
    cell = remade.rows["4 models"][1]
    assert (cell.value, cell.n, cell.printed) == (pytest.approx(0.97986, abs=1e-4), 3, 0.4)
    assert remade.missing == ["d: knowledge"]


def test_tokens_are_the_mean_of_the_answers(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run", tasks=["VisualPuzzles_cot"])
    for number in range(4):
        writer.item(f"VisualPuzzles_cot/{number}", answer="A", score=1.0)
    run = open_run(writer.close())
    used = {"usage": {"tasks": {"VisualPuzzles_cot": {"output_tokens": 1156}}}}
    paper = papers()["visualpuzzles"]
    runs = Runs({("GPT-4o", "thinking off"): replace(run, results=run.results | used)}, ())
    cells = remake(paper, paper.table("figure-4"), runs).rows["GPT-4o"]
    assert [cell.value for cell in cells] == [100.0, None, 289.0, None]
    assert [cell.printed for cell in cells] == [None, None, 289, None]


def test_kinds_of_error_are_what_people_said(tmp_path: Path) -> None:
    task, paper = "VisualPuzzles_cot", papers()["visualpuzzles"]
    writer = Writer(tmp_path / "run", tasks=[task])
    for number in range(9):
        writer.item(f"{task}/{number}", answer="A", score=0.0)
    run = open_run(writer.close({task: [accuracy("accuracy", writer.verdicts)]}))
    runs = Runs({("Claude-3.7-Sonnet-Thinking", "cot"): run}, ())
    remade = remake(paper, paper.table("figure-8"), runs)
    (line,) = remade.missing
    assert "reasoning, perceptual" in line
    say(run.path, [f"{task}/{number}" for number in range(6)], 0.0, kind="reasoning")
    say(run.path, [f"{task}/{number}" for number in (6, 7)], 0.0, kind="spatial")
    cells = remake(paper, paper.table("figure-8"), runs).rows["Claude-3.7-Sonnet-Thinking"]
    assert [(cell.value, cell.n, cell.printed) for cell in cells] == [
        *((75.0, 8, 56), (0.0, 8, 21), (25.0, 8, 17)),
        *((0.0, 8, 4), (0.0, 8, 2)),
    ]
    assert {cell.verdict for cell in cells} == {Verdict.OTHER}


def test_every_table_is_listed_with_what_it_needs() -> None:
    shown = CliRunner().invoke(main, ["reproduce", "--list"], env={"COLUMNS": "400"}).stdout
    for key, paper in papers().items():
        _, _, tables = shown.partition(f"{paper.name}: reproduce {key} ")
        for table in paper.tables:
            assert any(line.split()[:1] == [table.id] for line in tables.splitlines()), (key, table.id)
    narrow = CliRunner().invoke(main, ["reproduce", "--list"], env={"COLUMNS": "80"}).stdout
    assert re.search(r" VisualPuzzles_strategy\b", narrow), "names are not broken"
    one = CliRunner().invoke(main, ["reproduce", "marvel", "--list"], env={"COLUMNS": "400"}).stdout
    assert "vstar" not in one


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name a paper, or give --list"),
        (("nothing",), "'nothing' is not a paper whose tables are known"),
        (("marvel", "--table", "99"), "MARVEL has no table '99'; it has 1, 2"),
        (("marvel", "--table", "1"), "--table 1 is not remade: properties of benchmarks"),
    ],
)
def test_mistakes_are_named(arguments: tuple[str, ...], message: str) -> None:
    assert message in mistake(main, "reproduce", *arguments)


def test_a_seed_is_a_text_of_the_paper(tmp_path: Path) -> None:
    seed = tmp_path / "seed.txt"
    seed.write_text("MARVEL: Multidimensional Abstraction and Reasoning\nMARVEL is a benchmark, unlike VOILA.\n")
    shown = CliRunner().invoke(main, ["reproduce", str(seed), "--list"]).stdout
    assert "marvel" in shown
    assert "voila" not in shown


COLUMN = Column("all", run="cot", metric="accuracy", n=1168)
TABLE = Table("7", "all models", digits=1, columns=[COLUMN], rows={"o1": [51.8]})


@pytest.mark.parametrize(
    ("cell", "verdict"),
    [
        (Cell("all", 100 * 605 / 1168, 48.9, 54.6, 1168, 51.8), Verdict.AGREES),
        (Cell("all", 53.0, 50.1, 55.8, 1168, 51.8), Verdict.AGREES),
        (Cell("all", 60.0, 57.2, 62.7, 1168, 51.8), Verdict.DIFFERS),
        (Cell("all", 55.0, 34.2, 74.2, 20, 51.8), Verdict.TOO_FEW),
        (Cell("all", 10.0, 2.8, 30.1, 20, 51.8), Verdict.DIFFERS),
        (Cell("all", 51.8, None, None, 20, 51.8), Verdict.TOO_FEW),
        (Cell("all", 51.8, 49.0, 54.0, 1168, None), Verdict.NOTHING),
    ],
)
def test_verdicts(cell: Cell, verdict: Verdict) -> None:
    assert judge(TABLE, COLUMN, cell) == verdict
