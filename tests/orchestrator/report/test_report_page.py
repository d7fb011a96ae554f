"""report.html: what it says, and that it can say nothing else."""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import orjson
import pytest
from click.testing import CliRunner
from helpers.report_runs import Writer, accuracy, marvel_run, puzzle, sliced

from lyncean.errors import UserError
from orchestrator.cli.report import command
from orchestrator.report import write_report
from orchestrator.report.charts import DARKEST
from orchestrator.run_folder.index import natural_key
from orchestrator.run_folder.lines import sealed
from orchestrator.run_folder.reader import open_run

NASTY = '</script><script>window.pwned=1</script><img src=x onerror="window.pwned=1">'


def unpack(page: str, name: str) -> object:
    coded = re.search(rf'<script type="application/gzip" id="{name}">([^<]*)</script>', page)
    assert coded
    return orjson.loads(gzip.decompress(base64.b64decode(coded[1])))


class Tags(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))


def test_first_screen(tmp_path: Path) -> None:
    page = write_report(marvel_run(tmp_path / "run")).read_text(encoding="utf-8")
    assert "154 planned = 133 scored + 11 unparsed + 3 refused + 4 rejected + 3 failed" in page
    for text in (
        "llava-tiny",
        "bfloat16",
        "4b825dc6",
        "--task marvel",
        "no_choice",
        "4,211 tokens, 4,096 fit",
        "choice_number",
    ):
        assert text in page
    assert re.search(r'class="value">\d\d\.\d</span> <span class="interval">\[\d\d\.\d, \d\d\.\d\]', page)
    assert re.search(r'class="number of">154</td>', page), "the denominator stands beside the metric"
    assert re.search(r'class="number of">144</td>', page), "and the one of answered items"


def test_every_item_is_in_the_page_whole(tmp_path: Path) -> None:
    run = marvel_run(tmp_path / "run", puzzles=250)
    page = write_report(run).read_text(encoding="utf-8")
    index = unpack(page, "index")
    assert isinstance(index, dict)
    keys = index["key"]
    assert len(keys) == index["size"] == 250
    assert keys == sorted(keys, key=natural_key)
    assert keys[1] == "marvel/2:avr", "in the order of numbers, not of letters"
    lines = {line["key"]: line for line in map(orjson.loads, (run / "responses.jsonl").read_bytes().splitlines())}
    chunks = [unpack(page, f"chunk-{number}") for number in range(3)]
    packed = [item for chunk in chunks for item in chunk]  # type: ignore[attr-defined]
    assert [item["r"] for item in packed] == [lines[key] for key in keys]


