"""orchestrator compare: exit codes, tables, JSON and the page."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import re
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner, Result
from helpers.report_runs import Writer, marvel_run

from orchestrator.cli.compare import command

NASTY = "</pre><script>alert(1)</script>"


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path]:
    return marvel_run(tmp_path / "before", skill=0.9), marvel_run(tmp_path / "after", model="qwen-tiny", skill=0.2)


def invoke(*args: str | Path) -> Result:
    return CliRunner().invoke(command, [str(arg) for arg in args])


def test_tables(runs: tuple[Path, Path]) -> None:
    result = invoke(*runs)
    assert result.exit_code == 0
    assert "before  →  after" in result.output
    assert "<0.001" in result.output
    assert "caution" not in result.output
    assert "worse marvel/" in result.output
    flips = orjson.loads(invoke(*runs, "--json").output)["comparisons"][0]["flips"]
    assert flips["items"] == 154
    assert f"of 154 items {flips['gained']} better, {flips['lost']} worse" in result.output


@pytest.mark.parametrize(
    ("data", "prompt", "target", "other"),
    [(1, 1, 1, True), (0, 1, 1, False), (1, 1, 0, False), (1, 0, 1, False), (0, 0, 0, False)],
)
def test_other_questions_under_the_same_keys(tmp_path: Path, data: int, prompt: int, target: int, other: bool) -> None:
    def run(name: str, number: int) -> Path:
        origin = ["synthetic, seed 0", "marvel.parquet"][number * data]
        writer = Writer(tmp_path / name, data={"marvel": {"origin": origin, "sha256": f"{number * data}" * 64}})
        for index in range(20):
            parts = [{"text": f"Question {index} of {number * prompt}"}]
            targets = [str(1 + number * target)]
            writer.item(f"marvel/{index}", parts=parts, answer="1", score=float(index % 3 == number), targets=targets)
        return writer.close()

    before, after = run("before", 0), run("after", 1)
    result = invoke(before, after)
    assert result.exit_code == (2 if other else 0)
    refusal = "marvel: 20 of 20 items have the same key in before and after, and another prompt and target: "
    refusal += "the data are synthetic, seed 0 and marvel.parquet; --other-data compares them all the same"
    assert (refusal in result.stderr) is other
    again = invoke(before, after, "--other-data")
    assert again.exit_code == 0
    assert again.stdout.count("caution:") == bool(data or prompt or target)
    assert ("prompt or images" in " ".join(again.stdout.split())) is bool(prompt)
    assert ("target 1 → 2" in again.stdout) is bool(target)
    warnings = orjson.loads(invoke(before, after, "--other-data", "--json").stdout)["comparisons"][0]["warnings"]
    assert ("marvel: prompt or images differ in 20 of 20 items" in warnings) is bool(prompt)


@pytest.mark.parametrize(("columns", "wide"), [(80, False), (123, False), (124, True)])
def test_names_of_tasks_are_whole_and_numbers_stand_in_one_line(tmp_path: Path, columns: int, wide: bool) -> None:
    folders = []
    for name in ("before", "after"):
        writer = Writer(tmp_path / name, tasks=["VisualPuzzles_direct"])
        for number in range(1200):
            writer.item(f"VisualPuzzles_direct/{number}", answer="A", score=float(number % 3 == (name == "after")))
        folders.append(str(writer.close()))
    result = CliRunner(env={"COLUMNS": str(columns)}).invoke(command, folders)
    lines = result.output.splitlines()
    [row] = [line for line in lines if line.strip().startswith("VisualPuzzles_direct ")]
    assert row.rstrip().endswith("1.000" if not wide else "McNemar exact")
    assert ("±" in result.output) is wide
    assert ("in 124 columns or more" in result.output) is not wide
    assert max(map(len, lines)) <= columns


def test_json(runs: tuple[Path, Path]) -> None:
    report = orjson.loads(invoke(*runs, runs[0], "--json").output)
    pair = report["comparisons"][0]["pairs"][0]
    assert pair["items"] == 154
    assert pair["regression"] is True
    assert pair["difference"] == pytest.approx(pair["second"] - pair["first"])
    assert report["comparisons"][1]["pairs"][0]["p"] == 1.0
    assert [standing["rank"] for standing in report["leaderboard"][0]["places"]] == [1, 1, 3]
    names = {run["name"] for run in report["runs"]}
    assert names == {str(runs[0]), "after"}, "runs of the same name are told apart"


@pytest.mark.parametrize(
    ("gate", "code"),
    [
        ("acc>=0.1", 0),
        ("acc>=0.9", 4),
        ("no_regression", 4),
        ("acc>=0.1,no_regression", 4),
        ("acc >> 3", 2),
        ("wer<1", 2),
    ],
)
def test_the_gate_decides_the_exit_code(runs: tuple[Path, Path], gate: str, code: int) -> None:
    assert invoke(*runs, "--gate", gate).exit_code == code
    assert invoke(*runs, "--gate", gate, "--json").exit_code == code


def test_getting_better_is_no_regression(runs: tuple[Path, Path]) -> None:
    result = invoke(runs[1], runs[0], "--gate", "no_regression")
    assert result.exit_code == 0
    assert "pass  no_regression" in result.output


def test_a_gate_tells_no_fall_from_one_that_is_not_shown(tmp_path: Path) -> None:
    """Two tasks of 1,000 items, whose groups have the same names and are no less independent for that."""

    def write(name: str, lost: int, gained: int) -> Path:
        writer = Writer(tmp_path / name, tasks=["marvel", "vstar_bench"])
        for task in ("marvel", "vstar_bench"):
            for number in range(1000):
                right = not number < lost and (number < 600 or number >= 1000 - gained)
                writer.item(f"{task}/{number}", answer="1", score=float(right), group=str(number))
        return writer.close()

    before, same, less, worse = (
        write("before", 0, 0),
        write("same", 30, 30),
        write("less", 40, 30),
        write("worse", 60, 0),
    )
    for run, code, line in (
        (same, 0, "pass  no_regression  same  all tasks: +0.0 points [-1.1, +1.1], limit -2"),
        (less, 5, "not shown  no_regression  less  all tasks: -1.0 points [-2.2, +0.2], limit -2: neither shown nor "
         "refuted by 2,000 items; of an unchanged model about 1,400 like these show it in 4 of 5 runs"),
        (worse, 4, "FAIL  no_regression  worse  all tasks: -6.0 points"),
    ):  # fmt: skip
        result = invoke(before, run, "--gate", "no_regression", "--html", tmp_path / f"{code}.html")
        assert " ".join(line.split()) in " ".join(result.output.split()), result.output
        assert result.exit_code == code
    assert "Gate: not shown" in (tmp_path / "5.html").read_text(encoding="utf-8")
    report = orjson.loads(invoke(before, less, "--json", "--gate", "change.low>=-2%,marvel/change>=-2%").output)
    assert [finding["verdict"] for finding in report["gate"]["findings"]] == ["not shown", "pass"]
    assert report["comparisons"][0]["overall"]["detectable"] == pytest.approx(0.0167, abs=1e-4)
    assert invoke(before, less, "--gate", "VisualPuzzles/change>=0").exit_code == 2


def test_one_run_alone_has_its_gate(runs: tuple[Path, Path]) -> None:
    assert invoke(runs[0], "--gate", "acc>=0.5").exit_code == 0
    assert invoke(runs[0], "--gate", "no_regression").exit_code == 2
    assert invoke(runs[0]).exit_code == 2


@pytest.mark.parametrize("gate", ["", " "])
def test_an_empty_variable_is_no_gate(runs: tuple[Path, Path], gate: str) -> None:
    for some in (runs, runs[:1]):
        result = invoke(*some, "--gate", gate)
        assert result.exit_code == 2
        assert "'' is not a condition" in result.output


def test_a_run_that_goes_on_is_compared_with_a_caution_and_passes_no_gate(
    tmp_path: Path, runs: tuple[Path, Path]
) -> None:
    going = marvel_run(tmp_path / "going", puzzles=7, skill=0.9)
    (going / "results.json").unlink()
    for pair in ((runs[0], going), (going, runs[0])):
        comparison = orjson.loads(invoke(*pair, "--json").output)["comparisons"][0]
        assert "going is not complete: what is not scored yet is left out" in comparison["warnings"]
        assert [step["items"] for step in comparison["pairs"]] == [7]
        assert "caution" in invoke(*pair).output
        for gate in ("no_regression", "failed<=100%"):
            result = invoke(*pair, "--gate", gate)
            assert result.exit_code == 2
            assert "--gate: going is not complete" in result.output
    assert invoke(going, "--gate", "failed<=100%").exit_code == 2


def test_nothing_in_common_is_a_mistake(tmp_path: Path, runs: tuple[Path, Path]) -> None:
    writer = Writer(tmp_path / "other", tasks=["vstar_bench"])
    writer.item("vstar_bench/1", answer="A", score=1.0)
    result = invoke(runs[0], writer.close())
    assert result.exit_code == 2
    assert "no scored item in common: marvel and vstar_bench" in result.output


def test_what_is_no_run_is_a_mistake(tmp_path: Path, runs: tuple[Path, Path]) -> None:
    (tmp_path / "empty").mkdir()
    result = invoke(runs[0], tmp_path / "empty")
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def unpack(page: str, name: str) -> Any:
    coded = re.search(rf'<script type="application/gzip" id="{name}">([^<]*)</script>', page)
    assert coded
    return orjson.loads(gzip.decompress(base64.b64decode(coded[1])))


def test_the_page_has_both_answers_and_no_markup_of_theirs(tmp_path: Path) -> None:
    paths = []
    for name, answer, score in (("one" + NASTY[1:6], "It is 1" + NASTY, 1.0), ("two", "It is 2" + NASTY, 0.0)):
        writer = Writer(tmp_path / name.replace("/", ""))
        picture = writer.image(b"\x89PNG\r\n\x1a\n" + name.encode())
        verdict = {"extracted": answer[6], "span": {"start": 6, "end": 7}}
        writer.item("marvel/1", parts=[picture, {"text": NASTY}], answer=answer, score=score, verdict=verdict)
        paths.append(writer.close())
    page = tmp_path / "pages" / "compare.html"
    page.parent.mkdir()
    assert invoke(*paths, "--html", page).exit_code == 0
    text = page.read_text(encoding="utf-8")
    assert NASTY not in text
    index = unpack(text, "index")
    assert (index["key"], index["before"], index["after"], index["target"]) == (["marvel/1"], ["1"], ["2"], ["1"])
    assert index["folders"] == [f"../{path.name}/".replace(">", "%3E") for path in paths]
    (flip,) = unpack(text, "chunk-0")
    answers = [flip[side]["r"]["response"]["parts"][0]["text"] for side in "ab"]
    assert answers == ["It is 1" + NASTY, "It is 2" + NASTY]
    script = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in html.unescape(text)
    assert "data:image" not in text
    assert invoke(*paths, "--html", page, "--embed").exit_code == 0
    assert page.read_text(encoding="utf-8").count("data:image/png;base64,") == 2


def test_the_page_says_how_many_flips_it_leaves_out_and_tasks_share_alike(tmp_path: Path) -> None:
    paths = []
    for name, score in (("before", 1.0), ("after", 0.0)):
        writer = Writer(tmp_path / name, tasks=["big", "small"])
        for task, items in (("big", 30), ("small", 3)):
            for number in range(items):
                writer.item(f"{task}/{number}", answer="1", score=score)
        paths.append(writer.close())
    page = tmp_path / "c.html"
    for most, held in (
        ("10", ["big/0", "big/6", "small/0", "small/2"]),
        ("4", ["big/0", "big/1", "small/0", "small/1"]),
    ):
        assert invoke(*paths, "--html", page, "--html-flips", most).exit_code == 0
        text = page.read_text(encoding="utf-8")
        assert f"The first {most} of 33" in text
        keys = unpack(text, "index")["key"]
        assert len(keys) == int(most)
        assert set(held) <= set(keys)
    assert invoke(*paths, "--html", page).exit_code == 0
    assert "The first" not in page.read_text(encoding="utf-8")
    assert invoke(*paths, "--html", page, "--html-flips", "0").exit_code == 0
    assert "The first 0 of 33" in page.read_text(encoding="utf-8")


def test_cautions_are_one_sentence_with_all_of_them_folded(tmp_path: Path) -> None:
    def page(name: str, **identity: str) -> str:
        other = marvel_run(tmp_path / name, puzzles=9, skill=0.9, **identity)
        assert invoke(marvel_run(tmp_path / "before", puzzles=9), other, "--html", tmp_path / "c.html").exit_code == 0
        return (tmp_path / "c.html").read_text(encoding="utf-8")

    assert "Caution" not in page("same")
    assert '<details class="banner"><summary>Caution: a differs: none and 1</summary>' in page("one", a="1")
    several = page("four", a="1", b="1", c="1", d="1")
    assert "<summary>Caution: the runs differ in more than the model: a, b, c, d</summary>" in several
    assert "<li>d differs: none and 1</li>" in several


def test_unwritable_page_is_a_mistake(runs: tuple[Path, Path], tmp_path: Path) -> None:
    result = invoke(*runs, "--html", tmp_path / "none" / "c.html")
    assert result.exit_code == 2
    assert "cannot be written" in result.output


def test_reform_is_ranked_as_its_tables_are(runs: tuple[Path, Path]) -> None:
    for run, scores in zip(runs, ({"reform_gqa": 0.4, "reform_vsr": 0.7}, {"reform_gqa": 0.5}), strict=True):
        results = orjson.loads((run / "results.json").read_bytes())
        for task, value in scores.items():
            metric = {"name": "Accuracy", "value": value, "unit": "fraction", "labels": {}}
            none = dict.fromkeys(results["tasks"]["marvel"]["counts"], 0)
            results["tasks"][task] = results["tasks"]["marvel"] | {"metrics": [metric], "counts": none}
        (run / "results.json").write_bytes(orjson.dumps(results))
    shown = invoke(*runs).output
    assert "ReForm-Eval: means over datasets (ranks)" in shown
    assert re.search(r"visually grounded reasoning\s+40\.0 \(2\)\s+50\.0 \(1\)", shown), shown
    assert "after lacks reform_vsr" in shown
    page = runs[0].parent / "c.html"
    invoke(*runs, "--html", page)
    text = re.sub(r"<[^>]+>", " ", page.read_text(encoding="utf-8"))
    assert re.search(r"visually grounded reasoning\s+40\.0\s+2\s+50\.0\s+1\s", text)
    assert re.search(r"average\s+55\.0\s+1\.5\s+–\s", text)
    assert "after lacks reform_vsr" in text
    ranking = orjson.loads(invoke(*runs, "--json").output)["reform"]
    assert ranking["before"]["ranks"] == {"vgr": 2, "spatial": 1}
    assert ranking["after"]["average"] is None


def test_without_reform_there_is_none_of_it(runs: tuple[Path, Path]) -> None:
    page = runs[0].parent / "c.html"
    assert "ReForm" not in invoke(*runs, "--html", page).output
    assert "ReForm" not in page.read_text(encoding="utf-8")
    assert orjson.loads(invoke(*runs, "--json").output)["reform"] == {}


def test_what_a_run_lacks_has_not_kept_from_regressing(tmp_path: Path) -> None:
    paths = []
    for name, tasks in (("both", ("marvel", "vstar_bench")), ("one", ("marvel",))):
        writer = Writer(tmp_path / name, tasks=list(tasks))
        for task in tasks:
            for number in range(6):
                writer.item(f"{task}/{number}", answer="1", score=1.0)
        paths.append(writer.close())
    both, one = paths
    lacking = invoke(both, one, "--gate", "no_regression")
    assert lacking.exit_code == 2
    assert "one lacks vstar_bench, which the first run has" in " ".join(lacking.output.split())
    assert invoke(one, both, "--gate", "no_regression").exit_code == 5, "six items show nothing"
    assert invoke(both, one, "--gate", "acc>=0.5").exit_code == 0
