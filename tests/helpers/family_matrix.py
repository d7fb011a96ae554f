"""The matrix of model types: what the server does with a tiny checkpoint of each, judged by `plain_loop`.

`python -m helpers.family_matrix`, in tests/, examines all of them, records what was found in `RECORDED` and writes the
table of `docs/model-families.md`; with names of types it examines those alone. About five minutes of processor time.
"""

from __future__ import annotations

import asyncio
import io
import json
import logging
import math
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from helpers.model_serving import Served, picture, serve
from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import CallError
from model_server.backend import LoadError
from model_server.metrics import Metrics

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "tests/fixtures/model_types.json"
PAGE = ROOT / "docs/model-families.md"
BEGIN, END = "<!-- types: by tests/helpers/family_matrix.py -->", "<!-- end of types -->"
TOLERANCE = 1e-4
"""Largest difference of a token's log-probability from the judge's."""
_TOKENS = 5
_CONTINUATIONS = [" yes", " no", " The answer is B, because", " The answer is C", " 7"]


@dataclass
class Finding:
    """Results for a type. Differences are texts, "" if all is equal.

    Attributes:
        loads: Whether the server loads it; else `why` has the reason.
        images: "several", "one" or "none" in a prompt.
        generation: Difference of answers from the judge's.
        batch: Difference of answers in a batch.
        batching: "continuous", "static" or "none".
        method: Method of scoring continuations; "none" if they are not scored.
        likelihood: Difference of scores from the judge's.
        why: Reason for not using a faster method, or for not serving the type.
        clips: Kinds of clips that are understood.
        refused: Reason for not understanding a kind of clip that the processor has a part for, by kind.
    """

    loads: bool = True
    images: str = "none"
    needs_image: bool = False
    generation: str = ""
    batch: str = ""
    batching: str = "none"
    method: str = "none"
    likelihood: str = ""
    why: str = ""
    clips: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)

    @property
    def passes(self) -> bool:
        """True if it agrees with the judge in everything."""
        takes = self.images != "none" or self.clips
        return bool(self.loads and takes and not (self.generation or self.batch or self.likelihood))


def _shown(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data)).convert("RGB")


def _message(parts: Sequence[str | bytes | model.Audio | model.Video]) -> model.Message:
    message = model.Message(role=model.ROLE_USER)
    for part in parts:
        if isinstance(part, str):
            message.parts.add(text=part)
        elif isinstance(part, bytes):
            message.parts.add(image=model.Image(data=part))
        elif isinstance(part, model.Audio):
            message.parts.add(audio=part)
        else:
            message.parts.add(video=part)
    return message


async def examine(folder: Path) -> Finding:
    """Serves a checkpoint and compares what it answers with the judge."""
    from helpers.plain_loop import PlainLoop
    from model_server.hf.backend import HfBackend
    from model_server.hf.settings import Settings

    backend = HfBackend(Settings(model=str(folder), max_batch=8, batch_wait=0.1), Metrics())
    finding = Finding()
    try:
        async with serve(backend) as server:
            judge = PlainLoop(folder)
            await _compare(finding, server, judge)
    except LoadError as error:
        return Finding(loads=False, why=str(error))
    return finding


def _questions(claimed: set[int]) -> list[tuple[list[Any], list[Any]]]:
    """Returns questions as sent, and as the judge is asked."""
    from helpers import clips

    one, two, three = picture(1), picture(2, (40, 60)), picture(3)
    texts = ("Which of these is right? (A) red (B) blue", "What is it?", "How many dogs are there? Say a number.")
    questions: list[tuple[list[Any], list[Any]]] = []
    if model.CAPABILITY_IMAGE_INPUT in claimed:
        for data, text in zip((one, two, three), texts, strict=True):
            questions.append(([data, text], [_shown(data), text]))
    if model.CAPABILITY_MULTI_IMAGE in claimed:
        questions.append(
            ([one, "Compare", two, "with the first."], [_shown(one), "Compare", _shown(two), "with the first."])
        )
    if model.CAPABILITY_AUDIO_INPUT in claimed:
        for hertz, text in zip((440, 990), texts, strict=False):
            wave = np.sin(np.arange(16000) / 16000 * 2 * np.pi * hertz) * 16384
            samples = (wave.astype(np.int16) / 65536).astype(np.float32)
            questions.append(([model.Audio(data=clips.audio(1.0, 16000, hertz=hertz)), text], [samples, text]))
    questions.append(([texts[1]], [texts[1]]))
    return questions


