"""One item of a share: both answers, and the spots in which the runs differ."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from PIL import Image

from lyncean.media.picture_formats import DAMAGE
from lyncean.media.pictures import open_image
from orchestrator.compare.causes import Attribution, Cause, Side, decoding, media, other_truth, prompt
from orchestrator.compare.explain import Explained, Headline, Share
from orchestrator.compare.flips import words
from orchestrator.run_folder.reader import Item, Run

_AROUND = 24
_MIDDLE = 72
_MOST_SETTINGS = 6
_TOKEN = re.compile(r"\w+|\W")


@dataclass(frozen=True, slots=True)
class Spot:
    """A prompt, decoding or answer in which two runs differ, as both have it; the difference stands between ⟦ and ⟧."""

    what: str
    first: str
    second: str


@dataclass(frozen=True, slots=True)
class Example:
    """An item of a share.

    Attributes:
        key: Its key; "" if only the metric differs.
        target: The right answer, from the first run that has it.
        spots: Spots in which the runs differ, those of the cause first, both verdicts and answers last.
    """

    key: str
    target: str
    spots: Sequence[Spot]


def example(explained: Explained, share: Share) -> Example:
    """Returns the first item of a share; an example without a key if only the metric shows it, and no item does."""
    metrics = Spot("metric", *map(_metric, explained.headlines))
    if not share.pairs:
        return Example("", "", [metrics])
    ((one, other),) = explained.read(share.pairs[:1])
    item = one or other
    assert item
    spots = [] if one is None or other is None else list(_spots(share.attribution, explained, one, other))
    if share.attribution.cause is Cause.AGGREGATION:
        spots.append(metrics)
    spots.append(Spot("read as", _read_as(one), _read_as(other)))
    spots.append(Spot("answer", *_marked(words(one) if one else "", words(other) if other else "")))
    return Example(item.key, " | ".join(map(str, item.scoring.get("targets", ()))), spots)


def _spots(attribution: Attribution, explained: Explained, one: Item, other: Item) -> Iterator[Spot]:
    runs = explained.sides[0].run, explained.sides[1].run
    for cause in (attribution.cause, *attribution.also):
        match cause:
            case Cause.DATA:
                for name, truths in other_truth(one, other).items():
                    yield Spot(name, *_marked(*(" | ".join(map(str, truth)) for truth in truths)))
            case Cause.PROMPT:
                yield Spot("prompt", *_marked(prompt(one), prompt(other)))
            case Cause.IMAGE:
                yield Spot("image", *_images(one, other, runs))
            case Cause.LIMIT:
                yield Spot("output limit", *("cut" if item.cut else "not cut" for item in (one, other)))
            case Cause.DECODING:
                yield Spot("decoding", *_listed(decoding(one, other)))
            case Cause.SERVER:
                mine, theirs = (side.server for side in explained.sides)
                names = [name for name in dict.fromkeys((*mine, *theirs)) if mine.get(name) != theirs.get(name)]
                yield Spot("server", *_listed({name: (mine.get(name), theirs.get(name)) for name in names}))
            case Cause.READING:
                rules = [_rule(item, side) for item, side in zip((one, other), explained.sides, strict=True)]
                yield Spot("rule", rules[0], rules[1])
            case _:
                pass  # the verdict and the answer show it


def _metric(head: Headline) -> str:
    result = head.result
    number = result.denominator_answered if head.measure.answered else result.denominator
    return f"{head.name}: {result.metric} of {number:,}"


def _read_as(item: Item | None) -> str:
    """Returns the answer that was extracted, and its score."""
    if item is None:
        return "no such item"
    read = item.verdict.get("extracted") or item.outcome
    return _short(f"{read}" if item.score is None else f"{read}, score {item.score:g}", _MIDDLE)


def _rule(item: Item, side: Side) -> str:
    rule, sha = side.rule(item)
    judges = ", ".join(map(str, side.run.manifest.get("judges") or ()))
    detail = str(item.verdict.get("reason") or "")
    known = (rule, sha[:12], judges and f"judge {judges}", detail and f"({detail})")
    return _short(" ".join(word for word in known if word), _AROUND + _MIDDLE)


def _images(one: Item, other: Item, runs: tuple[Run, Run]) -> tuple[str, str]:
    mine, theirs = media(one), media(other)
    if mine == theirs:
        return "another place among the words", "another place among the words"
    index = next((at for at, pair in enumerate(zip(mine, theirs, strict=False)) if pair[0] != pair[1]), -1)
    descriptions = []
    for references, run in ((mine, runs[0]), (theirs, runs[1])):
        at = index if index >= 0 else min(len(mine), len(theirs))
        shown = _image(references[at], run) if at < len(references) else "none"
        descriptions.append(f"{at + 1} of {len(references)}: {shown}")
    return descriptions[0], descriptions[1]


def _image(reference: Mapping[str, Any], run: Run) -> str:
    name = str(reference.get("sha256", ""))
    path = run.image(name)
    if path is None:
        return name[:12]
    data = path.read_bytes()
    try:
        image = open_image(data)
        size = f"{image.width}x{image.height} {image.format} "
    except (*DAMAGE, Image.DecompressionBombError):
        size = ""
    return f"{size}{len(data):,} bytes {name[:12]}"


def _listed(differing: Mapping[str, tuple[Any, Any]]) -> tuple[str, str]:
    """Returns settings of both sides: "max_output_tokens 64, stop none"."""
    shown = list(differing.items())[:_MOST_SETTINGS]
    sides = [", ".join(f"{name} {_value(values[side])}" for name, values in shown) for side in (0, 1)]
    return sides[0], sides[1]


def _value(value: Any) -> str:
    return "not given" if value is None else _short(str(value), _AROUND)


def _marked(first: str, second: str) -> tuple[str, str]:
    """Returns two texts shortened around their difference, which stands between ⟦ and ⟧."""
    texts = [" ".join(text.split()) for text in (first, second)]
    if texts[0] == texts[1]:
        # They differ only in whitespace, or not at all.
        texts = [text.replace("\n", "⏎").replace("\t", "⇥") for text in (first, second)]
    if texts[0] == texts[1]:
        return _short(texts[0], _MIDDLE), _short(texts[1], _MIDDLE)
    tokens = [_TOKEN.findall(text) for text in texts]
    start = _alike(*tokens)
    rest = [sequence[start:] for sequence in tokens]
    end = _alike(*(sequence[::-1] for sequence in rest))
    before, after = "".join(tokens[0][:start]), "".join(rest[0][len(rest[0]) - end :])
    left = f"…{before[-_AROUND:]}" if len(before) > _AROUND else before
    right = f"{after[:_AROUND]}…" if len(after) > _AROUND else after
    one, other = (f"{left}⟦{_short(''.join(sequence[: len(sequence) - end]), _MIDDLE)}⟧{right}" for sequence in rest)
    return one, other


def _alike(one: Sequence[str], other: Sequence[str]) -> int:
    """Returns the number of leading words that two texts have in common."""
    differing = (at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1])
    return next(differing, min(len(one), len(other)))


def _short(text: str, most: int) -> str:
    half = most // 2
    return text if len(text) <= most else f"{text[:half]}…{text[-half:]}"
