"""Published tables, read from `orchestrator/published/BENCHMARK.json`.

A table has rows (a model or people, and its printed cells) and columns, each a metric of one of the paper's runs. A
cell stands there only with the address of a source that was opened. Cells that cannot be counts of their column's
items are listed in `not_counts`.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from orchestrator.errors import ConfigError

TRUNCATED = "truncated"
MEAN_OF_OTHERS = "mean of attribute and spatial"
"""Rounding of V*-Bench's printed overall scores: the weighted mean of the truncated sub-scores."""


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A text or picture that cells were read from."""

    what: str
    address: str


class Recipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A run that a paper's tables are made of: a task or group, and options of `orchestrator eval`."""

    task: str
    options: Mapping[str, Any]


class Column(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A column of a table.

    Attributes:
        name: What the paper calls it.
        run: The paper's run that it is of; of several it is the one with the best overall result. "" for what no run
            makes.
        metric: The metric's name.
        labels: Its slice.
        n: Number of items that the printed cells are percent of; 0 where that is not known.
        printed: "rounded", `TRUNCATED` or `MEAN_OF_OTHERS`.
        measure: "metric"; "tokens", mean of output tokens a request; "average" and "rank" of ReForm-Eval's dimensions;
            "correlation" over models of the two columns, or categories of this one, in `of`; "kind", the share of the
            kind of error in `of` among those that people named.
    """

    name: str
    run: str | Sequence[str] = ""
    metric: str = ""
    labels: Mapping[str, str] = {}
    n: int = 0
    printed: str = "rounded"
    measure: str = "metric"
    of: Sequence[str] = ()

    @property
    def runs(self) -> Sequence[str]:
        """The runs that it may be of."""
        return ((self.run,) if self.run else ()) if isinstance(self.run, str) else self.run


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table or figure of a paper, or one of its ablations.

    Attributes:
        id: What `--table` takes.
        sources: Keys of the paper's sources.
        digits: Printed decimals.
        needs: What its runs need beside data and a model.
        why: Why it is not remade, "" where it is.
        note: What is known of its numbers and of ours.
        references: Rows that are not a model's: people, chance.
        contrasts: Pairs of runs that are compared item by item.
        not_counts: Row and column of each cell that is not a count of its column's items.
        comparable: Whether our cells are over the same items and scored alike.
        same_as: The table that a figure plots.
    """

    id: str
    title: str
    sources: Sequence[str] = ()
    digits: int = 1
    needs: str = ""
    why: str = ""
    note: str = ""
    references: Sequence[str] = ()
    contrasts: Sequence[tuple[str, str]] = ()
    columns: Sequence[Column] = ()
    rows: Mapping[str, Sequence[float | None]] = {}
    not_counts: Sequence[tuple[str, str]] = ()
    comparable: bool = True
    same_as: str = msgspec.field(default="", name="as")

    @property
    def heading(self) -> str:
        """Heading, for example "table 3: AVR by pattern"."""
        return f"{f'table {self.id}' if self.id.isdigit() else self.id.replace('-', ' ')}: {self.title}"

    @property
    def runs(self) -> list[str]:
        """The paper's runs that it is made of."""
        names = [name for column in self.columns for name in column.runs]
        return list(dict.fromkeys([*names, *(name for pair in self.contrasts for name in pair)]))


class Paper(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A benchmark's paper.

    Attributes:
        name: The benchmark's name.
        runs: Name -> run.
    """

    name: str
    title: str
    arxiv: str
    sources: Mapping[str, Source]
    tables: Sequence[Table]
    runs: Mapping[str, Recipe] = {}

    def table(self, name: str) -> Table:
        """Returns a table.

        Raises:
            ConfigError: There is none of that id.
        """
        tables = {table.id: table for table in self.tables}
        if name not in tables:
            raise ConfigError(f"--table: {self.name} has no table {name!r}; it has {', '.join(tables)}")
        table = tables[name]
        return self.table(table.same_as) if table.same_as else table

    def cited(self, table: Table) -> str:
        """Returns where a table's cells were read, and what is known of them."""
        where = "; ".join(f"{self.sources[key].what}, {self.sources[key].address}" for key in table.sources)
        return " ".join(filter(None, [f"From {where}." if where else "", table.note]))


_READ = 1 << 20
"""Characters of a text that is searched for the benchmark's name."""

PAPERS = ("vstar", "visualpuzzles", "voila", "marvel", "reform")


@cache
def papers() -> Mapping[str, Paper]:
    """Returns the papers by benchmark."""
    folder = resources.files("orchestrator") / "published"
    return {name: msgspec.json.decode((folder / f"{name}.json").read_bytes(), type=Paper) for name in PAPERS}


def find_paper(word: str) -> str:
    """Returns the key of a paper from its benchmark's name, its arXiv number, or a file with a text of it.

    Raises:
        ConfigError: It is none of the papers.
    """
    for key, paper in papers().items():
        if word.casefold() in (key, paper.name.casefold(), paper.arxiv):
            return key
    path = Path(word)
    try:
        text = path.read_text("utf-8", errors="replace")[:_READ].casefold() if path.is_file() else ""
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error
    named = {key: text.count(paper.name.casefold()) for key, paper in papers().items()}
    best = max(named, key=lambda key: named[key])
    if not named[best]:
        known = ", ".join(f"{key} ({paper.arxiv})" for key, paper in papers().items())
        near = difflib.get_close_matches(word.casefold(), PAPERS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known are {known}"
        raise ConfigError(f"{word!r} is not a paper whose tables are known, nor a text of one: {hint}")
    return best
