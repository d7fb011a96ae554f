"""Constrained decoding: holds answers to a format, token by token, by llguidance (https://github.com/guidance-ai/llguidance)."""

from __future__ import annotations

import functools
import json
import re
import threading
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import InternalFailure, Unsupported
from lyncean.vocabulary.response_format import plain_regex, schema_of
from model_server.hf.tokens import vocabulary

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

_BLANK = " \n"
"""White space that a model may put before its answer; it does not belong to the answer."""
_SPACES = r"\n {0,16}| "
"""White space between the tokens of JSON: enough to indent it, but bounded."""

_KEPT = 64
"""Compiled formats in the cache: most runs have few, and a large schema takes a tenth of a second to compile."""
_OPTIONS = '%llguidance {"no_forcing": true}'
"""Leaves the tokenization of a text to the model, even where only one text is possible."""


class Formats:
    """Compiles formats for one tokenizer. The first one takes the longest: it sorts the vocabulary.

    Args:
        tokenizer: The model's tokenizer.
        ends: Tokens that end an output; at least one.
        marks: Tokens that mark reasoning.
    """

    def __init__(self, tokenizer: Any, ends: Collection[int], marks: Collection[int]) -> None:
        self._tokenizer = tokenizer
        self.ends = sorted(ends)
        self._marks = set(marks)
        self._lock = threading.Lock()
        self._compiler: LLTokenizer | None = None
        self._blanks: NDArray[np.bool_] = np.zeros(0, bool)
        self.tokens: Sequence[bytes] = ()
        self._compiled = functools.lru_cache(_KEPT)(self._compile)

    def compile(self, wanted: model.ResponseFormat) -> Constraint:
        """Returns the constraint of a well-formed format, at its beginning; recent formats come from a cache.

        Raises:
            Unsupported: If it cannot be enforced, or costs too much.
        """
        return self._compiled(wanted.SerializeToString(deterministic=True))

    def _compile(self, serialized: bytes) -> Constraint:
        wanted = model.ResponseFormat.FromString(serialized)
        compiler = self._prepared()
        matcher = _matcher(compiler, wanted, blank=False)
        # A format that may itself begin with white space gets none before it: the two could not be told apart.
        if not (_bits(matcher, len(self._blanks)) & self._blanks).any():
            return Constraint(self.tokens, self.ends, _matcher(compiler, wanted, blank=True), blank=True)
        return Constraint(self.tokens, self.ends, matcher, blank=False)

    def _prepared(self) -> LLTokenizer:
        with self._lock:
            if self._compiler is None:
                from llguidance import LLTokenizer, TokenizerWrapper

                self.tokens = vocabulary(self._tokenizer)
                self._blanks = np.array([token[:1].decode("latin-1") in set(_BLANK) for token in self.tokens])
                wrapped = _Tokenizer(self._tokenizer, self.tokens, self.ends[0], self._marks)
                self._compiler = LLTokenizer(TokenizerWrapper(wrapped), eos_token=self.ends)
            return self._compiler


class Constraint:
    """Follows one answer.

    Args:
        tokens: Bytes of each token of the vocabulary.
        ends: Tokens that end an output.
        matcher: The format, at its beginning.
        blank: Whether white space may stand before the answer.
    """

    def __init__(self, tokens: Sequence[bytes], ends: Sequence[int], matcher: LLMatcher, *, blank: bool) -> None:
        self._tokens = tokens
        self._ends = ends
        self._matcher = matcher
        self._blank = blank
        self._answer = b""

    def copy(self) -> Constraint:
        """Returns a constraint of the same format, for another attempt at the answer."""
        return Constraint(self._tokens, self._ends, self._matcher.deep_copy(), blank=self._blank)

    def allowed(self, size: int) -> torch.Tensor:
        """Returns the mask of tokens that may come next, end tokens included: [size], bool, on the CPU.

        Raises:
            InternalFailure: If no token may.
        """
        bits = _bits(self._matcher, size)
        if not bits.any():
            reason = " ".join(self._matcher.get_error().split())[:300]
            raise InternalFailure("format_stuck", f"no token keeps the response_format: {reason or 'a dead end'}")
        return torch.from_numpy(bits)

    def before(self, size: int) -> torch.Tensor:
        """Returns the mask of tokens for the reasoning: all but end tokens, since the answer is still missing."""
        allowed = torch.ones(size, dtype=torch.bool)
        allowed[[end for end in self._ends if end < size]] = False
        return allowed

    def feed(self, token: int) -> None:
        """Advances by the answer's next token, one of the allowed ones."""
        if not self._matcher.consume_token(token):
            raise InternalFailure("format_stuck", f"token {token} breaks the response_format")
        self._answer += self._tokens[token]

    @property
    def complete(self) -> bool:
        """True if the answer is complete and cannot continue."""
        return self._matcher.is_stopped()

    @property
    def text(self) -> str:
        """The answer so far, without a character that the output limit has cut."""
        text = self._answer.decode(errors="ignore")
        return text.lstrip(_BLANK) if self._blank else text


class _Tokenizer:
    """A tokenizer with the interface that llguidance expects."""

    bos_token_id = None

    def __init__(self, tokenizer: Any, tokens: Sequence[bytes], end: int, marks: Collection[int]) -> None:
        added = tokenizer.added_tokens_decoder
        self.tokens = tokens
        self.eos_token_id = end
        self.special_token_ids = sorted(
            {*tokenizer.all_special_ids, *marks, *(number for number, token in added.items() if token.special)}
        )
        self._tokenizer = tokenizer

    def __call__(self, text: str | bytes) -> list[int]:
        """Returns the tokens of a text."""
        text = text if isinstance(text, str) else text.decode(errors="replace")
        ids: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids


def _matcher(compiler: LLTokenizer, wanted: model.ResponseFormat, *, blank: bool) -> LLMatcher:
    """Compiles a format, with or without white space before it."""
    from llguidance import LLMatcher

    match wanted.WhichOneof("kind"):
        case "choices":
            grammar = _of_regex("|".join(map(re.escape, wanted.choices.texts)), blank=blank)
        case "regex":
            grammar = _of_regex(plain_regex(wanted.regex), blank=blank)
        case _:
            grammar = _of_schema(schema_of(wanted.json_schema), blank=blank)
    matcher = LLMatcher(compiler, f"{_OPTIONS}\n{grammar}", log_level=0)
    if matcher.is_error():
        reason = " ".join(matcher.get_error().split())
        raise Unsupported("format_not_supported", f"this response_format cannot be kept: {reason[:300]}")
    return matcher


def _of_regex(regex: str, *, blank: bool) -> str:
    from llguidance import regex_to_lark

    before = f"[{_BLANK}]{{0,2}}" if blank else ""
    return f"start: /{regex_to_lark(f'{before}(?:{regex})', '')}/"


def _of_schema(schema: Any, *, blank: bool) -> str:
    schema = schema if isinstance(schema, dict) else {} if schema else {"enum": []}
    schema_text = json.dumps({**schema, "x-guidance": {"whitespace_pattern": _SPACES}})
    before = "BLANK? " if blank else ""
    return f"start: {before}answer\nBLANK: /[ \\n]{{1,2}}/\nanswer: %json {schema_text}"


def _bits(matcher: LLMatcher, size: int) -> NDArray[np.bool_]:
    """Returns the mask of a matcher: [size], bool; ids beyond its vocabulary are not allowed."""
    mask = np.unpackbits(np.frombuffer(matcher.compute_bitmask(), np.uint8), bitorder="little")[:size]
    return np.pad(mask, (0, size - len(mask))).astype(bool)
