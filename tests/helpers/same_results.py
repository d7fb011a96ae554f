"""Results of runs that have to be the same, but for what their requests took."""

from __future__ import annotations

from pathlib import Path

import orjson


def without_usage(data: bytes) -> bytes:
    """Returns results.json as it is written, without its field `usage`: seconds are never the same."""
    results = orjson.loads(data)
    results.pop("usage", None)
    return orjson.dumps(results, option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE | orjson.OPT_INDENT_2)


def results_of(run: Path) -> bytes:
    """Returns the results of a run folder without what its requests took."""
    return without_usage((run / "results.json").read_bytes())
