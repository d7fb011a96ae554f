"""Questions about audio and videos from end to end: a task file, a real server that counts frames and samples."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from helpers import bombs, clips
from helpers.engine_cluster import HERE, Cluster, Server

TASK = """data: clips.jsonl
id: id
question: question
answer: answer
rule: contains_word
video: film
audio: sound
frames: {count: 4}
prompt: "{film} then {sound}: {question}"
"""


@pytest.fixture
def counting(cluster: Cluster) -> Server:
    server = Server(cluster.folder / "counting", [sys.executable, str(HERE / "counting_server.py")]).start()
    cluster.servers.append(server)
    return server


@pytest.fixture
def task(cluster: Cluster) -> Path:
    folder = cluster.folder
    rows = []
    for number, frames in enumerate((10, 4, 3, 7)):
        (folder / f"film{number}.mp4").write_bytes(clips.video(frames, 5))
        (folder / f"sound{number}.wav").write_bytes(clips.audio(0.25 * (number + 1), 16_000, hertz=1000))
        seen = {10: "0,3,6,9", 4: "0,1,2,3", 3: "0,1,2", 7: "0,2,4,6"}[frames]
        heard = 4000 * (number + 1)
        rows.append(
            {
                "id": f"q{number}",
                "question": "What is it?",
                "answer": f"video {seen} audio {heard - heard // 8}",  # of 16 samples a period, 2 are 0
                "film": f"film{number}.mp4",
                "sound": f"sound{number}.wav",
            }
        )
    (folder / "cut.mp4").write_bytes(clips.video()[:500])
    rows.append({**rows[0], "id": "cut", "film": "cut.mp4"})
    rows.append({**rows[0], "id": "none", "sound": None})
    (folder / "clips.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "clips.yaml").write_text(TASK)
    return folder / "clips.yaml"


def evaluate(cluster: Cluster, run: str, server: Server, scorer: Server, *options: str, code: int = 0) -> str:
    addresses = ("--endpoint", server.address, "--scorer", scorer.address)
    return cluster.orchestrator("eval", "--run", str(cluster.folder / run), *addresses, *options, code=code)


def verdicts(cluster: Cluster, run: str) -> dict[str, tuple[str, str]]:
    lines = map(json.loads, (cluster.folder / run / "verdicts.jsonl").read_text().splitlines())
    return {line["key"].removeprefix("clips/"): (line["outcome"], line.get("reason", "")) for line in lines}


def test_clips_are_sent_as_they_are_and_what_was_seen_is_told(cluster, counting, task, shared_scorer):
    evaluate(cluster, "run", counting, shared_scorer, "--task", str(task))
    outcomes = verdicts(cluster, "run")
    assert {key: outcome for key, (outcome, _) in outcomes.items()} == {
        **dict.fromkeys(("q0", "q1", "q2", "q3"), "scored"),
        **dict.fromkeys(("cut", "none"), "rejected"),
    }
    assert (outcomes["cut"][1], outcomes["none"][1]) == ("bad_video", "no_audio")
    metrics = json.loads(cluster.results("run"))["tasks"]["clips"]["metrics"]
    answered = next(metric["value_answered"] for metric in metrics if metric["name"] == "accuracy")
    assert answered == 100, outcomes

    lines = map(json.loads, (cluster.folder / "run" / "responses.jsonl").read_text().splitlines())
    line = next(line for line in lines if line["key"] == "clips/q0")
    film, _, sound, _ = line["request"]["messages"][0]["parts"]
    assert film["video"]["sampling"] == {"count": 4}
    assert film["video"]["media_type"] == "video/mp4"
    assert sound["audio"]["media_type"] == "audio/wav"
    for part, name in ((film["video"], "film0.mp4"), (sound["audio"], "sound0.wav")):
        stored = cluster.folder / "run" / "images" / part["sha256"]
        assert stored.read_bytes() == (cluster.folder / name).read_bytes()
    assert line["response"]["usage"]["media"] == [
        {"duration": "2s", "frames": 4},
        {"duration": "0.250s", "sample_rate": 16000},
    ]


def test_a_video_that_announces_more_than_it_holds_is_rejected(cluster, counting, task, shared_scorer):
    rows = [json.loads(line) for line in (cluster.folder / "clips.jsonl").read_text().splitlines()][:2]
    many = 50_000_000
    one_size = bombs.u32(1, many), bombs.u32(1, many, 1), bombs.u32(1, 1, many, 1)
    data = bombs.mp4(**dict(zip(("stsz", "stts", "stsc"), one_size, strict=True)))
    (cluster.folder / "film0.mp4").write_bytes(data)
    (cluster.folder / "clips.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    evaluate(cluster, "bomb", counting, shared_scorer, "--task", str(task))
    assert verdicts(cluster, "bomb") == {"q0": ("rejected", "bad_video"), "q1": ("scored", "")}
    message = f"its tables announce 50,000,000 samples, the limit for a file of {len(data):,} bytes is 1,000,000"
    assert message in (cluster.folder / "bomb" / "verdicts.jsonl").read_text()


def test_blind_sees_grey_and_hears_silence_of_the_same_length(cluster, counting, task, shared_scorer):
    evaluate(cluster, "blind", counting, shared_scorer, "--task", str(task), "--blind")
    lines = map(json.loads, (cluster.folder / "blind" / "responses.jsonl").read_text().splitlines())
    answers = {line["key"]: line["response"] for line in lines if line.get("response")}
    assert len(answers) == 4
    for number, (frames, seconds) in enumerate(((10, "2s"), (4, "0.800s"), (3, "0.600s"), (7, "1.400s"))):
        response = answers[f"clips/q{number}"]
        shown = ",".join(["grey"] * min(4, frames))
        assert response["parts"][0]["text"] == f"video {shown} audio 0"
        film, sound = response["usage"]["media"]
        assert film == {"duration": seconds, "frames": min(4, frames)}
        assert float(sound["duration"][:-1]) == 0.25 * (number + 1)


def test_a_server_without_video_is_refused_before_anything_is_asked(cluster, task, shared_scorer):
    server = cluster.model()
    output = evaluate(cluster, "run", server, shared_scorer, "--task", str(task), code=2)
    assert "does not claim AUDIO_INPUT, VIDEO_INPUT, which clips needs" in output


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("frames: {count: 4}", "frames: {}"), "frames needs either count or per_second"),
        (("frames: {count: 4}", "frames: {count: 4, per_second: 2}"), "frames needs either count or per_second"),
        (("frames: {count: 4}", "frames: {count: 4, max_count: 2}"), "frames.max_count bounds per_second"),
        (("video: film", "image: film"), "frames says what is seen of a video: name its column under video"),
    ],
)
def test_mistakes_about_frames_are_told_with_their_line(cluster, task, change, message):
    task.write_text(TASK.replace(*change))
    output = cluster.orchestrator("prompts", "--task", str(task), code=2)
    assert message in output
    assert "clips.yaml, line 8" in output
