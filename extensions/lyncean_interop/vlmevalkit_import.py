"""VLMEvalKit's predictions: tables in TSV, and in XLSX if openpyxl is installed."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from lyncean_interop import archives
from lyncean_interop.answers import LETTERS, Answer, ToolAnswers, column_options
from orchestrator import ConfigError
from orchestrator.data import DataError

FAILED = "Failed to obtain answer"
"""Beginning of the text that VLMEvalKit writes in place of a missing answer."""

_CONVERT = "python -c \"import pandas; pandas.read_pickle('FILE.pkl').to_csv('FILE.tsv', sep='\\t', index=False)\""
NEEDED = ("index", "question", "answer", "prediction")
"""Columns that every table of predictions has."""

_SCORED = re.compile(r"_(exact_matching|[^_]+)_result$")
"""Suffix that VLMEvalKit adds to the name of a table that it scored."""

_LABELS = ("category", "l2-category", "split")


def read(path: Path, task: str | None, model: str | None) -> ToolAnswers:
    """Reads MODEL_DATASET.xlsx or .tsv; its verdicts are the column `hit` of a scored table.

    Args:
        path: The file.
        task: The data set's name; None for the one in the file's name.
        model: The model's name, likewise.

    Raises:
        DataError: It cannot be read, or is not such a file.
        ConfigError: It is XLSX and openpyxl is missing.
    """
    if path.suffix == ".pkl":
        raise DataError(
            f"{path} is a pickle, which can run any code when it is loaded. If you trust whoever made it, make a TSV "
            f"of it: {_CONVERT}"
        )
    before, after = _named(path)
    if not (task or after):
        raise DataError(f"{path.name} does not say its data set (MODEL_DATASET{path.suffix}): give --task")
    rows = _xlsx(path) if path.suffix == ".xlsx" else _tsv(path)
    return ToolAnswers("VLMEvalKit", task or after, model or before, [_answer(row) for row in rows])


def _named(path: Path) -> tuple[str, str]:
    """Returns model and data set by a file's name; VLMEvalKit's folders have the model's name, which may hold `_`."""
    name = _SCORED.sub("", path.stem)
    for folder in path.resolve().parents[:2]:
        if folder.name and name.startswith(f"{folder.name}_"):
            return folder.name, name.removeprefix(f"{folder.name}_")
    before, _, after = name.partition("_")
    return before, after


def _tsv(path: Path) -> Iterator[Mapping[str, str]]:
    csv.field_size_limit(128 << 20)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file, delimiter="\t")
            _check(path, rows.fieldnames or NEEDED)
            for row in rows:
                if None in row or None in row.values():
                    raise DataError(
                        f"{path}, line {rows.line_num}: the row has not as many cells as the header: is the file "
                        "damaged, or cut short?"
                    )
                yield row
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} cannot be read as a table: {error}") from None


def _xlsx(path: Path) -> Iterator[Mapping[str, str]]:
    try:
        import openpyxl
    except ImportError as error:
        raise ConfigError(f"{path.name} needs openpyxl: pip install 'lyncean[xlsx]', or save it as TSV") from error
    try:
        with archives.unpacked(path) as plain:
            book = openpyxl.load_workbook(plain, read_only=True, data_only=True)
            rows = book.worksheets[0].iter_rows(values_only=True)
            header = [str(cell) for cell in next(rows, NEEDED)]
            _check(path, header)
            for row in rows:
                yield {name: "" if cell is None else str(cell) for name, cell in zip(header, row, strict=False)}
    except DataError:
        raise
    except Exception as error:
        raise DataError(f"{path} cannot be read as a table: {error}") from None


def _check(path: Path, header: Collection[str]) -> None:
    """Checks the columns of a table.

    Raises:
        DataError: One is missing.
    """
    if missing := [name for name in NEEDED if name not in header]:
        raise DataError(f"{path} has no column {', '.join(missing)}: is it a prediction table of VLMEvalKit?")


def _answer(row: Mapping[str, str]) -> Answer:
    options = column_options(row)
    listed = [f"{letter}. {option}" for letter, option in zip(LETTERS, options, strict=False)]
    text = row["prediction"]
    failed = text if text.startswith(FAILED) else ""
    hit = row.get("hit", "").strip()
    return Answer(
        key=row["index"].removesuffix(".0"),
        prompt="\n".join([row["question"], *listed]),
        text="" if failed else text,
        targets=(row["answer"].strip(),),
        options=options,
        labels={name: row[name] for name in _LABELS if row.get(name)},
        failed=failed,
        score=_number(hit),
    )


def _number(word: str) -> float | None:
    try:
        return float({"true": "1", "false": "0"}.get(word.lower(), word))
    except ValueError:
        return None
