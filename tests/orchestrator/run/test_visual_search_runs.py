"""`vstar_search` over real servers: its two requests, and search lengths on scenes whose truth is known."""

from __future__ import annotations

import asyncio
import hashlib
import io
import shutil
from collections.abc import AsyncIterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import grpc
import orjson
import pytest
from helpers.toolsets import Recorded, served
from PIL import Image

from lyncean.model.v1 import model_pb2 as model, model_pb2_grpc as model_grpc
from orchestrator.api import evaluate
from orchestrator.benchmarks.vstar.search import BENCHMARK
from orchestrator.benchmarks.vstar.searching import FOCUS, MISSING
from orchestrator.errors import ConfigError
from tool_server.search.hierarchy import Detection, Patch, Settings
from tool_server.search.toolset import VisualSearch

ROWS = 4
WIDTH, HEIGHT = 2048, 1536
VISIBLE = 0.05
"""Share of a patch's width from which an object is seen in it."""


class Nothing:
    revision = "1"

    def detect(self, image: Any, name: str) -> list[Detection]:
        raise AssertionError


class TrueSearch(VisualSearch):
    """Sees what a scene has where that is large enough in a patch, and has a weak cue of where the rest is."""

    def __init__(self, rows: Sequence[Any], settings: Settings, *, cued: bool = True) -> None:
        super().__init__(Nothing(), settings)
        self.truth: dict[str, dict[str, Any]] = {}
        for row in rows:
            places = {
                name: (x, y, x + w, y + h) for name, (x, y, w, h) in zip(row["targets"], row["boxes"], strict=True)
            }
            self.truth[_digest(Image.open(io.BytesIO(row.image())))] = places
        self.cued = cued

    def _seen(self, image: Image.Image, patch: Patch, target: str) -> list[Detection]:
        left, top, right, bottom = box = self.truth[_digest(image)][target]
        x, y = (left + right) / 2, (top + bottom) / 2
        if not (patch[0] <= x < patch[2] and patch[1] <= y < patch[3]):
            return []
        seen = right - left >= VISIBLE * (patch[2] - patch[0])
        return [Detection(box, 0.9)] if seen else [Detection(box, 0.1)] if self.cued else []


class WrongSearch(VisualSearch):
    """Is sure at once, of a place where nothing is."""

    def __init__(self) -> None:
        super().__init__(Nothing(), Settings())

    def _seen(self, image: Image.Image, patch: Patch, target: str) -> list[Detection]:
        return [Detection((0.0, 0.0, 30.0, 30.0), 0.9)]


def _digest(image: Image.Image) -> str:
    return hashlib.sha256(image.convert("RGB").tobytes()).hexdigest()


def guided_length(box: Sequence[float]) -> int:
    """Returns the number of patches to an object when each is the one that shows it."""
    return next(level for level in (1, 2, 3) if box[2] >= VISIBLE * WIDTH / 2 ** (level - 1))


def sequential_length(box: Sequence[float]) -> int:
    """Returns the same when all patches of a size are looked at, row by row in each quarter, before smaller ones."""
    level = guided_length(box)
    column = (box[0] + box[2] / 2) / (WIDTH / 2 ** (level - 1))
    row = (box[1] + box[3] / 2) / (HEIGHT / 2 ** (level - 1))
    index, before = 0, 0
    for depth in range(level - 1):
        bit = level - 2 - depth
        index = 4 * index + 2 * (int(row) >> bit & 1) + (int(column) >> bit & 1)
        before += 4**depth
    return before + index + 1