async def _compare(finding: Finding, server: Served, judge: Any) -> None:
    info = await server.info()
    claimed, properties = set(info.capabilities), info.properties
    finding.batching = properties["generate_batching"]
    finding.method = properties["likelihood_method"]
    finding.why = properties.get("likelihood_fallback", "")
    if model.CAPABILITY_IMAGE_INPUT in claimed:
        finding.images = "several" if model.CAPABILITY_MULTI_IMAGE in claimed else "one"
    for kind, capability in (("audio", model.CAPABILITY_AUDIO_INPUT), ("video", model.CAPABILITY_VIDEO_INPUT)):
        if capability in claimed:
            finding.clips.append(kind)
        elif reason := properties.get(f"{kind}_likelihood_fallback"):
            finding.refused[kind] = reason
    asked_parts = _questions(claimed)
    messages = [_message(parts) for parts, _ in asked_parts]
    config = model.GenerationConfig(max_output_tokens=_TOKENS, top_logprobs=1)
    sent = [model.GenerateRequest(messages=[message], config=config) for message in messages]

    alone = [await _answer(lambda request=request: server.send(request)) for request in sent]
    if isinstance(alone[-1], str) and len(asked_parts) > 1:
        finding.needs_image = True  # the last one has none
        asked_parts, messages, sent, alone = asked_parts[:-1], messages[:-1], sent[:-1], alone[:-1]
    greedy = [judge.greedy(parts, _TOKENS) for _, parts in asked_parts]
    if finding.images != "none":
        other = judge.greedy([asked_parts[2][1][0], *asked_parts[0][1][1:]], _TOKENS)
        if not _tokens([(token.id, token.logprob) for token in greedy[0]], other):
            finding.generation = "another image changes nothing"
            return
    finding.generation = _first(_answers(reply, tokens) for reply, tokens in zip(alone, greedy, strict=True))
    together = await asyncio.gather(*(_answer(lambda request=request: server.send(request)) for request in sent))
    finding.batch = _first(_answers(reply, tokens) for reply, tokens in zip(together, greedy, strict=True))
    if model.CAPABILITY_LIKELIHOOD not in claimed:
        return
    questions = [
        model.LikelihoodRequest(messages=[message], continuations=_CONTINUATIONS, return_tokens=True)
        for message in messages
    ]
    wanted = [[judge.scores(parts, text) for text in _CONTINUATIONS] for _, parts in asked_parts]
    scored = [await _answer(lambda request=request: server.send(request)) for request in questions]
    scored += await asyncio.gather(*(_answer(lambda request=request: server.send(request)) for request in questions))
    finding.likelihood = _first(_scores(reply, tokens) for reply, tokens in zip(scored, wanted * 2, strict=True))


async def _answer(send: Callable[[], Awaitable[Any]]) -> Any:
    try:
        return await send()
    except CallError as error:
        return f"{error.code.name} {error.reason}: {error}"


def _first(differences: Any) -> str:
    return next((text for text in differences if text), "")


def _answers(reply: Any, wanted: Sequence[Any]) -> str:
    if isinstance(reply, str):
        return reply
    got = [(token.token_id, token.logprob) for token in reply.logprobs]
    return _tokens(got, wanted)


def _scores(reply: Any, wanted: Sequence[Sequence[Any]]) -> str:
    if isinstance(reply, str):
        return reply
    return _first(
        _tokens([(token.token_id, token.logprob) for token in score.tokens], tokens)
        for score, tokens in zip(reply.scores, wanted, strict=True)
    )


