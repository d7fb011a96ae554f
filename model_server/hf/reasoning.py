"""Splits reasoning from the answer, by the marks of a checkpoint's tokenizer or template."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from model_server.decoding import MARKS, Marks, split_reasoning

_WINDOW = 16
"""More tokens than any mark that is not a single token."""


def marks_of(tokenizer: Any, template: str) -> Marks | None:
    """Returns the marks around a checkpoint's reasoning; None if it has no known marks.

    Args:
        tokenizer: The tokenizer, which usually has the marks as added tokens.
        template: The chat template, which names marks that are plain text.
    """
    tokens = tokenizer.get_added_vocab()
    for marks in MARKS:
        if marks.opens in tokens and marks.closes in tokens:
            return marks
    return next((marks for marks in MARKS if marks.closes in template), None)


def mark_ids(tokenizer: Any, marks: Marks) -> list[int]:
    """Returns the tokens that open and close the reasoning; empty if its marks are plain text."""
    added = tokenizer.get_added_vocab()
    ids: list[int] = [added[mark] for mark in marks[:2] if mark in added]
    return ids if len(ids) == 2 else []


class Reasoning:
    """Follows one output token by token, and tells reasoning from the answer.

    Args:
        tokenizer: The model's tokenizer.
        marks: The model's marks around reasoning.
        prompt: The prompt's text; some templates open the reasoning at its end.
        off: Whether the request turns reasoning off.

    Attributes:
        inside: Whether the next token is reasoning.
        tokens: Number of reasoning tokens so far, marks included.
        answer: Index of the first token of the answer, as far as it is known.
    """

    def __init__(self, tokenizer: Any, marks: Marks, prompt: str, *, off: bool = False) -> None:
        self._tokenizer = tokenizer
        self._marks = marks
        self._ids = mark_ids(tokenizer, marks)
        self._marked = 0
        # Some prompts open the reasoning earlier than at their end, and the output has the closing mark alone.
        self._unseen = not off and not prompt.rstrip().endswith(marks.closes)
        self.inside = self._opened = prompt.rstrip().endswith(marks.opens + marks.label)
        self.tokens = self.answer = 0

    def feed(self, ids: Sequence[int]) -> None:
        """Updates the state by the output's last token; `ids` are all tokens so far."""
        if self.inside:
            self.tokens += 1
            if self._closes(ids):
                self.inside, self.answer = False, len(ids)
                self._marked += 1
        elif self._opens(ids):
            self.inside = True
            self.tokens += 1 if self._ids else len(ids) - self.answer
            self._marked += 1
        elif self._unseen and not self.tokens and self._closes(ids):
            self.tokens = self.answer = len(ids)

    @property
    def opening(self) -> int | None:
        """The token by which the output may still open the reasoning; None if it may not or marks are plain text."""
        return self._ids[0] if self._ids and self._unseen and not self.inside and not self.tokens else None

    def closing(self, budget: int) -> int | None:
        """Returns the token that closes the reasoning once it has reached its budget; None before."""
        return self._ids[1] if self.inside and self.tokens - self._marked >= budget else None

    def _opens(self, ids: Sequence[int]) -> bool:
        if self._ids:
            return ids[-1] == self._ids[0]
        start = len(ids) <= _WINDOW and not self.tokens
        return start and decode(self._tokenizer, ids).lstrip().startswith(self._marks.opens)

    def _closes(self, ids: Sequence[int]) -> bool:
        if self._ids:
            return ids[-1] == self._ids[1]
        return self._marks.closes in decode(self._tokenizer, ids[-_WINDOW:])

    def split(self, ids: Sequence[int], *, specials: bool = False) -> tuple[str, str]:
        """Returns reasoning and answer of the complete output, with special tokens or without."""
        if not self.tokens:
            return "", decode(self._tokenizer, [token for token in ids if token not in self._ids], specials=specials)
        if not self._ids:
            output = decode(self._tokenizer, ids, specials=specials)
            return split_reasoning(output, self._marks, inside=self._opened)
        texts: tuple[list[str], list[str]] = ([], [])
        inside = self._opened or next(token for token in ids if token in self._ids) == self._ids[1]
        for mark, run in groupby(ids, lambda token: token if token in self._ids else None):
            if mark is not None:
                inside = mark == self._ids[0]
            elif inside:
                text = decode(self._tokenizer, list(run)).strip()
                texts[0].append(text.removeprefix(self._marks.label).strip())
            else:
                texts[1].append(decode(self._tokenizer, list(run), specials=specials))
        return "\n\n".join(filter(None, texts[0])), "".join(texts[1]).lstrip()


def decode(tokenizer: Any, ids: Sequence[int], *, specials: bool = False) -> str:
    """Returns the text of output tokens; special ones are left out unless `specials`."""
    return str(tokenizer.decode(list(ids), skip_special_tokens=not specials, clean_up_tokenization_spaces=False))


def blank_between(tokenizer: Any, prompt: Sequence[int], ids: Sequence[int]) -> str:
    """Returns the white space between prompt and output, which many tokenizers decode only after another token."""
    before = decode(tokenizer, prompt[-1:])
    after = decode(tokenizer, [*prompt[-1:], *ids]).removeprefix(before)
    return after[: len(after) - len(after.lstrip())]