class Asker(model_grpc.ModelServiceServicer):
    """Misses the objects that a question names, then finds the first option likeliest."""

    def __init__(self) -> None:
        self.generated: list[model.GenerateRequest] = []
        self.scored: list[model.LikelihoodRequest] = []

    async def GetModelInfo(self, request: Any, context: Any) -> model.GetModelInfoResponse:  # noqa: N802
        claims = [
            model.Capability.Value(f"CAPABILITY_{name}")
            for name in ("GENERATE", "LIKELIHOOD", "IMAGE_INPUT", "MULTI_IMAGE")
        ]
        about = {"model_name": "asker", "model_revision": "1", "boot_id": "b", "max_concurrency": 8}
        return model.GetModelInfoResponse(**about, capabilities=claims)

    async def Generate(self, request: model.GenerateRequest, context: Any) -> model.GenerateResponse:  # noqa: N802
        self.generated.append(request)
        names = [word.strip("?.") for word in request.messages[0].parts[-1].text.split()]
        missing = [name for name in names if name in ("ball", "flag", "umbrella", "kite", "car", "mailbox")]
        response = model.GenerateResponse(finish_reason=model.FINISH_REASON_END_OF_SEQUENCE)
        response.usage.output_tokens = 5
        response.served_by.model_revision, response.served_by.boot_id = "1", "b"
        letters = request.messages[0].parts[-1].text.endswith("directly.")
        response.parts.add(text="A" if letters else f"{MISSING} {', '.join(missing)}.")
        return response

    async def Likelihood(self, request: model.LikelihoodRequest, context: Any) -> model.LikelihoodResponse:  # noqa: N802
        self.scored.append(request)
        response = model.LikelihoodResponse()
        for number, _ in enumerate(request.continuations):
            response.scores.add(logprob=-1.0 - number, token_count=1)
        response.served_by.model_revision, response.served_by.boot_id = "1", "b"
        return response


@pytest.fixture
async def asker() -> AsyncIterator[tuple[Asker, str]]:
    server, servicer = grpc.aio.server(), Asker()
    model_grpc.add_ModelServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield servicer, f"127.0.0.1:{port}"
    await server.stop(None)


@pytest.fixture(scope="module")
def rows() -> list[Any]:
    return list(islice(BENCHMARK.synthetic("vstar_search", 0), ROWS))


async def run(folder: Path, endpoint: str, tools: str, **more: Any) -> dict[str, Any]:
    options: dict[str, Any] = {"method": "likelihood", "synthetic": True, "limit": ROWS, **more}
    addresses = {"endpoint": endpoint, "tools": [f"grpc:{tools}"], "run": folder}
    await asyncio.to_thread(lambda: evaluate("vstar_search", **addresses, **options))
    results: dict[str, Any] = orjson.loads((folder / "results.json").read_bytes())
    return results


def metric(results: dict[str, Any], name: str) -> float | None:
    (entry,) = [
        candidate
        for candidate in results["tasks"]["vstar_search"]["metrics"]
        if candidate["name"] == name and not candidate.get("labels")
    ]
    return entry.get("value")


@pytest.mark.parametrize(
    ("cued", "length"), [(True, guided_length), (False, sequential_length)], ids=["guided", "without cues"]
)
async def test_lengths_of_scenes_whose_truth_is_known(
    cued: bool, length: Any, tmp_path: Path, asker: tuple[Asker, str], rows: list[Any]
) -> None:
    async with served(TrueSearch(rows, Settings(), cued=cued)) as tools:
        results = await run(tmp_path / "run", asker[1], tools)
    lengths = [length(box) for row in rows for box in row["boxes"]]
    assert len(set(lengths)) > 1
    assert metric(results, "search length") == pytest.approx(sum(lengths) / len(lengths))
    assert metric(results, "targets found") == 1
    assert metric(results, "iou") == pytest.approx(1, abs=0.001)
    assert results["tools"]["tool_calls"] == len(lengths)


async def test_a_wrong_detector_finds_nothing(tmp_path: Path, asker: tuple[Asker, str]) -> None:
    async with served(WrongSearch()) as tools:
        results = await run(tmp_path / "run", asker[1], tools)
    assert (metric(results, "targets found"), metric(results, "iou"), metric(results, "search length")) == (0, 0, None)


