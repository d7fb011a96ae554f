"""Rows in the schema that a foreign task reads, found by trying its own code on guesses.

`python tests/helpers/harness_rows.py lmms OUT.json I/N [NAME...]` tries configurations and writes what came of each.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import json
import os
import random
import re
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import datasets
from PIL import Image

from helpers import clips
from lyncean_harnesses.benchmark import LM_EVAL, LMMS
from lyncean_harnesses.benchmark.task import ForeignTask
from lyncean_harnesses.benchmark.visuals import Sources
from lyncean_harnesses.library import HarnessError, harness
from lyncean_harnesses.library.scored import state
from lyncean_harnesses.library.values import decode, encode

WORDS = ("red", "blue", "green", "grey", "two cats", "a tree", "7", "12")
LETTERS = "ABCD"
ROWS = 6
TRIES = 40
SECONDS = 4
_IMAGE = re.compile(r"image|img|picture|photo|figure|screenshot|frame|visual", re.I)
_NAMES = re.compile(r"id$|_id|index|idx|num|url|path|name|file|width|height|size|type|source|caption|categ", re.I)
_CHOICES = re.compile(r"option|choice|candidates|answers$|endings", re.I)
_ANSWER = re.compile(r"answer|label|gt|target|solution|correct|gold|response|truth", re.I)
_NUMBER = re.compile(r"id$|idx|index|num|count|width|height|year|level|hop", re.I)


def picture(rng: random.Random) -> dict[str, Any]:
    """A small noisy file, PNG or JPEG, as datasets store it."""
    size = (rng.randint(8, 24), rng.randint(8, 24))
    image = Image.frombytes("RGB", size, rng.randbytes(size[0] * size[1] * 3))
    buffer = io.BytesIO()
    image.save(buffer, rng.choice(["PNG", "JPEG"]))
    return {"bytes": buffer.getvalue(), "path": None}


def sound(number: int) -> dict[str, Any]:
    """A short tone, as datasets store it."""
    return {"bytes": clips.audio(0.2 + 0.1 * (number % 4), 8000, hertz=200 + 50 * number), "path": f"{number}.wav"}


def _words(rng: random.Random) -> list[str]:
    return rng.sample(WORDS, 4)


GUESSES: dict[str, Any] = {
    "image": (datasets.Image(), lambda r, i: picture(r)),
    "images": ([datasets.Image()], lambda r, i: [picture(r), picture(r)]),
    "words": ([datasets.Value("string")], lambda r, i: _words(r)),
    "words_text": (datasets.Value("string"), lambda r, i: repr(_words(r))),
    "words_json": (datasets.Value("string"), lambda r, i: json.dumps(_words(r))),
    "letter": (datasets.Value("string"), lambda r, i: r.choice(LETTERS)),
    "place": (datasets.Value("int64"), lambda r, i: r.randrange(4)),
    "yes": (datasets.Value("string"), lambda r, i: r.choice(["yes", "no"])),
    "word": (datasets.Value("string"), lambda r, i: r.choice(WORDS)),
    "text": (datasets.Value("string"), lambda r, i: f"What is {r.choice(WORDS)} number {i}?"),
    "number_text": (datasets.Value("string"), lambda r, i: str(r.randint(1, 9))),
    "integer": (datasets.Value("int64"), lambda r, i: i),
    "name": (datasets.Value("string"), lambda r, i: f"x{i}"),
    "film": (datasets.Value("string"), lambda r, i: f"{i}.mp4"),
    "art": (datasets.Value("string"), lambda r, i: f"validation_{('Art', 'Math')[i % 2]}_{i}"),
    "kind": (datasets.Value("string"), lambda r, i: f"kind{i % 2}"),
    "real": (datasets.Value("float64"), lambda r, i: r.random()),
    "audio": ({"bytes": datasets.Value("binary"), "path": datasets.Value("string")}, lambda r, i: sound(i)),
    "box": ([datasets.Value("float64")], lambda r, i: [0.1, 0.1, 0.5, 0.6]),
    "integers": ([datasets.Value("int64")], lambda r, i: [r.randrange(4), 1]),
    "none": (datasets.Value("string"), lambda r, i: None),
    "pair": (datasets.Value("int64"), lambda r, i: r.randrange(2)),
    "one_two": (datasets.Value("string"), lambda r, i: r.choice(["1", "2"])),
    "blanked": (datasets.Value("string"), lambda r, i: f"Then _ was {r.choice(WORDS)}, number {i}."),
    "seen": (datasets.Value("string"), lambda r, i: "What of <image 1>" + " and <image 2>" * (i % 2)),
    "cause": (datasets.Value("string"), lambda r, i: r.choice(["cause", "effect"])),
    "flag": (datasets.Value("bool"), lambda r, i: r.random() < 0.5),
    "choices": ({"text": [datasets.Value("string")], "label": [datasets.Value("string")]},
                lambda r, i: {"text": _words(r), "label": list(LETTERS)}),
    "dialog": ([{"from": datasets.Value("string"), "value": datasets.Value("string")}],
               lambda r, i: [{"from": "human", "value": f"Why {i}?"}, {"from": "gpt", "value": "A"}]),
}  # fmt: skip


def guesses(column: str) -> list[str]:
    """The kinds of a column, the likeliest first."""
    if column in ("question", "query", "prompt", "hint", "context", "instruction"):
        first = ["text"]
    elif re.search("audio|sound|wav$|speech$", column, re.I) and not _NAMES.search(column):
        first = ["audio", "text"]
    elif _IMAGE.search(column) and not _NAMES.search(column):
        first = ["images", "image"] if column.endswith("s") else ["image", "images"]
    elif len(column) == 1 or re.fullmatch(r"(option|choice)[_ ]?[a-eA-E0-9]", column):
        first = ["word"]
    elif _CHOICES.search(column):
        first = ["words", "words_text", "words_json", "choices", "text"]
    elif _ANSWER.search(column):
        first = ["letter", "place", "words", "word", "yes", "number_text"]
    elif _NUMBER.search(column):
        first = ["integer", "name", "number_text"]
    elif re.search("bbox|box", column):
        first = ["box"]
    elif re.search("categ|type|task|domain|subject|split|level|source|lang", column):
        first = ["kind", "name", "integer"]
    elif re.search("conversation|messages|dialog", column):
        first = ["dialog", "text"]
    else:
        first = ["text", "words", "integer", "letter", "real"]
    return first + [kind for kind in GUESSES if kind not in first]


def columns_of(task: ForeignTask) -> list[str]:
    """The columns that a task's functions and templates name."""
    names: list[str] = []
    modules = set()
    for value in task.config.values():
        if callable(value) and (module := inspect.getmodule(inspect.unwrap(value))):
            for function in _reached(value, module):
                names.extend(_keys(function))
            modules.add(module)
        elif isinstance(value, str):
            names.extend(re.findall(r"\{\{\s*(\w+)", value))
    for key in ("doc_to_text", "doc_to_target", "doc_to_visual", "doc_to_choice"):
        value = task.config.get(key)
        if isinstance(value, str) and value.isidentifier():
            names.append(value)
    return list(dict.fromkeys(name for name in names if name))


