"""VLMEvalKit's own scoring: the `evaluate` of its data sets, unchanged, in a fresh process of a closed cell each time.

Its code starts pools of processes, writes files beside its input, prints, and runs text as Python; a server
must do none of that. It scores without a judge: `exact_matching`, as in VLMEvalKit.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import math
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from lyncean.cell import LAYERS, Cell, CellError, Fence, StartError, closes, limit_of
from lyncean_harnesses.library import CLOSED, HarnessError

PACKAGE = "vlmeval"
INSTALL = f"install VLMEvalKit, the module {PACKAGE}, beside orchestrator and scorer"
PREDICTION = "prediction"
"""Column of the answers."""

_SCORES = ("hit", "eval_score", "score")
"""Columns with the score of an item in the tables that it writes beside its input."""

_SECONDS = 900
"""Processor time of one evaluation, in seconds."""

_MEMORY = 8 << 30
"""Memory of one evaluation in bytes, beyond that of its package."""


class Evaluated(NamedTuple):
    """The result of an evaluation.

    Attributes:
        metrics: Its metrics: "Overall", or "SPLIT Overall" where a table has several splits.
        scores: Index -> score of the item, if it writes one.
    """

    metrics: Mapping[str, float]
    scores: Mapping[str, float]


def evaluate(dataset: str, rows: Sequence[Mapping[str, str]]) -> Evaluated:
    """Evaluates answers to rows of a data set.

    Args:
        dataset: VLMEvalKit's name of it.
        rows: The rows as its table has them, without images, each with the column `prediction`.

    Raises:
        HarnessError: VLMEvalKit is not installed, or its code raises.
    """
    try:
        reply = _cell().call("evaluate", dataset, list(rows), seconds=_SECONDS)
        if problem := reply.get("error"):
            raise HarnessError(f"VLMEvalKit cannot evaluate {dataset} without a judge: {problem}")
        return Evaluated(_numbers(reply["metrics"]), _numbers(reply["scores"]))
    except StartError as error:
        raise HarnessError(f"VLMEvalKit cannot be used: {error}") from None
    except CellError as error:
        limit = f" ({error.limit})" if error.limit else ""
        raise HarnessError(f"VLMEvalKit cannot evaluate {dataset}: its code met a limit{limit}: {error}") from None
    except (AttributeError, KeyError, TypeError, ValueError):  # code that an answer chose may have written the reply
        raise HarnessError(f"VLMEvalKit cannot evaluate {dataset}: its reply cannot be read") from None


def _numbers(values: Any) -> dict[str, float]:
    """Returns numbers by name. Raises TypeError or ValueError for other values."""
    numbers = {str(name): float(value) for name, value in values.items()}
    if not all(map(math.isfinite, numbers.values())):
        raise ValueError(values)
    return numbers


def unclosed() -> str:
    """Returns the location at which its code runs text with a scorer's full rights; "" on systems with cells."""
    return "" if closes() else runs_text()


@cache
def runs_text() -> str:
    """Returns the location at which code of its data sets runs text as Python, "FILE:LINE calls NAME", or "".

    Its data sets are one package, which is imported as a whole for any of them.
    """
    from lyncean_harnesses.library import task_code  # it reads YAML, which a scorer without such tasks never does

    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        return ""
    folder = Path(spec.origin).parent
    return task_code.place_in([folder / "dataset" / "__init__.py"], [folder])


@cache
def _cell() -> Cell:
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise HarnessError("VLMEvalKit is not installed, whose own code is to score", fix=INSTALL)
    folder = tempfile.TemporaryDirectory(prefix="lyncean-")
    fence = Fence((str(Path(spec.origin).parent),), (folder.name,), memory=_MEMORY)
    layers = LAYERS if closes() else ()
    cell = Cell(f"{__name__}:setup", {"folder": folder.name}, fence, fork=True, layers=layers)
    atexit.register(folder.cleanup)
    atexit.register(cell.close)
    return cell


