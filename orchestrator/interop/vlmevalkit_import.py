"""VLMEvalKit's prediction tables: TSV, and XLSX where openpyxl is installed."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path

from orchestrator.data.rows import DataError
from orchestrator.errors import ConfigError
from orchestrator.interop.answers import LETTERS, Answer, Taken

FAILED = "Failed to obtain answer via API"
"""What VLMEvalKit writes in the place of an answer that it did not get."""

_NEEDED = ("index", "question", "answer", "prediction")
_LABELS = ("category", "l2-category", "split")


def read(path: Path, task: str | None, model: str | None) -> Taken:
    """Reads a table, MODEL_DATASET.xlsx or .tsv; its verdicts are the column `hit` of a scored one.

    Raises:
        DataError: It cannot be read, or is no such table.
        ConfigError: It is XLSX and openpyxl is missing.
    """
    before, _, after = path.stem.partition("_")
    if not (task or after):
        raise DataError(f"{path.name} does not say its data set (MODEL_DATASET{path.suffix}): give --task")
    answers = [_answer(path, row) for row in (_xlsx(path) if path.suffix == ".xlsx" else _tsv(path))]
    return Taken("VLMEvalKit", task or after, model or before, answers)


def _tsv(path: Path) -> Iterator[Mapping[str, str]]:
    csv.field_size_limit(128 << 20)
    try:
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, delimiter="\t"):
                yield {name: value or "" for name, value in row.items() if isinstance(name, str)}
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} cannot be read as a table: {error}") from None


def _xlsx(path: Path) -> Iterator[Mapping[str, str]]:
    try:
        import openpyxl
    except ImportError as error:
        raise ConfigError("a table in XLSX needs openpyxl: pip install 'lyncean[xlsx]', or save it as TSV") from error
    try:
        rows = openpyxl.load_workbook(path, read_only=True, data_only=True).worksheets[0].iter_rows(values_only=True)
        header = [str(cell) for cell in next(rows, ())]
        for row in rows:
            yield {name: "" if cell is None else str(cell) for name, cell in zip(header, row, strict=False)}
    except Exception as error:
        raise DataError(f"{path} cannot be read as a table: {error}") from None


def _answer(path: Path, row: Mapping[str, str]) -> Answer:
    if missing := [name for name in _NEEDED if name not in row]:
        raise DataError(f"{path} has no column {', '.join(missing)}: is it a prediction table of VLMEvalKit?")
    options = []
    for letter in LETTERS:
        if not row.get(letter, "").strip():
            break
        options.append(row[letter])
    listed = [f"{letter}. {option}" for letter, option in zip(LETTERS, options, strict=False)]
    text = row["prediction"]
    failed = text if text.startswith(FAILED) else ""
    hit = row.get("hit", "").strip()
    return Answer(
        key=row["index"].removesuffix(".0"),
        prompt="\n".join([row["question"], *listed]),
        text="" if failed else text,
        targets=(row["answer"].strip(),),
        options=tuple(options),
        labels={name: row[name] for name in _LABELS if row.get(name)},
        failed=failed,
        score=_number(hit),
    )


def _number(word: str) -> float | None:
    try:
        return float({"true": "1", "false": "0"}.get(word.lower(), word))
    except ValueError:
        return None
