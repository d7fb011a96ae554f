"""Calls of the hub that a cell wants to be made outside of it, which a model's answer may have written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lyncean_harnesses.library.task_code import repositories_of_task
from lyncean_harnesses.scoring.downloads import Downloads

COMMIT = "0123456789" * 4
NAMED = frozenset({"toys/keys", COMMIT})
FILE = {"call": "hf_hub_download", "repo_id": "toys/keys", "filename": "a/key.txt"}
FOLDER = {"call": "snapshot_download", "repo_id": "toys/keys"}
TABLE = {"call": "load_dataset", "path": "toys/keys"}


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")  # what would be fetched has this as its reason
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "wanted",
    [
        FILE,
        FOLDER | {"allow_patterns": ["more/*", "*.txt"]},
        TABLE | {"split": "train[:10]", "name": "default"},
        *(FILE | {"revision": revision} for revision in ("main", "v1.0", "refs/convert/parquet", COMMIT)),
    ],
)
def test_what_a_task_names_is_wanted(wanted: Any) -> None:
    assert "HF_HUB_OFFLINE is set" in Downloads().fetch([wanted], NAMED)[1]


@pytest.mark.parametrize(
    "wanted",
    [
        "hf_hub_download",
        {**FILE, "call": ["hf_hub_download"]},
        {**FILE, "call": "upload_file"},
        {**FILE, "repo_id": ["toys/keys"]},
        {**FILE, "repo_id": "someone/else"},
        {**FILE, "token": "x"},
        {**FILE, "filename": "../../../../../someone/else/resolve/main/key.txt"},
        {**FILE, "filename": "..\\key.txt"},
        {**FILE, "subfolder": "a/../.."},
        *(
            {**FILE, "revision": revision}
            for revision in ("refs/pr/1", "refs%2Fpr%2F1", "../../main", 40 * "a", "abcdef1")
        ),
        {**FOLDER, "allow_patterns": ["../*"]},
        {**FOLDER, "allow_patterns": [["a"]]},
        {**FOLDER, "revision": ["main"]},
    ],
)
def test_what_an_answer_may_have_chosen_is_not_fetched(wanted: Any) -> None:
    assert Downloads().fetch([wanted], NAMED) == (False, "")


def test_a_folder_of_this_machine_is_not_a_data_set_of_the_hub(tmp_path: Path) -> None:
    private = tmp_path / "toys" / "keys"
    private.mkdir(parents=True)
    (private / "train.csv").write_text("key\n1\n")
    assert Downloads().fetch([TABLE], NAMED) == (False, "")


def test_commits_that_a_task_names_are_found(tmp_path: Path) -> None:
    (tmp_path / "task.yaml").write_text(f"dataset_path: toys/keys\ndataset_kwargs: {{revision: '{COMMIT}'}}\n")
    assert repositories_of_task(tmp_path / "task.yaml", [tmp_path]) == ["toys/keys", COMMIT]
