"""Options and answers of a row, in whichever form the data has them."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from orchestrator.benchmarks.taskfile.reading import TaskFile
from orchestrator.data.rows import DataError, Row

LETTERS = string.ascii_uppercase
_YES_NO = (["no", "yes"], ["false", "true"])
_MEANINGS = {"yes": True, "y": True, "true": True, "no": False, "n": False, "false": False}


def meaning(text: str) -> bool | None:
    """Returns whether a text says yes or no, true or false, in one of the usual forms; None for any other text."""
    return _MEANINGS.get(text.strip().strip(".").lower())


@dataclass(frozen=True, slots=True)
class RowAnswers:
    """The options and right answers of one row.

    Attributes:
        options: The options' texts, in order; empty for an open question.
        right: Place of the right one; -1 for an open question.
        texts: The right answers of an open question.
        letters: Whether Likelihood scores letters and not texts.
        worded: Whether the options have no letters: yes and no.
    """

    options: tuple[str, ...]
    right: int
    texts: tuple[str, ...]
    letters: bool
    worded: bool = False

    @property
    def continuations(self) -> tuple[str, ...]:
        """The continuations that Likelihood scores."""
        return tuple(LETTERS[: len(self.options)]) if self.letters else self.options

    def targets(self, likelihood: bool) -> tuple[str, ...]:
        """The right answers, in the form that the rule reads."""
        if not self.options:
            return self.texts
        if likelihood or self.worded:
            return (self.continuations[self.right],)
        return (LETTERS[self.right],)

    def listed(self) -> str:
        """The options with their letters, one a line."""
        return "\n".join(f"{letter}. {option}" for letter, option in zip(LETTERS, self.options, strict=False))

    def shuffled(self, generator: random.Random) -> RowAnswers:
        """The same options in another order."""
        order = list(range(len(self.options)))
        generator.shuffle(order)
        return replace(self, options=tuple(self.options[i] for i in order), right=order.index(self.right))


@dataclass(frozen=True, slots=True)
class Answers:
    """Columns and format of a table's options and answers.

    Attributes:
        columns: Columns of the options; one column that holds lists, or several of one option each.
        answer: Column of the answer.
        form: "letter", "number" (from 1), "index" (from 0) or "text".
        letters: Whether Likelihood scores letters and not texts.
        words: The two answers of a yes/no question, instead of columns; () otherwise.
    """

    columns: Sequence[str]
    answer: str
    form: str
    letters: bool
    words: tuple[str, ...] = ()

    @classmethod
    def of(cls, file: TaskFile) -> Answers:
        """Reads the keys of a task file.

        Raises:
            TaskFileError: They do not fit together.
        """
        columns, yes_no = file.names("options"), tuple[str, ...]()
        if sorted(name.lower() for name in columns) in _YES_NO or (not columns and file.values.get("rule") == "yes_no"):
            columns, yes_no = [], tuple(columns) or ("yes", "no")
        if len(columns) > len(LETTERS):
            raise file.error(f"options has {len(columns)} columns: at most {len(LETTERS)} have letters", "options")
        form = file.values.get("answer_is", "letter" if columns else "text")
        letters = file.values.get("likelihood", {}).get("score") == "letter"
        if yes_no and letters:
            raise file.error(f"the options {' and '.join(yes_no)} have no letters: score texts", "likelihood", "score")
        if not columns and form != "text":
            raise file.error("answer_is needs options: without them an answer is a text", "answer_is")
        return cls(columns, file.values["answer"], form, letters, yes_no)

    def read(self, row: Row, name: str) -> RowAnswers:
        """Returns the options and right answers of a row.

        Raises:
            DataError: Its answer is none of its options.
        """
        answer = row[self.answer]
        if self.words:
            meant = [word for word in self.words if meaning(word) is meaning(str(answer))]
            if not meant:
                raise DataError(f"{name}: the answer {answer!r} is neither {' nor '.join(self.words)}")
            return RowAnswers(self.words, self.words.index(meant[0]), (), False, worded=True)
        if not self.columns:
            return RowAnswers((), -1, _texts(answer, name), False)
        options = self._options(row, name)
        right = self._place(answer, options)
        if right is None:
            raise DataError(
                f"{name}: the answer {answer!r} is not the {self.form} of one of its {len(options)} options "
                "(answer_is says what the column holds: letter, number, index or text)"
            )
        return RowAnswers(options, right, (), self.letters)

    def _options(self, row: Row, name: str) -> tuple[str, ...]:
        values = row[self.columns[0]] if len(self.columns) == 1 else [row[column] for column in self.columns]
        if isinstance(values, str):
            values = _list(values)
        if not isinstance(values, list):
            raise DataError(f"{name}: options {self.columns[0]} holds {values!r}, not a list")
        texts = ["" if value is None else str(value).strip() for value in values]
        while texts and not texts[-1]:
            texts.pop()
        if len(texts) < 2 or "" in texts or len(texts) > len(LETTERS):
            raise DataError(f"{name}: the options are {texts}; two or more are needed, with no gap between them")
        return tuple(texts)

    def _place(self, answer: Any, options: Sequence[str]) -> int | None:
        text = "" if answer is None else str(answer).strip()
        if self.form == "text":
            return options.index(text) if options.count(text) == 1 else None
        if self.form == "letter":
            letter = text.strip("().:").upper()
            index = LETTERS.find(letter) if len(letter) == 1 else -1
        else:
            if text.endswith(".0"):
                text = text[:-2]
            index = int(text) - (self.form == "number") if text.isdecimal() else -1
        return index if 0 <= index < len(options) else None


def _texts(answer: Any, name: str) -> tuple[str, ...]:
    """The right answers of an open question: one text, or any of a list."""
    values = _list(answer) if isinstance(answer, str) and answer.lstrip().startswith("[") else answer
    texts = tuple(str(value) for value in (values if isinstance(values, list) else [answer]) if value not in (None, ""))
    if not texts:
        raise DataError(f"{name}: the row has no answer")
    return texts


def _list(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