def _reached(function: Any, module: Any, depth: int = 3) -> Iterator[Any]:
    """A function and those of its module that it names."""
    seen, wanted = set(), [(function, depth)]
    while wanted:
        node, left = wanted.pop()
        if id(node) in seen or not hasattr(node, "__code__"):
            continue
        seen.add(id(node))
        yield node
        if left:
            for name in node.__code__.co_names:
                other = getattr(module, name, None)
                if inspect.isfunction(other):
                    wanted.append((other, left - 1))


def _keys(function: Any) -> Iterator[str]:
    with contextlib.suppress(OSError, SyntaxError, TypeError):
        source = inspect.getsource(function)
        tree = ast.parse(re.sub(r"^\s+", "", source) if source[0].isspace() else source)
        rows = {"doc", "example", "row", "x", "sample", "item", "line", "d", "data", "ex", "sampled_doc"}
        for node in ast.walk(tree):
            owner = getattr(node, "value", None)
            key: Any = None
            if isinstance(node, ast.Subscript):
                key = node.slice
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
                owner, key = node.func.value, (node.args or [None])[0]
            of_row = isinstance(owner, ast.Name) and owner.id in rows
            if of_row and isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield key.value


def _constant(kind: str) -> tuple[Any, Callable[..., str]]:
    """Returns a column whose kind "=WORD" is a word for every row."""
    return datasets.Value("string"), lambda *_: kind.removeprefix("=")


