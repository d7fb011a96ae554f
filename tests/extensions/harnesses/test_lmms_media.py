"""Tasks of lmms-eval with audio and videos: every metric is that of its own evaluator, to the last bit."""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import datasets
import pytest
from helpers import clips, harness_runs

from lyncean.media.clips import read_samples
from orchestrator import evaluate
from orchestrator.benchmarks.registry import find
from orchestrator.data.rows import DataError

ABSENT = importlib.util.find_spec("lmms_eval") is None
pytestmark = pytest.mark.skipif(ABSENT, reason="lmms-eval is not installed: pip install 'lyncean[lmms]'")

LISTENING = {"context": "audio", "instruction": "Which?", "choices": "(A) red (B) blue (C) green", "answer": "(A) red"}
ROWS = 12


def film(home: Path, pattern: str) -> Callable[[int], str]:
    """Returns what writes the video of a row to where lmms-eval looks for it, and gives its name."""

    def write(row: int) -> str:
        path = home / pattern.format(row=row % 5)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(clips.video(3 + 9 * (row % 5), 5))
        return path.stem

    return write


def columns(home: Path) -> dict[str, dict[str, Any]]:
    """Returns each task's rows: what is in a column, or what draws it by the row's number."""
    letters = random.Random(0).choices("ABCD", k=ROWS)
    letter = letters.__getitem__
    films = {"perception": film(home, "mvbench_video/perception/videos/v{row}.mp4")}
    films["attribute"] = film(home, "mvbench_video/clevrer/video_validation/v{row}.mp4")
    choices = {
        "question": "Which?",
        "candidates": ["red", "blue", "green"],
        "answer": lambda row: ["red", "blue", "green"][row % 3],
    }
    ego = {
        "question": "Which?",
        "option": [f"{option}. {option} word" for option in "ABCDE"],
        "answer": lambda row: row % 5,
    }
    topics = ["anomaly_reco", "count", "ego", "needle", "order", "plotQA", "topic_reasoning"]
    return {
        "videomme": {
            "videoID": film(home, "videomme/data/v{row}.mp4"),
            "question": "Which?",
            "options": ["A. red", "B. blue", "C. green", "D. grey"],
            "answer": letter,
            "duration": lambda row: ["short", "medium", "long"][row % 3],
            "domain": "Knowledge",
            "sub_category": "Humanity & History",
            "task_type": "Counting Problem",
            "question_id": str,
        },
        "mvbench_action_count": {**choices, "video": lambda row: f"{films['perception'](row)}.mp4"},
        "mvbench_moving_count": {**choices, "video": lambda row: f"{films['attribute'](row)}.mp4"},
        "mlvu_dev": {
            "video_name": lambda row: film(home, "mlvu/v{row}.mp4")(row) + ".mp4",
            "question": str,
            "task_type": lambda row: topics[row % 7],
            "answer": letter,
        },
        "egoschema_subset_mcppl": {**ego, "video_idx": film(home, "egoschema/videos/v{row}.mp4")},
        "vocalsound_test": {
            "audio": "audio",
            "answer": lambda row: ["Laughter", "Sniff"][row % 2],
            "age_group": 1,
            "spk_id": lambda row: "fm"[row % 2] + str(row),
        },
        "clotho_aqa_test": {"audio": "audio", "question": "Is it loud?", "answer": lambda row: ["yes", "no"][row % 2]},
        "dream_tts_mcq_test": LISTENING,
        "cn_college_listen_mcq_test": LISTENING,
        "librispeech_test_clean": {"audio": "audio", "gt": "a red car", "source": "dev", "task": "asr_en"},
    }


def table(kinds: dict[str, Any]) -> datasets.Dataset:
    """Returns the rows, audio as WAV files in the table."""
    values = {}
    for name, kind in kinds.items():
        if kind == "audio":
            files = [clips.audio(0.2 + 0.1 * (row % 4), 8000, hertz=200 + 50 * row) for row in range(ROWS)]
            values[name] = [{"bytes": data, "path": f"{row}.wav"} for row, data in enumerate(files)]
        else:
            values[name] = [kind(row) if callable(kind) else kind for row in range(ROWS)]
    rows = datasets.Dataset.from_dict(values)
    for name, kind in kinds.items():
        if kind == "audio":
            rows = rows.cast_column(name, datasets.Audio())
    return rows


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    import os

    from lyncean_harnesses.library.lmms_eval import LIBRARY

    folder = tmp_path_factory.mktemp("rows")
    _ = LIBRARY.modules  # sets HF_HOME, under which videos are looked for
    home = Path(os.environ["HF_HOME"])
    splits = {}
    for name, known in columns(home).items():
        split = LIBRARY.config(name)["test_split"]
        splits[name] = datasets.DatasetDict({split: table(known)})
        splits[name].save_to_disk(folder / name)
    return {"splits": splits, "paths": {f"lmms:{name}": str(folder / name) for name in splits}}


@pytest.mark.full
@pytest.mark.timeout(2700)
@pytest.mark.parametrize("method", ["generate", "likelihood"])
def test_audio_and_videos_give_the_metrics_of_lmms_eval(
    method: str, data: dict[str, Any], address: str, scorer: str, tmp_path: Path
) -> None:
    from helpers import harness_theirs

    names = [name for name in data["splits"] if name.endswith("mcppl") is (method == "likelihood")]
    tasks = [f"lmms:{name}" for name in names]
    options = {"data": {task: data["paths"][task] for task in tasks}, "method": method}
    options |= {"endpoint": address, "scorer": scorer}
    ours = harness_runs.run_every_way(tasks, options, tmp_path)
    # datasets decodes by torchcodec, which needs FFmpeg's libraries on the machine.
    with mock.patch.object(datasets.Audio, "decode_example", _decoded):
        reference = harness_theirs.figures(
            {name: data["splits"][name] for name in names}, address, str(tmp_path), simple=True
        )
    assert harness_runs.compare(ours, reference, "lmms") >= len(names)
    assert all(ours.counts[task]["planned"] == ROWS == ours.counts[task]["scored"] for task in tasks)
    blind = evaluate(tasks, **options, blind=True, run=tmp_path / "blind")
    assert blind.metrics != ours.metrics


def _decoded(_: Any, value: dict[str, Any], *__: Any, **___: Any) -> dict[str, Any]:
    samples, rate = read_samples(value["bytes"], 10**9)
    return {"array": samples, "sampling_rate": rate, "path": value["path"]}


def test_a_video_that_is_not_there_is_told_in_one_line(data: dict[str, Any], tmp_path: Path) -> None:
    (split,) = data["splits"]["videomme"]
    rows = data["splits"]["videomme"][split].map(lambda row: {**row, "videoID": "lost"})
    datasets.DatasetDict({split: rows}).save_to_disk(tmp_path / "rows")
    (benchmark,) = {id(entry): entry for entry in find(["lmms:videomme"]).values()}.values()
    with pytest.raises(DataError, match=r"fails on the first row \(video path:\S+lost\.mp4 does not exist"):
        benchmark.rows("lmms:videomme", str(tmp_path / "rows"))
