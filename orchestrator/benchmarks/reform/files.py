"""Reads the upstream files: plain JSON of up to half a gigabyte with images inside, one record at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import ijson

from orchestrator.benchmarks.reform.datasets import DATASETS, HUB, Dataset
from orchestrator.benchmarks.reform.families import FAMILIES, Record
from orchestrator.benchmarks.reform.images import decoded
from orchestrator.data import hub
from orchestrator.data.digest import digest_files
from orchestrator.data.rows import DataError, Row, RowSource

NUMBER = "row"
"""Field with a row's number from 0, in the reference's order: instructions cycle by it."""

FIRST_ROUND = "first_round"
"""Field with how many rounds the dialogues before this one have."""

TWIN = "twin"
"""Field of a row whose id stood in an earlier one: how many did."""

FORMS = (
    f"the hub id {HUB}, a folder of its layout (the one that holds huggingface_data/, or that one itself), "
    "or the one JSON file of a dataset"
)
"""Accepted values of `--data`, for messages."""

_ANNOTATIONS = "TDIUC/TDIUC_val_anns.json"
_CHOICES = "TDIUC/choice_list/{kind}.json"
_COUNTS = "MSCOCO/objectCounting_answer_list/answer_list.json"
_IDENTITY = ("question_id", "id", "instance_id")
_TABLES = ("questions", "answers")


def open_reform(task: str, data: str | None) -> RowSource:
    """Opens the data of one dataset, lazily; `data` is one of `FORMS`, None means the hub id.

    Raises:
        DataError: It is not there or is not this dataset's file.
    """
    dataset = DATASETS[task]
    files = _Files(dataset, data)
    main = files.path(dataset.file)
    shared: dict[str, Any] = {}
    annotations: dict[Any, tuple[int, Record]] = {}
    prefix = ""
    if dataset.family == "tdiuc":
        shared["choice"] = _choices(files.path(_CHOICES.format(kind=dataset.kind)))
        annotations = _annotations(files.path(_ANNOTATIONS), dataset.kind)
        count = len(annotations)
    elif dataset.family == "dialog":
        header, count = _scan(main, "data.dialogs")
        _check_header(main, header, FAMILIES[dataset.family].header)
        shared.update({name: tuple(_items(main, f"data.{name}.item")) for name in _TABLES})
        prefix = "data.dialogs.item"
    elif FAMILIES[dataset.family].array:
        _, count = _scan(main, "")
        prefix = "item"
    else:
        header, count = _scan(main, "data")
        _check_header(main, header, FAMILIES[dataset.family].header)
        prefix = "data.item"
        if dataset.family == "clevr":
            shared["instructs"] = tuple(_items(main, "instructs.item"))
    if dataset.family == "counting":
        shared["choice"] = _choices(files.path(_COUNTS))
    if not count:
        raise DataError(f"{main} has no rows{f' of question type {dataset.kind}' if dataset.kind else ''}")

    def iterate() -> Iterator[Row]:
        seen: Counter[str] = Counter()
        rounds = 0
        for number, record in enumerate(_items(main, prefix)) if prefix else _answered(main, annotations):
            row = row_of(record, number, dataset, {**shared, FIRST_ROUND: rounds}, main.name)
            rounds += len(row.fields.get("dialog", ()))
            name = str(next((record[key] for key in _IDENTITY if isinstance(record.get(key), str | int)), number))
            seen[name] += 1
            yield Row({**row.fields, TWIN: seen[name] - 1}, row.load) if seen[name] > 1 else row

    return RowSource(origin=files.origin, digest=digest_files(files.read.items()), count=count, iterate=iterate)


def row_of(record: Record, number: int, dataset: Dataset, shared: Mapping[str, Any], where: str) -> Row:
    """Returns the row of one record, whose number counts from 0.

    `shared` are the fields that a file holds once for all records: choices, instructions, the dialogues' tables.

    Raises:
        DataError: The record lacks a field of its family; the message names the file, `where`.
    """
    location = f"{where}, row {number + 1}"
    if not isinstance(record, dict):
        raise DataError(f"{location}, is not an object")
    family = FAMILIES[dataset.family]
    missing = [key for key in family.required if key not in record]
    image = next((key for key in family.image if key in record), None)
    if missing or image is None:
        wanted = ", ".join([*family.required, " or ".join(family.image)])
        raise DataError(f"{location}, lacks {', '.join(missing) or 'its image'}; {dataset.label} needs {wanted}")
    encoded = record[image]
    # A dialogue's image_id is a number; everywhere else the key holds the image itself.
    fields = {key: value for key, value in record.items() if key != image}
    return Row({**shared, **fields, NUMBER: number}, lambda _: decoded(encoded, f"{location}, {image}"))


class _Files:
    """The files of a dataset; keeps those that were used, for the digest."""

    def __init__(self, dataset: Dataset, data: str | None) -> None:
        self.dataset = dataset
        self.read: dict[str, Path] = {}
        self.folder = Path(data or HUB).expanduser()
        self.local = data is not None and self.folder.exists()
        self.origin = self.folder.name if self.local else data or HUB
        if not self.local and not hub.HUB_ID.fullmatch(self.origin):
            raise DataError(f"no data at {self.folder}; --data takes {FORMS}")

    def path(self, name: str) -> Path:
        """Returns a file below huggingface_data/."""
        path = self._local(name) if self.local else self._fetched(name)
        self.read[name] = path
        return path

    def _local(self, name: str) -> Path:
        if self.folder.is_file():
            if name == self.dataset.file:
                return self.folder
            raise DataError(f"{self.dataset.label} needs {name} as well: give --data the folder that holds both")
        tried = [self.folder / below / name for below in ("huggingface_data", "", "ReForm-Eval-Data/huggingface_data")]
        file = next((path for path in tried if path.is_file()), None) or self._renamed(name, tried)
        if file is None:
            raise DataError(f"{self.folder} has no {tried[0].relative_to(self.folder)}; --data takes {FORMS}")
        return file

    def _renamed(self, name: str, tried: list[Path]) -> Path | None:
        """TDIUC's two tables have had several names: takes the only file that is named after its content."""
        word = {self.dataset.file: "ques", _ANNOTATIONS: "ann"}.get(name, "") if self.dataset.kind else ""
        files = [file for path in tried for file in path.parent.glob(f"*{word}*.json")] if word else []
        return files[0] if len(files) == 1 else None

    def _fetched(self, name: str) -> Path:
        from huggingface_hub import hf_hub_download

        repository, _, revision = self.origin.partition("@")
        hub.reach(f"{name} of {repository}")
        try:
            return Path(
                hf_hub_download(repository, f"huggingface_data/{name}", repo_type="dataset", revision=revision or None)
            )
        except hub.failures() as error:
            cause = hub.cause(error)
            raise DataError(f"{name} of {repository} cannot be read from the hub ({cause}); {hub.ELSEWHERE}") from error