def make(kinds: dict[str, str], rows: int = ROWS, seed: int = 0) -> datasets.Dataset:
    """Rows of these columns."""
    rng = random.Random(seed)
    guess = {name: GUESSES.get(kind) or _constant(kind) for name, kind in kinds.items()}
    features = datasets.Features({name: feature[0] for name, feature in guess.items()})
    records = [{name: feature[1](rng, number) for name, feature in guess.items()} for number in range(rows)]
    table = datasets.Dataset.from_list(records, features=features)
    for name, kind in kinds.items():
        if kind == "audio":  # made of samples by torchcodec alone
            table = table.cast_column(name, datasets.Audio())
    return table


_LOST = re.compile(r"(/[^\s'\"]+\.(?:mp4|avi|mov|mkv|webm|wav|mp3|flac))")
"""A file that a task's code looks for."""


def film(path: Path, number: int) -> None:
    """Writes a file of sound or pictures where a task looks for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sound = path.suffix in (".wav", ".mp3", ".flac")
    path.write_bytes(clips.audio(0.3, 8000, hertz=200 + 50 * (number % 9)) if sound else clips.video(3 + number % 9, 5))


def completed(show: Callable[[], Any]) -> Any:
    """Returns what a task's code shows, having written each file that it misses below HF_HOME."""
    for _ in range(8):
        try:
            return show()
        except (Exception, SystemExit) as error:
            lost = _LOST.search(str(error))
            if lost is None or Path(lost[1]).exists() or not Path(lost[1]).is_relative_to(os.environ["HF_HOME"]):
                raise
            film(Path(lost[1]), sum(lost[1].encode()))
    return show()


def _asked(task: ForeignTask, number: int, context: str) -> Any:
    return task.messages(number, context, task.settings(), Sources(task.stored(number)))


def forward(home: Path) -> datasets.Dataset:
    """Returns rows of OVO-Bench's forward questions of one, two and three rounds, with a film for each."""
    rng, rows = random.Random(5), []
    for number in range(9):
        rounds = [{"count": rng.choice((2, 4)), "type": 0, "step": f"step {step}"} for step in range(1 + number % 3)]
        for step in range(len(rounds)):
            path = home / "ovobench" / "chunked_videos" / f"{number}_{step}.mp4"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(clips.video(3 + number + 9 * step, 5))
        about = {"task": "REC", "activity": f"jump {number}", "question": "?", "options": ["a"], "gt": 0}
        rows.append({"id": number, **about, "test_info": rounds})
    return datasets.Dataset.from_list(rows)


class TooLongError(BaseException):
    """A task takes its time: it waits for a judge, or for a network."""


def attempt(foreign: ForeignTask, kinds: dict[str, str]) -> dict[str, Any]:
    """Asks and scores every row; returns what the task has. Passes exceptions of its code through."""
    splits = {split for key in ("training_split", "validation_split", "test_split", "fewshot_split")
              if (split := foreign.config.get(key))}  # fmt: skip
    data = datasets.DatasetDict({split: make(kinds) for split in splits})
    task = foreign._task = foreign.harness.load(foreign.name, foreign.include, data)
    foreign._state = json.dumps(state(task))
    rows = list(foreign._rows())
    if not rows:
        raise ValueError("no rows are left")
    images = 0
    for row in rows:
        number, context = row["doc_id"], row["context"]
        first = context if isinstance(context, str) else context[0]
        messages = completed(partial(_asked, foreign, number, first))
        images = max(images, sum(part.image is not None for message in messages for part in message.parts))
    scored = foreign.harness.scored(foreign.name, foreign.include, foreign._state)
    values: dict[tuple[str, str], list[Any]] = {}
    for row, answer in zip(rows, ("A", "", "yes", "The answer is 7.", "(B) blue", "no"), strict=False):
        doc = decode(encode(dict(row["doc"])))
        if foreign.kind in ("generate_until", "generate_visual_cot"):
            responses: list[Any] = [[answer]]
        else:
            count = sum(len(continuations) for _, continuations in foreign.continuations(row))
            responses = [[(float(hash((answer, index)) % 7), index == 1)] for index in range(count)]
        for key, metrics in scored.results(doc, responses).items():
            for name, value in metrics.items():
                values.setdefault((key, name), []).append(decode(encode(value)))
    figures = {}
    for (_, name), listed in values.items():
        if name in scored._task.aggregation():
            figures[name] = type(scored.aggregate(name, listed)).__name__
    if not figures:
        raise ValueError("no metric has a value")
    return {"images": images, "metrics": figures, "filters": len(task._filters)}


