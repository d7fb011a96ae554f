"""VLMEvalKit's own scoring: the `evaluate` of its data sets, unchanged, each time in a fresh process of a closed cell.

Its code starts pools of processes, writes files beside its input, prints, and runs text as Python; none of that is for
a server. Without a judge: `exact_matching`, as VLMEvalKit has it.
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
"""Columns of the tables that it writes beside its input, for the score of an item."""

_SECONDS = 900
"""How long one evaluation may take."""

_MEMORY = 8 << 30
"""Bytes that one evaluation may take beyond what its package does."""


class Evaluated(NamedTuple):
    """What an evaluation came to.

    Attributes:
        metrics: Its metrics: "Overall", or "SPLIT Overall" where a table has several splits.
        scores: Index -> score of the item, where it writes one.
    """

    metrics: Mapping[str, float]
    scores: Mapping[str, float]


def evaluate(dataset: str, rows: Sequence[Mapping[str, str]]) -> Evaluated:
    """Evaluates answers to rows of a data set.

    Args:
        dataset: VLMEvalKit's name of it.
        rows: The rows as its table has them, without images, each with the column `prediction`.

    Raises:
        HarnessError: It is not installed, or its code raises.
    """
    try:
        found = _cell().call("evaluate", dataset, list(rows), seconds=_SECONDS)
        if problem := found.get("error"):
            raise HarnessError(f"VLMEvalKit cannot evaluate {dataset} without a judge: {problem}")
        return Evaluated(_numbers(found["metrics"]), _numbers(found["scores"]))
    except StartError as error:
        raise HarnessError(f"VLMEvalKit cannot be used: {error}") from None
    except CellError as error:
        limit = f" ({error.limit})" if error.limit else ""
        raise HarnessError(f"VLMEvalKit cannot evaluate {dataset}: its code met a limit{limit}: {error}") from None
    except (AttributeError, KeyError, TypeError, ValueError):  # an answer may have written it
        raise HarnessError(f"VLMEvalKit cannot evaluate {dataset}: its reply cannot be read") from None


def _numbers(said: Any) -> dict[str, float]:
    """Returns numbers by name. Raises TypeError or ValueError where there is something else."""
    found = {str(name): float(value) for name, value in said.items()}
    if not all(map(math.isfinite, found.values())):
        raise ValueError(said)
    return found


def unclosed() -> str:
    """Returns where its code runs text with all rights of a scorer: on systems without cells alone."""
    return "" if closes() else runs_text()


@cache
def runs_text() -> str:
    """Returns where the code of its data sets runs text as Python, "FILE:LINE calls NAME"; "" where it does not.

    Its data sets are one package, all of which is imported for any of them.
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
    """Has its functions write and read in a folder what they put straight into /tmp."""
    from vlmeval import smp

    def moved(path: Any) -> Any:
        inside = str(path).startswith("/tmp/") and not str(path).startswith(folder)  # noqa: S108
        return str(Path(folder) / Path(path).name) if inside else path

    dump, load = smp.dump, smp.load
    own: dict[Any, Callable[..., Any]] = {
        dump: lambda data, path, **more: dump(data, moved(path), **more),
        load: lambda path, *more, **named: load(moved(path), *more, **named),
    }
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == PACKAGE:
            for attribute in ("dump", "load"):
                found = vars(module).get(attribute)
                if callable(found) and found in own:
                    setattr(module, attribute, own[found])


def _evaluate(folder: Path, name: str, rows: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    import pandas as pd
    from vlmeval import dataset as datasets
    from vlmeval.smp import dump, load

    table = pd.DataFrame(list(rows))
    predictions = table.pop(PREDICTION).tolist()
    table.to_csv(folder / f"{name}.tsv", sep="\t", index=False)
    for kind in datasets.DATASET_CLASSES:
        if name in getattr(kind, "DATASET_MD5", {}):  # the table is the user's, whose digest the run records
            kind.DATASET_MD5 = {**kind.DATASET_MD5, name: None}
    dataset = datasets.build_dataset(name)
    answers = dataset.data.copy()
    if len(answers) != len(predictions):
        raise ValueError(f"it keeps {len(answers)} of {len(predictions)} rows")
    answers[PREDICTION] = predictions
    with tempfile.TemporaryDirectory(dir=folder) as place:
        file = str(Path(place) / f"model_{name}.xlsx")
        dump(answers, file)
        metrics = dict(_metrics(dataset.evaluate(file, model="exact_matching", nproc=1)))
        scores: dict[str, float] = {}
        for written in sorted(Path(place).iterdir()):
            with contextlib.suppress(Exception):  # not all that it writes is a table
                found = load(str(written))
                for column in _SCORES:
                    if "index" in found and column in found and len(found) <= len(answers):
                        pairs = zip(found["index"], map(float, found[column]), strict=True)
                        scores |= {str(index): score for index, score in pairs if math.isfinite(score)}
    if not metrics:
        raise ValueError("its evaluation returns no numbers")
    return {"metrics": metrics, "scores": scores}


def _metrics(found: Any, before: str = "") -> list[tuple[str, float]]:
    """Returns the numbers of what an evaluation returns: a table, whose words name its rows, or a dictionary."""
    if hasattr(found, "to_dict"):
        records = found.to_dict("records")
        named = []
        for record in records:
            words = [str(value) for value in record.values() if isinstance(value, str)]
            name = " ".join(words) if len(records) > 1 else ""
            named += _metrics({k: v for k, v in record.items() if not isinstance(v, str)}, name)
        return named
    flat = []
    for key, value in found.items() if isinstance(found, Mapping) else ():
        name = f"{before} {key}".strip()
        if isinstance(value, Mapping):
            flat += _metrics(value, name)
        elif hasattr(value, "__float__") and not isinstance(value, (str, bool)) and math.isfinite(float(value)):
            flat.append((name, float(value)))
    return flat