@contextmanager
def _opened(file: Path) -> Iterator[BinaryIO]:
    """Opens a JSON file; what goes wrong while it is read is a DataError."""
    try:
        with file.open("rb") as stream:
            yield stream
    except (ijson.JSONError, UnicodeDecodeError) as error:
        raise DataError(f"{file} is not JSON: {error}") from error
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror or error}") from error


def _items(file: Path, prefix: str) -> Iterator[Any]:
    with _opened(file) as stream:
        yield from ijson.items(stream, prefix, use_float=True)


def _scan(file: Path, records: str) -> tuple[dict[str, Any], int]:
    """Returns the header of an object (scalars, and objects of scalars) and the number of its records."""
    header: dict[str, Any] = {}
    item, count, kind = f"{records}.item" if records else "item", 0, ""
    with _opened(file) as stream:
        for prefix, event, value in ijson.parse(stream, use_float=True):
            kind = kind or event
            if prefix == item and event in ("start_map", "start_array"):
                count += 1
            elif records and event in ("string", "number", "boolean") and not prefix.startswith("data."):
                _put(header, prefix, value)
    wanted = "start_map" if records else "start_array"
    if kind != wanted:
        raise DataError(f"{file} should be {'an object' if records else 'an array of records'}")
    return header, count


def _put(header: dict[str, Any], prefix: str, value: Any) -> None:
    name, _, inner = prefix.partition(".")
    if not inner:
        header[name] = value
    elif "." not in inner and inner != "item":
        held = header.setdefault(name, {})
        if isinstance(held, dict):
            held[inner] = value


def _check_header(file: Path, header: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    for key, value in wanted.items():
        if key not in header or (value is not None and header[key] != value):
            says = f"{key} is {header[key]!r}" if key in header else f"there is no {key}"
            raise DataError(f"{file} is not the file of this dataset: {says} in its header, not {value or 'one'!r}")


def _choices(file: Path) -> tuple[Any, ...]:
    choices = tuple(_items(file, "choice.item"))
    if len(choices) < 4:
        raise DataError(f"{file} has {len(choices)} choices; distractors are drawn from at least 4")
    return choices


def _annotations(file: Path, kind: str) -> dict[Any, tuple[int, Record]]:
    """Returns TDIUC's annotations of one question type by question id, with their rank among these."""
    kept: dict[Any, Record] = {}
    for number, record in enumerate(_items(file, "item"), 1):
        try:
            if record["question_type"] == kind:
                kept[record["question_id"]] = {"answers": record["answers"], "ans_source": record.get("ans_source")}
        except (KeyError, TypeError):
            raise DataError(f"{file}, row {number}, lacks question_id, question_type or answers") from None
    return {key: (rank, kept[key]) for rank, key in enumerate(sorted(kept))}


def _answered(file: Path, annotations: Mapping[Any, tuple[int, Record]]) -> Iterator[tuple[int, Any]]:
    """Yields TDIUC's questions with their answers, numbered by question id; those of another type are passed over."""
    for record in _items(file, "item"):
        annotation = annotations.get(record.get("question_id"))
        if annotation:
            yield annotation[0], {**record, **annotation[1]}