def search(prefix: str, name: str) -> dict[str, Any]:
    """Looks for rows with which a task can be asked and scored."""
    started = time.monotonic()
    try:
        foreign = {"lmms": LMMS, "lm-eval": LM_EVAL}[prefix].make(name, ())
    except HarnessError as error:
        return {"outcome": "not loaded", "why": str(error)}
    kinds = {column: guesses(column)[0] for column in columns_of(foreign)}
    tried = dict.fromkeys(kinds, 0)
    why = "no columns are named"
    rng = random.Random(name)
    for number in range(1, TRIES + 1):
        if time.monotonic() - started > 4 * SECONDS:
            break
        if not kinds:
            return {"outcome": "no rows found", "kind": foreign.kind, "why": why}
        try:
            signal.setitimer(signal.ITIMER_REAL, SECONDS, 1)
            result = attempt(foreign, kinds)
            signal.setitimer(signal.ITIMER_REAL, 0)
            return {"outcome": "works", "kind": foreign.kind, "columns": kinds, **result}
        except TooLongError:
            return {"outcome": "no rows found", "kind": foreign.kind, "why": "waits for a judge or a network"}
        except BaseException as error:
            signal.setitimer(signal.ITIMER_REAL, 0)
            if isinstance(error, KeyboardInterrupt):
                raise
            cause: BaseException = error
            while cause.__cause__ is not None:
                cause = cause.__cause__
            why = f"{type(cause).__name__}: {str(cause)[:160]}"
            missing = cause.args[0] if isinstance(cause, KeyError) and cause.args else None
            if isinstance(missing, str) and missing not in kinds and len(missing) < 60:
                kinds[missing], tried[missing] = guesses(missing)[0], 0
                continue
            column = rng.choice(_near(cause, kinds))
            tried[column] = (tried[column] + 1) % (8 if rng.random() < 0.8 else len(GUESSES))
            kinds[column] = guesses(column)[tried[column]]
            if not number % 10:  # begin anew: a guess elsewhere may have been wrong
                kinds = {column: rng.choice(guesses(column)[:3]) for column in kinds}
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    return {"outcome": "no rows found", "kind": foreign.kind, "why": why}


def _near(error: BaseException, kinds: dict[str, str]) -> list[str]:
    """The columns that the failing lines name, from the innermost outwards."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        line = frame.line or ""
        if near := [column for column in kinds if re.search(rf"[\"']{re.escape(column)}[\"']", line)]:
            return near
    return list(kinds)


def _late(*_: Any) -> None:
    raise TooLongError


def run(prefix: str, out: Path, shard: str, chosen: list[str]) -> None:
    """Tries every configuration, or every N-th from I."""
    datasets.disable_progress_bars()
    signal.signal(signal.SIGALRM, _late)
    part, _, count = shard.partition("/")
    names = chosen or sorted(name for name, entry in harness(prefix).index().items() if entry["type"] == "task")
    results = {}
    for name in names[int(part) :: int(count)]:
        try:
            results[name] = search(prefix, name)
        except TooLongError:
            results[name] = {"outcome": "no rows found", "why": "waits for a judge or a network"}
        print(name, results[name]["outcome"], flush=True)
        if len(results) % 20 == 0:
            out.write_text(json.dumps(results, indent=1))
    out.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    run(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4:])
