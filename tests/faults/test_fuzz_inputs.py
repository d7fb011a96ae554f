"""Foreign input of the orchestrator: upstream JSON, words of the command line."""

from __future__ import annotations

import base64
import dataclasses
import json
import string
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from helpers.fuzzing import FEW, mixed, taken, trees
from hypothesis import example, given, settings, strategies as st

from lyncean.errors import UserError
from orchestrator.benchmarks.reform.datasets import DATASETS
from orchestrator.benchmarks.reform.files import open_reform
from orchestrator.benchmarks.reform.images import decoded, shown
from orchestrator.benchmarks.registry import find
from orchestrator.compare.gate import parse
from orchestrator.data.rows import DataError
from orchestrator.engine import parse_endpoints
from orchestrator.errors import ConfigError
from orchestrator.run.arguments import one_endpoint, shard_of
from orchestrator.run.plan import make
from orchestrator.run.request import RunRequest
from orchestrator.samples import BadRowError, Variant

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@given(text=trees | st.text("ABCabc+/=, \n\x80", max_size=20))
@FEW
def test_any_base64_is_bytes_or_refused(text: Any) -> None:
    data = taken(lambda: decoded(text, "row 1"))
    assert data is None or isinstance(data, bytes)


@given(data=st.binary(max_size=40), box=trees, task=st.sampled_from([n for n, d in DATASETS.items() if d.boxes]))
@FEW
def test_an_image_of_any_bytes_is_a_bad_row(data: bytes, box: Any, task: str) -> None:
    with pytest.raises(BadRowError):
        shown(data, DATASETS[task].boxes, box)


FAMILIES = sorted({(d.family, d.file.rpartition("/")[2]): name for name, d in DATASETS.items()}.values())


def reform_rows(file: Path, task: str) -> None:
    """Reads and words every row; `DataError` and `BadRowError` alone may come of it."""
    (benchmark,) = find([task]).values()
    try:
        for row in open_reform(task, str(file)):
            for _ in benchmark.samples(row, Variant(task, settings=benchmark.settings())):
                pass
    except (DataError, BadRowError):
        return


@given(
    data=st.lists(
        mixed(
            question_id=st.integers(0, 9),
            question=st.text(max_size=8),
            answer=st.text(max_size=8) | st.integers(0, 3),
            answers=st.lists(st.text(max_size=5), max_size=2),
            image=st.binary(max_size=9).map(lambda data: base64.b64encode(data).decode()),
            text=st.text(max_size=5),
            bbox=st.lists(st.integers(0, 9), max_size=4),
        )
        | trees,
        max_size=3,
    ),
    task=st.sampled_from(sorted(DATASETS)),
    array=st.booleans(),
)
@settings(max_examples=150)
def test_any_upstream_json_is_rows_or_a_data_error(folder: Path, data: list[Any], task: str, array: bool) -> None:
    file = folder / DATASETS[task].file.rpartition("/")[2]
    file.write_text(json.dumps(data if array else {"version": "1", "dataset_name": "x", "data": data}))
    reform_rows(file, task)


@given(word=st.text(string.printable, max_size=20) | st.from_regex(r"\A[\w/]{0,6}(\[\w=\w\])?(>=|<|>)[0-9.e%]{0,6}\Z"))
@FEW
def test_any_gate_is_conditions_or_a_usage_error(word: str) -> None:
    conditions = taken(lambda: parse(word), UserError)
    assert conditions is None or (conditions and all(condition.name for condition in conditions))


def planned(assignments: Sequence[str]) -> None:
    make(RunRequest(["reform_CIFAR10", "voila_wd"], synthetic=True, limit=1, settings=list(assignments)))


NAMES = sorted(
    {
        field.name
        for benchmark in find(["reform", "voila_wd", "voila_nd", "marvel"]).values()
        if dataclasses.is_dataclass(benchmark.settings)
        for field in dataclasses.fields(benchmark.settings)
    }
)


values = st.sampled_from(["1", "-1", "true", "nan", "1e999", "9" * 30]) | st.text(max_size=6)
setting = st.tuples(st.sampled_from(NAMES) | st.text(max_size=5), st.sampled_from(["=", "", "=="]), values).map("".join)


@given(assignments=st.lists(setting, max_size=3))
@FEW
def test_any_setting_is_taken_or_a_config_error(assignments: list[str]) -> None:
    taken(lambda: planned(assignments), ConfigError)


@given(word=st.text(max_size=8) | st.from_regex(r"\A[0-9\u00b2\u0663]{0,3}/[0-9]{0,3}\Z"))
@example("9" * 5000 + "/2")
@example("0/" + "9" * 5000)
@FEW
def test_any_shard_is_a_part_or_a_config_error(word: str) -> None:
    shard = taken(lambda: shard_of(word), ConfigError)
    assert shard is None or 0 <= shard[0] < shard[1]


@given(word=st.text(max_size=12) | st.from_regex(r"\A[a-z\[\]:.]{0,6}:[0-9]{1,6}\Z"))
@FEW
def test_any_endpoint_is_host_and_port_or_a_config_error(word: str) -> None:
    endpoints = taken(lambda: parse_endpoints([word]), ConfigError) or ()
    taken(lambda: one_endpoint(word), ConfigError)
    assert all(endpoint.host and 0 < endpoint.port < 65536 for endpoint in endpoints)
