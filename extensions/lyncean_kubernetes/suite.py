"""A suite on a cluster: each cell is a run of its own, and all of them have the suite's label."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from lyncean.errors import UserError
from lyncean_kubernetes.kubectl import Applied, SubmitError, condition, folder_of
from lyncean_kubernetes.objects import NAME_LABEL, Manifest, hash_of
from lyncean_kubernetes.render import render
from lyncean_kubernetes.server import LOADING
from lyncean_kubernetes.submission import Submission
from orchestrator import IncompleteError
from orchestrator.run import variants
from orchestrator.run_folder import fetched_run
from orchestrator.suite import Record, RecordedCell, Suite

_MOST = 40
"""Most characters of a run's name, as `submission.check_name` allows."""


def run_names(suite: Suite, name: str) -> dict[str, str]:
    """Returns the distinct names of the cells' runs on a cluster, by cell, for a suite called `name`."""
    plain = {cell.name: re.sub("[^a-z0-9]+", "-", f"{name}-{cell.name}".lower()).strip("-") for cell in suite.cells}
    taken = list(plain.values())
    return {
        cell: word
        if len(word) <= _MOST and taken.count(word) == 1
        else f"{word[: _MOST - 7].strip('-')}-{hash_of(cell)}"
        for cell, word in plain.items()
    }


def render_suite(submissions: Sequence[tuple[str, Submission]]) -> list[Manifest]:
    """Returns the manifests of a suite's runs.

    Objects that the runs share are rendered once, and a model's weights are loaded once.

    Args:
        submissions: The runs, each after the name of its model.

    Raises:
        SubmitError: If two runs need different objects of one name, or one cannot be rendered.
    """
    objects: dict[tuple[str, str, str], Manifest] = {}
    loaded: set[str] = set()
    for model, submission in submissions:
        try:
            manifests = render(submission)
        except UserError as error:
            raise SubmitError(f"{submission.cell}: {error}") from error
        for one in manifests:
            metadata = one["metadata"]
            if one["kind"] == "Job" and metadata["labels"].get(NAME_LABEL) == LOADING and model in loaded:
                continue  # its folder of weights is the same, and pods wait for that alone
            key = (one["kind"], metadata.get("namespace", ""), metadata["name"])
            if objects.setdefault(key, one) != one:
                raise SubmitError(
                    f"{one['kind']} {metadata['name']} is not the same for all models of the suite: give them overlays "
                    "and components of one kind, or submit them to different namespaces"
                )
        loaded.add(model)
    return list(objects.values())


def fetch(suite: Suite, applied: Applied, folder: Path) -> Record:
    """Copies the folders of all complete cells into `folder`, which must not exist, and records the others' states.

    Raises:
        SubmitError: If the suite is missing, `folder` exists, or the cluster refuses.
        RemoteError: If a run folder in an object store cannot be read.
    """
    if folder.exists():
        raise SubmitError(f"{folder} is there already: give --get a new folder")
    runs, names = applied.runs(), run_names(suite, applied.name)
    cells, places, job = [], dict[str, Path](), None
    for cell in suite.cells:
        objects = runs.get(names[cell.name], [])
        jobs = {one["metadata"]["labels"][NAME_LABEL]: one for one in objects if one["kind"] == "Job"}
        kept = RecordedCell(cell.name, cell.model, cell.variant, list(variants(cell.request)))
        last = jobs.get("merge", jobs.get("orchestrator"))
        if last is not None and condition(last, "Complete"):
            kept.exit_code, job = 0, last
            places[folder_of(objects)] = folder / cell.name
        elif last is not None:
            failed = next((why for one in jobs.values() if (why := condition(one, "Failed"))), None)
            kept.exit_code = IncompleteError.exit_code
            kept.error = f"its Job has failed: {failed.get('message', '')}" if failed else "its Job has not ended"
        cells.append(kept)
    folder.mkdir(parents=True)
    claimed = {remote: local for remote, local in places.items() if "://" not in remote}
    if claimed and job is not None:
        applied.copy(claimed, job)
    for url in places.keys() - claimed.keys():
        shutil.copytree(fetched_run(url), places[url])
    record = Record(suite.name, suite.baseline, ",".join(one.text for one in suite.conditions), cells)
    record.save(folder)
    return record
