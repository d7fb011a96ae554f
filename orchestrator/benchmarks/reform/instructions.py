"""Instruction texts: our own five for each family (`instructions.json`), or those of a file.

The reference's texts are not ours to ship: `orchestrator import reform-instructions` reads them out of a user's
checkout of it and writes the file that `--set instructions=FILE` takes.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.benchmarks.reform.datasets import DATASETS, METHODS, Dataset
from orchestrator.data.rows import DataError, Row

FORMAT = "lyncean reform instructions 1"

Texts = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Wording:
    """The instructions of a dataset.

    Attributes:
        generation: Five texts for generation; test k or row k takes the k-th, modulo 5.
        likelihood: Five for likelihood: the same without talk of options.
        suffix: Text after an instruction, by method.
        question: A question that replaces the record's, by method.
    """

    generation: Texts
    likelihood: Texts
    suffix: Mapping[str, str] = field(default_factory=dict)
    question: Mapping[str, str] = field(default_factory=dict)

    def texts(self, method: str) -> Texts:
        """Returns the five texts of a method."""
        return self.likelihood if method == "likelihood" else self.generation


def wording(dataset: Dataset, file: str = "", row: Row | None = None) -> Wording:
    """Returns a dataset's wording: CLEVR's from its row, another's from a file where one is given and has it.

    Raises:
        DataError: The file cannot be read or is malformed, or the row has no instructions.
    """
    if dataset.family == "clevr" and row is not None:
        texts = tuple(map(str, row["instructs"][:5]))
        if not texts:
            raise DataError("the file holds no instructs")
        return Wording(texts, texts)
    wording = _loaded(file).get(dataset.name) if file else None
    if wording:
        return wording
    return OWN[dataset.instructions] if dataset.instructions else Wording((), ())


@functools.lru_cache(maxsize=8)
def _loaded(file: str) -> Mapping[str, Wording]:
    try:
        content = json.loads(Path(file).expanduser().read_text("utf-8"))
    except OSError as error:
        raise DataError(f"instructions {file} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"instructions {file} are not JSON: {error}") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise DataError(
            f"{file} is not a file of instructions: make one with `orchestrator import reform-instructions`"
        )
    known = {dataset.name for dataset in DATASETS.values()}
    unknown = sorted(set(content.get("datasets", {})) - known)
    if unknown:
        raise DataError(f"{file}: there is no dataset {', '.join(unknown)}")
    return {name: _checked(file, name, entry) for name, entry in content.get("datasets", {}).items()}


def _checked(file: str, name: str, entry: Any) -> Wording:
    lists: list[Any] = [entry.get(method) for method in METHODS] if isinstance(entry, dict) else []
    if not all(isinstance(texts, list) and texts and all(isinstance(text, str) for text in texts) for texts in lists):
        raise DataError(f"{file}: {name} needs a list of texts for generation and one for likelihood")
    return _wording(entry)


def _wording(entry: Mapping[str, Any]) -> Wording:
    generation = tuple(entry["generation"])
    likelihood = tuple(entry.get("likelihood", generation))
    return Wording(generation, likelihood, entry.get("suffix", {}), entry.get("question", {}))


OWN: Mapping[str, Wording] = {
    name: _wording(entry) for name, entry in json.loads(Path(__file__).with_suffix(".json").read_text("utf-8")).items()
}
"""Our own texts, by family, out of `instructions.json`; without "likelihood" it has those for generation.

`{}` is the record's caption, hypothesis or task.
"""
