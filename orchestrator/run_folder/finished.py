"""The inputs of a finished run's results and page, so that the same command need not make them again.

The file `.finished` has the SHA-256 of the logs, of the results and of every other input. Outputs whose inputs
differ, or cannot be read, are made anew; the file may be deleted. A run that is made in a moment has none.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import entry_points, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import orjson

from orchestrator.run_folder.durable import write_file
from orchestrator.run_folder.files import LABELS, MANIFEST, PART, RESPONSES, RESULTS, VERDICTS, log_bytes

FINISHED = ".finished"
_ASIDE = ".results.json"
_REPORT = "report.html"
_LEAST_BYTES = 1 << 26
"""Bytes of logs from which on reuse saves time."""
_PACKAGES = ("lyncean", "orchestrator", "scorer")
_LIBRARIES = ("numpy", "jinja2", "protobuf")
_CODE = frozenset((".py", ".tsv", ".csv", ".json", ".toml", ".html", ".js", ".css"))
_OF_A_CALL = ("replicas", "expected", "seconds", "endpoint")
"""Fields of a manifest that no result depends on and that each call of the command may change."""


def source_of(run: Path, manifest: Mapping[str, Any], scorer: bytes) -> str:
    """Returns a hash of all inputs of the results but the logs; "" if it is not known, or of no use.

    Args:
        run: The run folder.
        manifest: The manifest, `planned` among it.
        scorer: The scorer's listing if it is of this installation; b"" for another.
    """
    # Of a package that brings metrics, the code may change unseen.
    if not scorer or log_bytes(run) < _LEAST_BYTES or entry_points(group="lyncean.metrics"):
        return ""
    fields = {name: value for name, value in manifest.items() if name not in _OF_A_CALL}
    known = orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(b"\0".join((known, scorer, _code()))).hexdigest()


def put_aside(run: Path) -> None:
    """Puts the results of a run aside that is called again: it has none until it is complete."""
    if (run / FINISHED).exists() and (run / RESULTS).exists():
        (run / RESULTS).replace(run / _ASIDE)
    (run / RESULTS).unlink(missing_ok=True)


def taken_back(run: Path, source: str) -> dict[str, Any] | None:
    """Puts the results back and returns them if none of their inputs has changed; None otherwise.

    Raises:
        RunWriteError: If they cannot be written.
    """
    known = _read(run)
    if not source or known.get("source") != source or known.get("made_from") != _sums(run, _OF_RESULTS):
        return None
    data = (run / _ASIDE).read_bytes() if (run / _ASIDE).exists() else b""
    if hashlib.sha256(data).hexdigest() != known.get("results"):
        return None
    write_file(run / RESULTS, data)
    (run / _ASIDE).unlink()
    results: dict[str, Any] = orjson.loads(data)
    return results


def note_results(run: Path, source: str) -> None:
    """Notes the inputs of a run's results, once they are written.

    Raises:
        RunWriteError: If it cannot be written.
    """
    (run / _ASIDE).unlink(missing_ok=True)
    if not source:
        (run / FINISHED).unlink(missing_ok=True)
        return
    _write(run, {"source": source, "made_from": _sums(run, _OF_RESULTS), "results": _sum(run / RESULTS)})


def note_report(run: Path) -> None:
    """Notes the inputs of a run's page, once it is written.

    Raises:
        RunWriteError: If it cannot be written.
    """
    if known := _read(run):
        _write(run, {**known, "code": _code().hex(), "page_of": _sums(run, _OF_REPORT), "page": _sum(run / _REPORT)})


def report_stands(run: Path) -> bool:
    """Returns whether the page of a run equals the one that would be made now."""
    known = _read(run)
    if "page" not in known:
        return False
    now = _code().hex(), _sum(run / _REPORT), _sums(run, _OF_REPORT)
    return now == (known.get("code"), known["page"], known.get("page_of"))


_OF_RESULTS = (RESPONSES, VERDICTS, *PART)
_OF_REPORT = (*_OF_RESULTS, RESULTS, MANIFEST, LABELS)


def _read(run: Path) -> dict[str, Any]:
    try:
        known = orjson.loads((run / FINISHED).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return {}
    return known if isinstance(known, dict) else {}


def _write(run: Path, known: Mapping[str, Any]) -> None:
    write_file(run / FINISHED, orjson.dumps(known))


def _sums(run: Path, names: tuple[str, ...]) -> dict[str, str]:
    """Returns the SHA-256 of the existing files."""
    return {name: _sum(run / name) for name in names if (run / name).exists()}


def _sum(path: Path) -> str:
    if not path.exists():
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@cache
def _code() -> bytes:
    """Returns a hash of our own installed packages and of the libraries that compute and write for them."""
    total = hashlib.sha256(" ".join((sys.version, *map(version, _LIBRARIES))).encode())
    for file in (file for package in _PACKAGES for file in _files(package)):
        total.update(b"%b\0%b\0" % (str(file).encode(), file.read_bytes()))
    return total.digest()


def _files(package: str) -> Iterator[Path]:
    module = find_spec(package)
    for folder in (module.submodule_search_locations or ()) if module else ():
        yield from sorted(file for file in Path(folder).rglob("*") if file.suffix in _CODE)