def _tokens(got: Sequence[tuple[int, float]], wanted: Sequence[Any]) -> str:
    if [number for number, _ in got] != [token.id for token in wanted][: len(got)] or not got:
        return f"tokens {[number for number, _ in got]}, not {[token.id for token in wanted]}"
    worst = max(abs(value - token.logprob) for (_, value), token in zip(got, wanted, strict=False))
    return "" if worst <= TOLERANCE and not math.isnan(worst) else f"log-probabilities differ by {worst:.2g}"


def examined(kind: str, folder: Path) -> dict[str, Any]:
    """Builds a type's tiny checkpoint, examines it, and returns what is recorded of it."""
    from helpers import tiny
    from helpers.tiny_types import UNBUILT

    if kind in UNBUILT:
        return {"unbuilt": UNBUILT[kind]}
    logging.disable(logging.CRITICAL)
    try:
        finding = asyncio.run(examine(tiny.build(kind, folder)))
    finally:
        logging.disable(logging.NOTSET)
    recorded = asdict(finding) | {"passes": finding.passes}
    recorded["why"] = finding.why.split("; expanded:")[0].removeprefix("packed: ")
    return recorded


def table(recorded: dict[str, dict[str, Any]]) -> str:
    """Returns the page's part on types, from what is recorded of them."""
    built = {kind: finding for kind, finding in recorded.items() if "unbuilt" not in finding}
    passing = [kind for kind, finding in built.items() if finding["passes"]]
    lines = [
        f"Of {len(recorded)} types, {len(built)} were built and {len(passing)} pass: each answer, alone and in "
        "a batch, and each log-probability is the judge's.",
        "",
        "| types | images in a prompt | clips | answers | batches | likelihood | why no faster way |",
        "|---|---|---|---|---|---|---|",
    ]
    rows: dict[tuple[str, ...], list[str]] = {}
    for kind, finding in sorted(built.items()):
        images = finding["images"] + (", needed" if finding["needs_image"] else "")
        answers = finding["generation"] or (f"in a batch: {finding['batch']}" if finding["batch"] else "equal")
        scores = finding["method"] if finding["method"] != "none" else "refused"
        if finding["likelihood"]:
            scores = f"{scores}: {finding['likelihood']}"
        cells = (
            images,
            ", ".join(finding["clips"]) or "-",
            answers,
            finding["batching"],
            scores,
            finding["why"] or "-",
        )
        rows.setdefault(cells, []).append(f"`{kind}`")
    for cells, kinds in sorted(rows.items(), key=lambda row: -len(row[1])):
        shown = (", ".join(kinds), *cells)
        lines.append("| " + " | ".join(cell.replace("|", "/").replace("\n", " ") for cell in shown) + " |")
    lines += ["", "Not built, so not known:", ""]
    reasons: dict[str, list[str]] = {}
    for kind, finding in sorted(recorded.items()):
        if "unbuilt" in finding:
            reasons.setdefault(finding["unbuilt"], []).append(f"`{kind}`")
    lines += [f"- {', '.join(kinds)}: {reason}" for reason, kinds in reasons.items()]
    return "\n".join(lines) + "\n"


def page(recorded: dict[str, dict[str, Any]], text: str) -> str:
    """Returns the page with its part on types as it follows from the records."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table(recorded)}\n{END}{after}"


def main(kinds: Sequence[str]) -> None:
    """Examines types, records them and writes the page."""
    recorded: dict[str, dict[str, Any]] = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    import lyncean.transformers_import  # noqa: F401  (before the library's classes)
    from helpers.tiny_types import types

    known = types()
    recorded = {kind: finding for kind, finding in recorded.items() if kind in known}
    for kind in kinds or known:
        with tempfile.TemporaryDirectory() as folder:
            try:
                recorded[kind] = examined(kind, Path(folder))
            except Exception as error:  # of any kind: the next type is still examined
                recorded[kind] = {"unbuilt": f"{type(error).__name__}: {str(error).splitlines()[0]}"}
        print(kind, "unbuilt" if "unbuilt" in recorded[kind] else recorded[kind]["passes"], flush=True)
        RECORDED.write_text(json.dumps(dict(sorted(recorded.items())), indent=1) + "\n")
    PAGE.write_text(page(recorded, PAGE.read_text()))


if __name__ == "__main__":
    main(sys.argv[1:])