async def test_requests_of_a_question(tmp_path: Path, asker: tuple[Asker, str], rows: list[Any]) -> None:
    async with served(TrueSearch(rows, Settings())) as tools:
        results = await run(tmp_path / "run", asker[1], tools)
    assert len(asker[0].generated) == len(asker[0].scored) == ROWS
    assert all(len(request.messages) == 1 for request in (*asker[0].generated, *asker[0].scored))
    for request in asker[0].scored:
        parts = request.messages[0].parts
        kinds = [part.WhichOneof("kind") for part in parts]
        assert kinds[:3] == ["image", "text", "image"]
        assert parts[1].text.startswith(FOCUS)
        assert kinds.count("image") in (2, 3)
        assert len(request.continuations) in (2, 4)
    assert results["tasks"]["vstar_search"]["counts"]["scored"] == ROWS
    lines = [orjson.loads(line) for line in (tmp_path / "run" / "responses.jsonl").read_bytes().splitlines()]
    whole = [line for line in lines if "-" not in line["key"] and ":" not in line["key"]]
    assert {line["method"] for line in whole} == {"likelihood"}
    before = (tmp_path / "run" / "results.json").read_bytes()
    async with served(TrueSearch(rows, Settings())) as tools:
        await run(tmp_path / "run", asker[1], tools)
    assert len(asker[0].generated) == ROWS
    assert (tmp_path / "run" / "results.json").read_bytes() == before


async def test_a_run_goes_on_behind_any_line(tmp_path: Path, asker: tuple[Asker, str], rows: list[Any]) -> None:
    async with served(TrueSearch(rows, Settings())) as tools:
        await run(tmp_path / "whole", asker[1], tools, limit=2)
        lines = (tmp_path / "whole" / "responses.jsonl").read_bytes().splitlines(keepends=True)
        methods = [orjson.loads(line).get("method") for line in lines]
        for kept in range(1, len(lines), 2):
            cut = tmp_path / f"cut{kept}"
            cut.mkdir()
            shutil.copy(tmp_path / "whole" / "manifest.json", cut)
            shutil.copytree(tmp_path / "whole" / "images", cut / "images")
            (cut / "responses.jsonl").write_bytes(b"".join(lines[:kept]))
            asker[0].generated.clear()
            await run(cut, asker[1], tools, limit=2)
            assert (cut / "results.json").read_bytes() == (tmp_path / "whole" / "results.json").read_bytes()
            assert len(asker[0].generated) == 2 - methods[:kept].count("generate")


async def test_by_letters_and_by_annotated_targets(tmp_path: Path, asker: tuple[Asker, str], rows: list[Any]) -> None:
    async with served(TrueSearch(rows, Settings())) as tools:
        settings = {"objects": "targets"}
        results = await run(tmp_path / "run", asker[1], tools, method="generate", settings=settings)
    assert (metric(results, "targets found"), len(asker[0].generated), asker[0].scored) == (1, 2 * ROWS, [])


async def test_grey_images_are_searched_in_a_blind_run(
    tmp_path: Path, asker: tuple[Asker, str], rows: list[Any]
) -> None:
    seen: list[bytes] = []

    class Seeing(WrongSearch):
        def _seen(self, image: Image.Image, patch: Patch, target: str) -> list[Detection]:
            seen.append(image.getextrema())
            return super()._seen(image, patch, target)

    async with served(Seeing()) as tools:
        await run(tmp_path / "run", asker[1], tools, blind=True, limit=2)
    assert seen
    assert all(low == high for extrema in seen for low, high in extrema)
    shown = [part.image.data for part in asker[0].scored[0].messages[0].parts if part.HasField("image")]
    assert all(low == high for data in shown for low, high in Image.open(io.BytesIO(data)).convert("RGB").getextrema())


async def test_mistakes(tmp_path: Path, asker: tuple[Asker, str]) -> None:
    with pytest.raises(ConfigError, match="vstar_search calls the tool search itself: give --tools grpc:H:P"):
        await asyncio.to_thread(
            lambda: evaluate("vstar_search", endpoint=asker[1], synthetic=True, limit=1, run=tmp_path / "run")
        )
    async with served(Recorded()) as tools:
        with pytest.raises(ConfigError, match="no server of --tools has the tool search"):
            await run(tmp_path / "other", asker[1], tools)