def test_a_turn_is_told_from_its_sample_in_next_to_no_room(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run")
    for number in range(200):
        writer.item(f"marvel/coco:{number}", sample=f"marvel/coco:{number}", answer="1", score=1.0)
    writer.item("marvel/z:1:say:it", sample="marvel/z:1", answer="1", score=1.0)
    writer.item("marvel/z#1", sample="marvel/other", answer="1", score=1.0)
    index = unpack(write_report(writer.close()).read_text(encoding="utf-8"), "index")
    assert isinstance(index, dict)
    turns = dict(zip(index["key"], index["turn"]["codes"], strict=True))
    assert index["turn"]["names"] == ["say:it"]
    assert [key for key, code in turns.items() if code >= 0] == ["marvel/z:1:say:it"]


def test_same_run_same_page(tmp_path: Path) -> None:
    run = marvel_run(tmp_path / "run", puzzles=30)
    assert write_report(run).read_bytes() == write_report(run).read_bytes()


def test_nothing_a_model_or_a_file_is_called_becomes_markup(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run", NASTY, data={NASTY: {"origin": NASTY, "digest": "0"}}, tasks=[NASTY])
    writer.item("marvel/1", answer=NASTY, score=1.0, labels={NASTY: NASTY}, parts=[{"text": NASTY}], replica=NASTY,
                targets=[NASTY], options=[NASTY, "b"],
                verdict={"extracted": NASTY, "judge": {"model": NASTY, "words": NASTY}})  # fmt: skip
    writer.item(
        "marvel/2", outcome="rejected", labels={NASTY: "b"}, error={"code": "X", "reason": NASTY, "message": NASTY}
    )
    page = write_report(writer.close({"marvel": sliced(NASTY, writer.verdicts, (NASTY,))})).read_text(encoding="utf-8")
    tags = Tags(page).elements
    scripts = [attrs for tag, attrs in tags if tag == "script"]
    assert [attrs.get("type") for attrs in scripts] == ["application/gzip", "application/gzip", None]
    assert not [attrs for _, attrs in tags if any(name.startswith("on") or name == "style" for name in attrs)]
    assert not [
        attrs for tag, attrs in tags if tag in ("iframe", "object", "embed", "base", "form") and "id" not in attrs
    ]


def test_the_policy_lets_in_nothing_but_the_page_itself(tmp_path: Path) -> None:
    page = write_report(marvel_run(tmp_path / "run", puzzles=5)).read_text(encoding="utf-8")
    policy = next(
        attrs["content"] for tag, attrs in Tags(page).elements if attrs.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["connect-src"] == "'none'"
    assert "unsafe" not in policy
    assert "http" not in policy
    for tag, rule in (("style", "style-src"), ("script", "script-src")):
        text = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        assert len(text) == 1
        digest = base64.b64encode(hashlib.sha256(text[0].encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"
    links = [
        value
        for _, attrs in Tags(page).elements
        for name, value in attrs.items()
        if name in ("src", "href", "xlink:href")
    ]
    assert links
    assert all(link and link.startswith(("#", "data:")) for link in links)


def test_charts_lead_to_their_samples(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run")
    for number in range(40):
        for kind in ("avr", "fine"):
            labels = {"kind": kind, "pattern": "ab"[number % 2], "configuration": "xyz"[number % 3]}
            writer.item(
                f"marvel/{number}:{kind}",
                answer="1",
                score=float(number % 4 == 0),
                labels=labels,
                verdict={"extracted": "1"},
            )
    avr = [v for v in writer.verdicts if v["labels"]["kind"] == "avr"]
    run = writer.close({"marvel": sliced("AVR", avr, ("pattern",), ("pattern", "configuration"))})
    manifest = orjson.loads((run / "manifest.json").read_bytes())
    manifest["metrics"] = {"marvel": [{"name": "AVR", "metric": "accuracy", "where": {"kind": {"values": ["avr"]}}}]}
    (run / "manifest.json").write_bytes(orjson.dumps(manifest))
    page = write_report(run).read_text(encoding="utf-8")
    assert "AVR by pattern" in page
    assert "AVR: configuration × pattern" in page
    assert '<a href="#task=marvel&amp;label.kind=avr&amp;label.pattern=a&amp;label.configuration=x">' in page
    assert "Latency by replica" in page
    drawings = re.findall(r"<figure.*?</figure>", page, re.DOTALL)
    assert len(drawings) > 3
    for drawing in drawings:
        ElementTree.fromstring(drawing)  # noqa: S314 - ours
        assert re.search(r'<table[^>]* aria-label="|<svg[^>]* role="img" aria-label="', drawing)
        assert not re.search(r' (?:fill|stroke|style)="', drawing), "colours are the style's, for light and dark"


def test_likelihoods_are_calibrated(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run", method="likelihood")
    scores = [{"logprob": -0.5, "token_count": 1, "is_greedy": True}, {"logprob": "-Infinity", "token_count": 2}]
    for number in range(50):
        writer.item(f"marvel/{number}", rule="likelihood", targets=["A"], options=["yes", "no"],
                    score=float(number % 5 > 0), response={"scores": scores}, continuations=["yes", "no"],
                    verdict={"extracted": "A", "scores": {"probability": 0.75}})  # fmt: skip
    page = write_report(writer.close()).read_text(encoding="utf-8")
    assert "Calibration of the likelihoods" in page
    assert "expected calibration error 5.0 points" in page


def test_constant_answers_are_named(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run")
    writer.item("marvel/1", answer="1", score=1.0, verdict={"extracted": "1"})
    bias = accuracy("bias", writer.verdicts) | {
        "metric": "choice_bias",
        "details": {"chosen": {"1": 1.0}, "key": {"1": 0.25, "2": 0.75}, "majority": "1", "constant": True},
    }
    page = write_report(writer.close({"marvel": [bias]})).read_text(encoding="utf-8")
    assert "Answers are as good as constant: always 1." in page


def test_embedded_images_need_no_folder(tmp_path: Path) -> None:
    run = marvel_run(tmp_path / "run", puzzles=3, pictures=2)
    page = write_report(run, embed=True).read_text(encoding="utf-8")
    assert page.count("data:image/png;base64,") == 2
    assert base64.b64encode(puzzle(1)).decode() in page
    assert "data:image/png" not in write_report(run).read_text(encoding="utf-8")


def test_a_run_that_goes_on_has_a_page(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run")
    writer.item("marvel/1", answer="1", score=1.0, verdict={"extracted": "1"})
    run = writer.close(complete=False)
    manifest = orjson.loads((run / "manifest.json").read_bytes())
    (run / "manifest.json").write_bytes(orjson.dumps({**manifest, "planned": {"marvel": 4}}))
    page = write_report(run).read_text(encoding="utf-8")
    assert "1 of 4 items have an outcome so far" in page
    assert '<rect class="scored" x="0.0" width="250.0"' in page
    (run / "verdicts.jsonl").write_bytes(b"")
    with (run / "responses.jsonl").open("ab") as file:
        file.write(b'{"key": "marvel/2", "torn')
    page = write_report(run).read_text(encoding="utf-8")
    assert "not complete" in page
    index = unpack(page, "index")
    assert isinstance(index, dict)
    assert index["key"] == ["marvel/1"]
    assert index["outcome"]["names"][index["outcome"]["codes"][0]] == "pending"


def test_steps_that_only_prepare_are_no_items(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run", tasks=["vcot"])
    writer.item("vcot/1:draw", answer="", scored=False)
    writer.item("vcot/1:answer", answer="2", score=0.0, verdict={"extracted": "2"})
    page = write_report(writer.close()).read_text(encoding="utf-8")
    assert "1 planned = 1 scored" in page
    index = unpack(page, "index")
    assert isinstance(index, dict)
    assert sorted(index["outcome"]["names"][code] for code in index["outcome"]["codes"]) == ["scored", "step"]


def test_a_later_line_of_a_key_counts(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run")
    writer.item("marvel/1", outcome="failed", error={"code": "UNAVAILABLE", "reason": "", "message": "gone"})
    writer.item("marvel/1", answer="1", score=1.0, verdict={"extracted": "1"})
    run = open_run(writer.close(complete=False))
    (item,) = run
    assert (item.outcome, item.text) == ("scored", "1")


@pytest.mark.parametrize(
    ("content", "message"), [(None, "manifest.json is missing"), (b"{", "is damaged"), (b"[]", "is damaged")]
)
def test_what_is_no_run_is_one_line(tmp_path: Path, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / "manifest.json").write_bytes(content)
    with pytest.raises(UserError, match=message):
        open_run(tmp_path)


@pytest.mark.parametrize(
    "results",
    [
        {"tasks": [1]},
        {"tasks": {"marvel": 1}},
        {"tasks": {"marvel": {"counts": {"planned": "many"}}}},
        {"tasks": {"marvel": {"metrics": [{"value": 1}]}}},
        {"tasks": {"marvel": {"metrics": [{"name": "AVR", "value": [1]}]}}},
    ],
)
def test_results_that_are_none_are_one_line(tmp_path: Path, results: object) -> None:
    path = marvel_run(tmp_path / "run", puzzles=3)
    (path / "results.json").write_bytes(orjson.dumps(results))
    with pytest.raises(UserError, match=r"results\.json is damaged.*`orchestrator score` writes it anew"):
        open_run(path)


@pytest.mark.parametrize("field", ["request", "response", "scoring", "scores"])
def test_a_line_that_is_none_is_named(tmp_path: Path, field: str) -> None:
    writer = Writer(tmp_path / "run")
    writer.item("marvel/1", answer="1", score=1.0)
    path = writer.close()
    log = path / "responses.jsonl"
    log.write_bytes(sealed(orjson.dumps(orjson.loads(log.read_bytes()) | {field: "x"})) + b"\n")
    with pytest.raises(UserError, match=rf"responses\.jsonl is damaged at byte 0: {field} is not a JSON object"):
        list(open_run(path))


def test_published_metrics_stand_beside(tmp_path: Path) -> None:
    page = write_report(marvel_run(tmp_path / "run"), published=True).read_text(encoding="utf-8")
    for text in ("Published results", "BLIP-2", "24.81", "MARVEL, table 3: AVR by pattern", "24.17", "2404.13591"):
        assert text in page
    assert "No published results" not in page


def test_a_task_without_published_results_is_named(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run")
    writer.item("animals/1", answer="1", score=1.0)
    assert "No published results of animals." in write_report(writer.close(), published=True).read_text("utf-8")
    (tmp_path / "run" / "report.html").unlink()
    done = CliRunner().invoke(command, [str(tmp_path / "run"), "--compare-published"])
    assert done.exit_code == 0
    assert "run: no published results of animals" in done.stderr


def test_the_blind_metric_stands_beside_the_sighted(tmp_path: Path) -> None:
    from orchestrator.report.blind import twin

    sighted = open_run(marvel_run(tmp_path / "sighted", puzzles=40, blind=False))
    blind = open_run(marvel_run(tmp_path / "blind", puzzles=40, skill=0.0, blind=True))
    other = open_run(marvel_run(tmp_path / "other", puzzles=40, seed=9, blind=True))
    assert twin(sighted, [sighted, other, blind]) is blind
    assert twin(blind, [sighted]) is None
    assert twin(sighted, [other]) is None
    page = write_report(sighted.path, blind=blind).read_text(encoding="utf-8")
    assert '<th scope="col" class="number">blind</th>' in page


def _luminance(colour: str) -> float:
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", [0, 1])
def test_text_has_contrast_in_light_and_dark(theme: int) -> None:
    style = (Path(write_report.__code__.co_filename).parent / "templates" / "style.css").read_text(encoding="utf-8")
    block = re.findall(r":root \{(.*?)\}", style, re.DOTALL)[theme]
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block))
    for text in ("ink", "muted", "accent", "good", "bad", "warn"):
        for ground in ("paper", "card", "sunk", "select"):
            light, dark = sorted((_luminance(colours[text]), _luminance(colours[ground])), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 4.5, f"{text} on {ground}"


def test_properties_by_step_are_a_heat_map(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run", tasks=["voila_nd"])
    for step in "12":
        writer.item(f"voila_nd/1:step{step}", answer="two cats", score=1.0, labels={"step": step})
    metrics = [accuracy(f"step {step}: {name}", writer.verdicts) for step in "12" for name in ("number", "action")]
    page = write_report(writer.close({"voila_nd": metrics})).read_text(encoding="utf-8")
    assert "voila_nd: property × step" in page
    assert re.search(r'title="number, step 2: 100.0 \[[^"]*"><a href="#task=voila_nd&amp;label.step=2">', page)


def test_tasks_and_dimensions_stand_among_each_other(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run")
    metrics = {}
    for number, dimension in enumerate(("fg", "cg", "cmi", "fg")):
        task = f"reform_{number}"
        for item in range(4):
            writer.item(f"{task}/{item}", answer="A", score=float(item < number), labels={"dimension": dimension})
        mine = [verdict for verdict in writer.verdicts if verdict["task"] == task]
        instability = {"name": "Instability", "metric": "instability", "value": 0.5, "unit": "nats", "denominator": "4"}
        metrics[task] = [accuracy("Accuracy", mine), instability]
    page = write_report(writer.close(metrics)).read_text(encoding="utf-8")
    assert "Accuracy by dimension" in page
    assert ">37.5<" in page, "the mean of 0 and 75, each task counting alike"
    assert "Accuracy and instability" in page
    assert "Accuracy by task" in page
    assert '0.500</span> <span class="interval"> nats' in page


def test_metrics_of_the_same_name_are_told_apart_by_task(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run")
    metrics = {}
    for task in ("one", "two"):
        for number in range(4):
            writer.item(f"{task}/{number}", answer="1", score=1.0, labels={"kind": "ab"[number % 2]})
        mine = [verdict for verdict in writer.verdicts if verdict["task"] == task]
        metrics[task] = sliced("accuracy", mine, ("kind",))
    page = write_report(writer.close(metrics)).read_text(encoding="utf-8")
    assert "<h3>one: accuracy by kind</h3>" in page
    assert "<h3>two: accuracy by kind</h3>" in page


def test_a_long_name_ends_its_line_behind_a_joint(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run")
    metrics = {}
    for task in ("VisualPuzzles_direct", "one"):
        writer.item(f"{task}/1", answer="1", score=1.0)
        mine = [verdict for verdict in writer.verdicts if verdict["task"] == task]
        metrics[task] = sliced("Perc^C&F<1>", mine, ())
    page = write_report(writer.close(metrics)).read_text(encoding="utf-8")
    assert "Perc^C&amp;<wbr>F&lt;1&gt;" in page
    assert "VisualPuzzles_<wbr>direct" in page


def test_an_option_in_brackets_is_the_option_itself(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run")
    for number in range(4):
        options = {"targets": [f"({'AB'[number % 2]})"], "options": ["red", "blue"]}
        writer.item(f"reform/{number}", answer="B", score=float(number % 2), verdict={"extracted": "B"}, **options)
    page = write_report(writer.close()).read_text(encoding="utf-8")
    assert 'title="B: chosen 100.0, right 50.0 percent"' in page
    assert 'title="A: chosen 0.0, right 50.0 percent"' in page
    assert "(B): chosen" not in page


@pytest.mark.parametrize("theme", [0, 1])
def test_numbers_are_read_on_the_darkest_cell(theme: int) -> None:
    style = (Path(write_report.__code__.co_filename).parent / "templates" / "style.css").read_text(encoding="utf-8")
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", re.findall(r":root \{(.*?)\}", style, re.DOTALL)[theme]))
    paper, accent = ([int(colours[name][at : at + 2], 16) for at in (1, 3, 5)] for name in ("paper", "accent"))
    mixed = (round(DARKEST * a + (1 - DARKEST) * p) for a, p in zip(accent, paper, strict=True))
    light, dark = sorted(
        (_luminance(colours["ink"]), _luminance("#" + "".join(f"{c:02x}" for c in mixed))), reverse=True
    )
    assert (light + 0.05) / (dark + 0.05) >= 4.5
