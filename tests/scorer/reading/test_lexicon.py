"""The cues of the rules are data: tables of short entries, and no long pattern in the code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import scorer
from lyncean.plugins import code_hash
from scorer import listing
from scorer.reading.lexicon import Lexicon
from scorer.rules import rules

ROOT = Path(scorer.__file__).parent
SOURCES = sorted(ROOT.rglob("*.py"))
TABLES = sorted(ROOT.rglob("*.tsv"))
CORPUS = Path(__file__).parents[1]
LONGEST = 200
PATTERN_SIGNS = re.compile(r"\(\?|\\[bswd]|\)\?|\]\{|\.\*")


def literals(source: str) -> list[str]:
    """Returns the texts of all string literals, adjacent parts joined, f-strings without their fields."""
    texts = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            texts.append("".join(str(part.value) for part in node.values if isinstance(part, ast.Constant)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts.append(node.value)
    return texts


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_code_holds_a_long_pattern_or_switches_the_line_length_off(path: Path) -> None:
    source = path.read_text("utf-8")
    assert not [text for text in literals(source) if len(text) > LONGEST and len(PATTERN_SIGNS.findall(text)) > 2]
    assert not re.search(r"ruff:\s*noqa|noqa:.*E501|fmt:\s*off", source)


def test_a_long_pattern_is_recognized() -> None:
    assert len(literals('P = re.compile(r"(?:a|b)\\b" r"' + "|c" * 100 + '")')[0]) > LONGEST


@pytest.mark.parametrize("path", TABLES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_table_has_one_entry_a_line_with_its_language_and_case(path: Path) -> None:
    cases = {corpus.name: len(corpus.read_text("utf-8").splitlines()) for corpus in CORPUS.rglob("*.jsonl")}
    for line in path.read_text("utf-8").splitlines():
        if not line or line.startswith(("#", "[")):
            continue
        language, entry, *case = line.split("\t")
        assert re.fullmatch(r"-|[a-z]{2}(?:,[a-z]{2})*", language), line
        assert 0 < len(entry) <= 220, line
        assert len(case) < 2
        for file, _, number in (reference.partition(":") for reference in case):
            assert 0 < int(number) <= cases[file], line


@pytest.mark.parametrize("path", TABLES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_list_of_a_table_is_used(path: Path) -> None:
    table = path.read_text("utf-8")
    code = "\n".join(source.read_text("utf-8") for source in SOURCES)
    for name, marks in re.findall(r"^\[([A-Z_0-9]+)([a-z ]*)\]", table, re.MULTILINE):
        inserted = f"{{{name}}}" in table
        assert inserted or marks.strip() not in ("", "case", "lines") or re.search(rf"\.{name}\b|\"{name}\"", code), (
            name
        )


def test_an_entry_inserts_lists_and_parts(tmp_path: Path) -> None:
    table = tmp_path / "words.tsv"
    lists = ("[GREETING] Some note.\nen\t{HELLO} {NAME}[.]", "[HELLO]\nen\thello\nde\thallo", "[ONE case]\nen\ta: b")
    table.write_text("\n\n".join(("# Words.", *lists)))
    lexicon = Lexicon(table, NAME="you")
    assert lexicon.source("GREETING") == "(?:hello|hallo) you[.]"
    assert lexicon.GREETING.fullmatch("Hallo you.")
    assert lexicon.source("GREETING", NAME="me") == "(?:hello|hallo) me[.]"
    assert lexicon.mapping("ONE") == {"a": "b"}
    assert not lexicon.ONE.search("A: B")
    with pytest.raises(AttributeError, match=r"words.tsv has no list NONE"):
        _ = lexicon.NONE


@pytest.mark.parametrize(
    ("rule", "table"), [("choice", "reading/lexicon/before.tsv"), ("voila_properties", "rules/voila/lexicon.tsv")]
)
def test_the_hash_of_a_rule_covers_its_tables(rule: str, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before, read = listing.digest(rules().get(rule)), Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read(path) + b"#" * path.match(table))
    code_hash._module.cache_clear()
    assert listing.digest(rules().get(rule)) != before
    monkeypatch.undo()
    code_hash._module.cache_clear()
    assert listing.digest(rules().get(rule)) == before
