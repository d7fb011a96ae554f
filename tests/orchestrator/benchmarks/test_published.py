"""Published tables: every cell has a source, and is a count of its items or is listed as one that is not."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from helpers.bench_scoring import shared_data

from orchestrator.benchmarks.marvel import benchmark as marvel
from orchestrator.benchmarks.registry import find
from orchestrator.papers.tables import MEAN_OF_OTHERS, TRUNCATED, Column, Paper, Recipe, Table, papers
from orchestrator.run.evaluate import planned
from orchestrator.run.request import RunRequest
from orchestrator.samples import Variant

TABLES = [(paper, table) for paper in papers().values() for table in paper.tables]
EVERY = pytest.mark.parametrize(("paper", "table"), TABLES, ids=[f"{paper.name} {table.id}" for paper, table in TABLES])


def is_count(value: float, column: Column, digits: int) -> bool:
    """Returns True if some whole number of a column's items gives a printed percentage."""
    scale = 10**digits
    shares = [100 * count / column.n for count in range(column.n + 1)]
    if column.printed == TRUNCATED:
        return any(math.isclose(math.floor(share * scale + 1e-7) / scale, value) for share in shares)
    return any(abs(share - value) <= 0.5 / scale + 1e-9 for share in shares)


def cells(table: Table) -> list[tuple[str, Column, float]]:
    return [
        (model, column, value)
        for model, row in table.rows.items()
        for column, value in zip(table.columns, row, strict=True)
        if value is not None
    ]


@EVERY
def test_each_cell_is_a_count_of_its_items_or_is_listed(paper: Paper, table: Table) -> None:
    other = []
    for model, column, value in cells(table):
        if column.printed == MEAN_OF_OTHERS:
            attribute, spatial, _ = (float(cell or 0) for cell in table.rows[model])
            assert abs((115 * attribute + 76 * spatial) / 191 - value) <= 0.005 + 1e-9
        elif column.n and not is_count(value, column, table.digits):
            other.append((model, column.name))
    assert other == list(table.not_counts)


@EVERY
def test_a_table_is_remade_or_says_why_not(paper: Paper, table: Table) -> None:
    assert [bool(table.why), bool(table.same_as), bool(table.runs)].count(True) == 1
    assert set(table.runs) <= paper.runs.keys()
    assert {*table.references} <= table.rows.keys()
    assert all(source.address.startswith("https://") for source in paper.sources.values())
    assert not table.rows or table.sources


@EVERY
def test_columns_are_metrics_and_slices_of_their_tasks(paper: Paper, table: Table) -> None:
    for column in table.columns:
        for name in column.runs if column.measure == "metric" else ():
            recipe = paper.runs[name]
            benchmark = find([recipe.task])[recipe.task]
            settings = benchmark.settings(**(recipe.options.get("settings") or {}))
            options = {name: recipe.options[name] for name in ("method", "repeats", "parity") if name in recipe.options}
            specs = {spec.name: spec for spec in benchmark.metrics(Variant(recipe.task, **options, settings=settings))}
            slices = [{*by.labels} for by in specs[column.metric].by]
            assert not column.labels or {*column.labels} in slices


RUNS = [(paper.name, name, recipe) for paper in papers().values() for name, recipe in paper.runs.items()]


@pytest.mark.parametrize(("paper", "name", "recipe"), RUNS, ids=[f"{paper} {name}" for paper, name, _ in RUNS])
def test_each_run_can_be_planned(paper: str, name: str, recipe: Recipe) -> None:
    tools = "grpc:127.0.0.1:50053" if any(benchmark.tool for benchmark in find([recipe.task]).values()) else ()
    plan = planned(RunRequest(recipe.task, synthetic=True, limit=1, tools=tools, **recipe.options))
    assert plan.names == [recipe.task] or recipe.task == "reform"


def test_the_number_of_cells() -> None:
    counted = {key: sum(len(cells(table)) for table in paper.tables) for key, paper in papers().items()}
    assert counted == {"vstar": 84, "visualpuzzles": 863, "voila": 4, "marvel": 297, "reform": 64}


def test_the_parts_of_visualpuzzles_make_the_whole() -> None:
    sizes = (262, 211, 200, 209, 286)
    for name in ("2", "7", "8"):
        table = papers()["visualpuzzles"].table(name)
        for model, row in table.rows.items():
            if model in table.references or (name, model) == ("8", "LLaVA-1.6-34B"):  # printed 29.8, its parts 30.4
                continue
            values = [float(value or 0) for value in row]
            whole = sum(size * value for size, value in zip(sizes, values[:5], strict=True)) / 1168
            assert whole == pytest.approx(values[5], abs=0.16), model


@pytest.fixture(scope="module")
def sizes() -> dict[str, Counter[str]]:
    data = list(marvel.BENCHMARK.rows("marvel", str(shared_data("marvel", "marvel.parquet"))))
    return {
        "pattern": Counter(row["pattern"] for row in data),
        "configuration": Counter(row["task_configuration"] for row in data),
    }


@pytest.mark.parametrize(("name", "label"), [("3", "pattern"), ("4", "configuration"), ("10", "pattern")])
def test_the_parts_of_marvel_make_the_whole_under_the_data_s_names(
    name: str, label: str, sizes: dict[str, Counter[str]]
) -> None:
    paper = papers()["marvel"]
    table = paper.table(name)
    whole = {"3": (paper.table("2"), [0]), "4": (paper.table("2"), [0]), "10": (paper.table("7"), [1, 2])}[name]
    for column in table.columns:
        assert column.n == sizes[label][column.labels[label]]
    parts = len(sizes[label])
    for model, row in table.rows.items():
        if model == "Human":
            continue
        for at, source_column in enumerate(whole[1]):
            columns = table.columns[at * parts : (at + 1) * parts]
            values = row[at * parts : (at + 1) * parts]
            mean = sum(column.n * float(value or 0) for column, value in zip(columns, values, strict=True)) / 770
            assert mean == pytest.approx(whole[0].rows[model][source_column], abs=0.02), model
