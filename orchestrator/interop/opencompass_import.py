"""OpenCompass' prediction files, with the verdicts of the results file beside them (`--dump-eval-details`)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from orchestrator.data.rows import DataError
from orchestrator.interop.answers import Answer, ToolAnswers

_LABEL = "label: "


def read(path: Path, task: str | None, model: str | None) -> ToolAnswers:
    """Reads predictions/MODEL/DATASET.json, or DATASET_0.json and the further parts of a divided data set.

    Verdicts, and right answers that the predictions lack, are those of results/MODEL/DATASET.json beside that folder.

    Raises:
        DataError: It cannot be read, is no such file, or no right answers are there.
    """
    name, paths = path.stem, [path]
    if name.endswith("_0"):
        while (part := path.with_name(f"{name[:-1]}{len(paths)}.json")).exists():
            paths.append(part)
    folder = path.resolve().parent
    results = folder.parent.parent / "results" / folder.name
    if name.endswith("_0") and (len(paths) > 1 or (results / f"{name[:-2]}.json").exists()):
        name = name[:-2]
    details = _details(results / f"{name}.json")
    answers = []
    for place, (where, fields) in enumerate(_entries(paths)):
        try:
            answers.append(_answer(str(place), fields, details.get(str(place), {})))
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise DataError(f"{where}: {type(error).__name__}: {error}: is it a prediction of OpenCompass?") from None
        except DataError as error:
            raise DataError(f"{where}: {error}") from None
    return ToolAnswers("OpenCompass", task or name, model or folder.name, answers)


def _json(path: Path) -> Any:
    try:
        return orjson.loads(path.read_bytes())
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
    except orjson.JSONDecodeError as error:
        raise DataError(f"{path} is not JSON: {error}") from None


def _entries(paths: list[Path]) -> Iterator[tuple[str, Any]]:
    for path in paths:
        held = _json(path)
        if not isinstance(held, dict) or not all(isinstance(entry, dict) for entry in held.values()):
            raise DataError(f"{path} is no prediction file of OpenCompass: it is not an object of objects")
        try:
            numbers = sorted(held, key=int)
        except ValueError:
            raise DataError(f"{path} is no prediction file of OpenCompass: its entries are not numbered") from None
        if [int(number) for number in numbers] != list(range(len(numbers))):
            raise DataError(f"{path} has gaps in its numbers: has the inference ended?")
        for number in numbers:
            yield f"{path}, entry {number}", held[number]


def _details(path: Path) -> dict[str, Mapping[str, Any]]:
    """Returns what OpenCompass says of each sample; nothing where there is no such file, or it was made without."""
    if not path.exists():
        return {}
    held = _json(path)
    details = held.get("details") if isinstance(held, dict) else None
    if isinstance(details, list):
        details = {str(place): entry for place, entry in enumerate(details)}
    if not isinstance(details, dict):
        return {}
    return {number: entry for number, entry in details.items() if isinstance(entry, dict)}


def _answer(key: str, fields: Mapping[str, Any], detail: Mapping[str, Any]) -> Answer:
    places = [fields.get("gold"), *(detail.get(name) for name in ("references", "answer", "gold"))]
    right = next((found for found in places if found not in (None, "")), None)
    if right is None:
        raise DataError(
            "no right answer is there: run OpenCompass' evaluation with --dump-eval-details, and keep its folder "
            "results beside predictions"
        )
    correct = detail.get("correct")
    read = next((detail[name] for name in ("pred", "predictions") if isinstance(detail.get(name), str)), "")
    common: dict[str, Any] = {"key": key, "score": float(correct) if isinstance(correct, bool) else None}
    if labels := [name for name in fields if name.startswith(_LABEL)]:
        # The mean of minus the log-probabilities of a prompt's tokens: the least is chosen.
        scores = [-float(fields[name]["PPL"]) for name in labels]
        options = tuple(name.removeprefix(_LABEL) for name in labels)
    elif "choices" in fields:
        scores = [math.log(max(float(value), 5e-324)) for value in fields["prediction"]]
        options = tuple(map(str, fields["choices"]))
    else:
        if not isinstance(text := fields["prediction"], str):
            raise DataError("it holds several answers (rounds or samples), which is not supported")
        targets = tuple(map(str, right)) if isinstance(right, list) else (str(right),)
        prompt = _words(fields["origin_prompt"])
        return Answer(prompt=prompt, text=text, targets=targets, extracted=read if read != text else "", **common)
    target = str(right) if str(right) in options else options[int(right)]
    likelihoods = tuple((score, False) for score in scores)
    if len(likelihoods) != len(options):
        raise DataError(f"it has {len(options)} options and {len(likelihoods)} scores")
    prompt = _words(fields.get("origin_prompt") or fields.get("testing input", ""))
    return Answer(prompt=prompt, text="", targets=(target,), options=options, likelihoods=likelihoods, **common)


def _words(prompt: Any) -> str:
    """Returns the words of a prompt: a text, or messages."""
    if isinstance(prompt, list):
        return "\n".join(_words(each.get("prompt", "") if isinstance(each, dict) else each) for each in prompt)
    return str(prompt)