def setup(folder: str) -> dict[str, Callable[..., Any]]:
    """Imports the package and returns the function of its cell."""
    judge = dict.fromkeys(("OPENAI_API_BASE", "OPENAI_BASE_URL"), CLOSED) | {"OPENAI_API_KEY": ""}
    os.environ.update({**judge, "HOME": folder, "LMUData": folder, "PATH": os.defpath})
    os.chdir(folder)
    import multiprocessing
    import multiprocessing.context
    import multiprocessing.dummy
    import threading

    # The same work in threads: its pools fork 16 processes for a single row. A cell has no semaphores of the system.
    multiprocessing.Pool = lambda *_, **__: multiprocessing.dummy.Pool(1)
    contexts: Any = multiprocessing.context.BaseContext
    contexts.Lock = lambda _: threading.Lock()
    import vlmeval.dataset  # noqa: F401

    _keep_within(folder)

    def evaluate(name: str, rows: Sequence[Mapping[str, str]]) -> dict[str, Any]:
        try:
            return _evaluate(Path(folder), name, rows)
        except (Exception, SystemExit) as error:
            if limit_of(error):
                raise
            return {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}

    return {"evaluate": evaluate}


def _keep_within(folder: str) -> None:
    """Redirects files that its functions write directly into /tmp to a folder."""
    from vlmeval import smp

    def moved(path: Any) -> Any:
        inside = str(path).startswith("/tmp/") and not str(path).startswith(folder)  # noqa: S108
        return str(Path(folder) / Path(path).name) if inside else path

    dump, load = smp.dump, smp.load
    replacements: dict[Any, Callable[..., Any]] = {
        dump: lambda data, path, **more: dump(data, moved(path), **more),
        load: lambda path, *more, **named: load(moved(path), *more, **named),
    }
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == PACKAGE:
            for attribute in ("dump", "load"):
                function = vars(module).get(attribute)
                if callable(function) and function in replacements:
                    setattr(module, attribute, replacements[function])


def _evaluate(folder: Path, name: str, rows: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    import pandas as pd
    from vlmeval import dataset as datasets
    from vlmeval.smp import dump, load

    table = pd.DataFrame(list(rows))
    predictions = table.pop(PREDICTION).tolist()
    table.to_csv(folder / f"{name}.tsv", sep="\t", index=False)
    for kind in datasets.DATASET_CLASSES:
        if name in getattr(kind, "DATASET_MD5", {}):  # the user provides the table, and the run records its digest
            kind.DATASET_MD5 = {**kind.DATASET_MD5, name: None}
    dataset = datasets.build_dataset(name)
    answers = dataset.data.copy()
    if len(answers) != len(predictions):
        raise ValueError(f"it keeps {len(answers)} of {len(predictions)} rows")
    answers[PREDICTION] = predictions
    with tempfile.TemporaryDirectory(dir=folder) as workdir:
        file = str(Path(workdir) / f"model_{name}.xlsx")
        dump(answers, file)
        metrics = dict(_metrics(dataset.evaluate(file, model="exact_matching", nproc=1)))
        scores: dict[str, float] = {}
        for written in sorted(Path(workdir).iterdir()):
            with contextlib.suppress(Exception):  # not every file is a table
                content = load(str(written))
                for column in _SCORES:
                    if "index" in content and column in content and len(content) <= len(answers):
                        pairs = zip(content["index"], map(float, content[column]), strict=True)
                        scores |= {str(index): score for index, score in pairs if math.isfinite(score)}
    if not metrics:
        raise ValueError("its evaluation returns no numbers")
    return {"metrics": metrics, "scores": scores}


def _metrics(evaluation: Any, before: str = "") -> list[tuple[str, float]]:
    """Returns the numbers of an evaluation: of a table, whose texts name its rows, or of a dictionary."""
    if hasattr(evaluation, "to_dict"):
        records = evaluation.to_dict("records")
        named = []
        for record in records:
            texts = [str(value) for value in record.values() if isinstance(value, str)]
            name = " ".join(texts) if len(records) > 1 else ""
            named += _metrics({k: v for k, v in record.items() if not isinstance(v, str)}, name)
        return named
    flat = []
    for key, value in evaluation.items() if isinstance(evaluation, Mapping) else ():
        name = f"{before} {key}".strip()
        if isinstance(value, Mapping):
            flat += _metrics(value, name)
        elif hasattr(value, "__float__") and not isinstance(value, (str, bool)) and math.isfinite(float(value)):
            flat.append((name, float(value)))
    return flat
