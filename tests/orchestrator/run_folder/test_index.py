"""The index of a run's logs and the selection of a large run's samples, against what is plain and slow."""

from __future__ import annotations

import base64
import gzip
import re
from collections import Counter
from pathlib import Path

import orjson
import pytest
from helpers.report_runs import Writer
from hypothesis import given, strategies as st

from orchestrator.errors import ConfigError
from orchestrator.report import page, samples
from orchestrator.run_folder import index, scanning
from orchestrator.run_folder.errors import RunLogError
from orchestrator.run_folder.index import natural_key
from orchestrator.run_folder.lines import Head, decode, sealed
from orchestrator.run_folder.reader import Run, open_run

KEYS = st.text(st.sampled_from('0123456789abZ/:#."\\é٣'), min_size=1, max_size=8)


def plain(key: str) -> list[tuple[int, int, str]]:
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", key) if part]


@given(KEYS, KEYS)
def test_keys_sort_as_a_person_would(one: str, other: str) -> None:
    assert (natural_key(one) < natural_key(other)) == (plain(one) < plain(other))


@given(st.lists(st.tuples(KEYS | KEYS.map("long".ljust(70).__add__), st.sampled_from("rv"))), st.binary(max_size=3))
def test_the_last_line_of_each_key_counts(tmp_path_factory: pytest.TempPathFactory, lines: list, torn: bytes) -> None:
    folder = tmp_path_factory.mktemp("run")
    logs: dict[str, dict[str, int]] = {"r": {}, "v": {}}
    files = {"r": (folder / "responses.jsonl").open("wb"), "v": (folder / "verdicts.jsonl").open("wb")}
    for number, (key, log) in enumerate(lines):
        logs[log][key] = number
        files[log].write(sealed(orjson.dumps({"key": key, "number": number, "scoring": {}})) + b"\n")
    for file in files.values():
        file.write(torn.replace(b"\n", b""))
        file.close()
    run = Run(folder, {}, {}, "run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scanning, "_READ", 100)
        items = list(run)
    assert {item.key for item in items} == logs["r"].keys() | logs["v"].keys()
    assert len(run) == len(items)
    assert [plain(item.key) for item in items] == sorted(plain(item.key) for item in items)
    for item in [*items, *run.read(item.key for item in items)]:
        assert item.response.get("number") == logs["r"].get(item.key)
        assert item.verdict.get("number") == logs["v"].get(item.key)
    assert [item.verdict for item in run.read(["not there"])] == [{}]


@given(st.lists(st.text(st.sampled_from("01\0\1\2a٠"), min_size=1, max_size=5), unique=True))
def test_keys_that_are_sorted_alike_are_two_items(tmp_path_factory: pytest.TempPathFactory, keys: list[str]) -> None:
    folder = tmp_path_factory.mktemp("run")
    lines = [sealed(orjson.dumps({"key": key, "scoring": {}})) + b"\n" for key in keys]
    (folder / "responses.jsonl").write_bytes(b"".join(lines))
    run = Run(folder, {}, {}, "run")
    assert sorted(item.key for item in run) == sorted(keys)
    assert sorted(run.index.find(key) for key in keys) == list(range(len(keys)))


def test_of_lines_that_both_logs_have_only_offsets_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each item's key is held once while the index is made, however many lines it has in the second log."""
    for name, times in (("responses.jsonl", 1), ("verdicts.jsonl", 5)):
        lines = [sealed(b'{"key":"a/%d","outcome":"scored"}' % row) + b"\n" for row in range(300)]
        (tmp_path / name).write_bytes(b"".join(lines * times))
    taken: list[int] = []
    add = index._Columns.add
    monkeypatch.setattr(scanning, "_READ", 2500)  # some fifty lines
    monkeypatch.setattr(
        index._Columns, "add", lambda self, keys, *rest: (taken.append(len(keys)), add(self, keys, *rest))
    )
    built = index.Index(tmp_path, natural=True)
    assert (sum(taken), len(built)) == (300, 300)
    assert built.verdicts.tolist() == [4 * len(b"".join(lines)) + offset for offset in built.responses]


@pytest.mark.parametrize("head", ['"k/1"', '"k\\u002f1"', '"k/\\"1"', '"k/é"'])
@pytest.mark.parametrize(
    "rest", [',"sample":"s"', ',"outcome":"failed","sample":"s"', ',"z":1,"outcome":"refused"', ""]
)
def test_a_head_is_the_same_however_its_line_begins(head: str, rest: str) -> None:
    line = sealed(f'{{"key":{head}{rest}}}'.encode())
    decoded = decode(line, Head)
    plain_line = orjson.loads(line)
    assert (decoded.key, decoded.outcome) == (plain_line["key"], plain_line.get("outcome"))


@pytest.mark.parametrize("damage", [b'{"key":"a","text":\n', b"[]\n", sealed(b"{}") + b"\n", b"\xff\n"])
def test_a_damaged_line_is_named(tmp_path: Path, damage: bytes) -> None:
    line = sealed(b'{"key":"b","scoring":null}') + b"\n"
    (tmp_path / "responses.jsonl").write_bytes(line + damage + line)
    with pytest.raises(RunLogError, match=r"responses\.jsonl, line 2: damaged"):
        list(Run(tmp_path, {}, {}, "run"))


def large(path: Path) -> Run:
    """600 samples of two steps each, nearly all right; 30 wrong, 2 refused, 1 failed."""
    writer = Writer(path)
    for number in range(600):
        writer.item(f"marvel/{number}:look", answer="it", scored=False)
        key = f"marvel/{number}:say"
        if number in (7, 300):
            writer.item(key, answer="", outcome="refused", verdict={"reason": "declined"}, score=0.0)
        elif number == 599:
            error = {"code": "UNAVAILABLE", "reason": "gone", "message": "gone"}
            writer.item(key, outcome="failed", error=error, verdict={"reason": "gone"}, score=0.0)
        else:
            right = number % 20 != 3
            writer.item(key, answer="1", verdict={"extracted": "1"}, score=float(right))
    return open_run(writer.close())


def unpacked(packed: samples.Packed) -> list[dict]:
    return [
        line for chunk in packed.packing.chunks() for line in orjson.loads(gzip.decompress(base64.b64decode(chunk)))
    ]


def test_a_page_of_a_large_run_holds_some_of_every_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = large(tmp_path / "run")
    whole = page.render(run)
    monkeypatch.setattr(samples, "MOST", 200)
    packed = samples.pack(run)
    lines = unpacked(packed)
    assert packed.items == 1200
    assert 190 <= packed.packing.size == len(lines) <= 200
    outcomes = Counter(line["v"].get("outcome") for line in lines)
    assert outcomes["refused"] == 2
    assert outcomes["failed"] == 1
    assert Counter(line["v"].get("score") for line in lines)[0.0] == 33
    keys = [line["r"]["key"] for line in lines]
    assert keys == sorted(keys, key=plain)
    assert all(keys[at].replace("look", "say") == keys[at + 1] for at in range(0, len(keys), 2)), "steps stay together"
    right = [int(re.findall(r"\d+", line["r"]["key"])[0]) for line in lines if line["v"].get("score") == 1.0]
    assert min(right) < 20
    assert max(right) > 580
    page_of_some = page.render(run)
    assert f"This page holds {packed.packing.size} of 1,200 items" in page_of_some
    assert "This page holds" not in whole
    assert re.findall(r'class="number">[\d,]+</td>', page_of_some) == re.findall(r'class="number">[\d,]+</td>', whole)


@pytest.mark.parametrize("name", ["responses.jsonl", "verdicts.jsonl"])
def test_a_complete_run_whose_log_was_cut_is_not_taken_for_whole(tmp_path: Path, name: str) -> None:
    path = large(tmp_path / "run").path
    log = path / name
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))
    with pytest.raises(ConfigError, match=r"items that its results.json counts: .* was cut or replaced; restore it"):
        page.render(open_run(path))
