"""Chooses the method of scoring at load, by comparison with the plain one.

A method is used if it agrees with one forward pass per continuation, and if the comparison
could have failed: the same continuations scored after another image, at shifted positions
and with a leaking mask must differ visibly, else agreement proves nothing.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import torch

from lyncean.media.types import Kind
from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import StatusError
from model_server.backend import Call, LoadError
from model_server.hf import synthetic
from model_server.hf.checkpoint import Checkpoint
from model_server.hf.clips import window
from model_server.hf.continuous import Continuous, Entry
from model_server.hf.family import is_recurrent
from model_server.hf.generate import generate
from model_server.hf.inputs import Prompt
from model_server.hf.likelihood import NONE, Faults, Question, Scored, expanded, packed, plain
from model_server.hf.prompt import Prompter
from model_server.hf.rows import SamplingRow
from model_server.hf.vision import VisionCache

log = logging.getLogger(__name__)

TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 0.1, torch.float16: 0.05}
"""Largest tolerated difference of a token's log-probability, by dtype."""
METHODS = ("packed", "expanded", "forked", "plain", "none")
"""Methods of scoring, the fastest first."""
_SHORT_CHUNK = 16
"""Tokens of a chunk while a model that attends in chunks is checked."""

_CHECKED = 4
"""Output tokens by which methods of decoding are compared."""
_TEXTS = (" yes", "no", "The answer is (B), because of its shape.", "The answer is (C), and not", "7")
FAILURES = (RuntimeError, ValueError, TypeError, LookupError, AttributeError, StatusError)
"""Exceptions of a model that does not support a check."""


@dataclass(frozen=True)
class Verdict:
    """Result of the self-check.

    Attributes:
        method: "packed", "expanded", "forked" or "plain"; "none" if not even the plain method works.
        difference: Largest difference from the plain method, per token.
        sensitivity: Smallest difference that a deliberate mistake caused.
        batches: Whether questions of different lengths score alike in a batch and alone.
        generates: Whether prompts of different lengths are continued alike in a batch and alone.
        continuous: Whether they are also continued alike by a loop that rows join and leave.
        samples: Whether several outputs of a prompt that is prefilled once equal a single one.
        vision: Whether cached vision features score like fresh ones.
        reason: Reason for not using the faster methods; "" if the fastest is used.
    """

    method: str
    difference: float = 0.0
    sensitivity: float = 0.0
    batches: bool = False
    generates: bool = False
    continuous: bool = False
    samples: bool = False
    vision: bool = False
    reason: str = ""


def check(checkpoint: Checkpoint, prompter: Prompter, vision: VisionCache, kind: Kind | None = None) -> Verdict:
    """Compares the methods of scoring on a synthetic question.

    Args:
        checkpoint: The model.
        prompter: Builds the questions.
        vision: Caches vision features.
        kind: Kind of clip to ask about; None asks about an image, if the model takes one.
    """
    if not prompter.can_join:
        return Verdict("none", reason="this tokenizer does not tell where its tokens end")
    try:
        sample = _Sample.make(checkpoint, prompter, kind)
    except FAILURES as error:
        return Verdict("none", reason=_short(error))
    if kind == "video" and not _tells(prompter, [synthetic.video(1)], [synthetic.video(1, last=2)]):
        return Verdict("none", reason="its processor drops frames")
    if kind and not sample.wrong_prompt > 0:
        return Verdict("none", reason=f"another {kind} gives the same scores")
    if _longrope(checkpoint):
        return Verdict("plain", reason="longrope: a long text changes the positions of all that is run beside it")
    generates = _tried("requests are continued", lambda: _generates(sample))
    if "chunked_attention" in (getattr(checkpoint.model.config.get_text_config(), "layer_types", None) or ()):
        verdict = _chunked(sample)
    elif is_recurrent(checkpoint.model):
        verdict = _by_rows(sample, "packed: recurrent layers read one continuation at a time")
    else:
        verdict = _packed(sample)
    packs = verdict.method == "packed"  # it also needs explicit masks and positions
    kept = not kind and vision.usable and packs and _vision(sample, vision)
    # A recurrent state ignores masks: it must not change with the padding before a prompt.
    steps = packs or (generates and is_recurrent(checkpoint.model))
    joins = steps and _tried("requests that wait", lambda: _continuous(sample), "join no batch")
    once = joins or _tried("prompts are read", lambda: _samples(sample), "for each output")
    return dataclasses.replace(verdict, generates=generates, continuous=joins, samples=once, vision=kept)


def _longrope(checkpoint: Checkpoint) -> bool:
    """Returns True if the longest text of a pass scales positions, which no short question reveals."""
    rope = getattr(checkpoint.model.config.get_text_config(), "rope_parameters", None) or {}
    kinds = [rope, *(part for part in rope.values() if isinstance(part, dict))]  # or one for each kind of layer
    return any(kind.get("rope_type") == "longrope" for kind in kinds)


@dataclass(frozen=True)
class _Sample:
    """A synthetic question, a shorter one, their plain scores, and the distance of the scores after a wrong prompt.

    The wrong prompt has another image or clip; for a question without any, it is the shorter question.
    """

    checkpoint: Checkpoint
    prompter: Prompter
    first: Question
    short: Question
    wanted: list[Scored]
    wanted_short: list[Scored]
    wrong_prompt: float
    limit: float
    kind: Kind | None

    @classmethod
    def make(cls, checkpoint: Checkpoint, prompter: Prompter, kind: Kind | None) -> _Sample:
        first = question(prompter, checkpoint, 1, "Which of these is right? (A) red (B) blue (C) green", kind)
        other = question(prompter, checkpoint, 2, "Which of these is right? (A) red (B) blue (C) green", kind)
        short = question(prompter, checkpoint, 3, "What is it?", kind)
        wanted = plain(checkpoint, first.prompt, first.joined)
        wanted_short = plain(checkpoint, short.prompt, short.joined)
        shown = kind or checkpoint.has_vision
        wrong = plain(checkpoint, other.prompt, other.joined) if shown else wanted_short
        limit = TOLERANCE.get(checkpoint.model.dtype, 0.1)
        return cls(checkpoint, prompter, first, short, wanted, wanted_short, _distance(wanted, wrong), limit, kind)


def _packed(sample: _Sample) -> Verdict:
    def run(*questions: Question, faults: Faults = NONE) -> list[list[Scored]]:
        return packed(sample.checkpoint, questions, None, faults)

    def together() -> bool:
        scores = run(sample.first, sample.short)
        return max(_distance(sample.wanted, scores[0]), _distance(sample.wanted_short, scores[1])) <= sample.limit

    verdict = _verdict(
        "packed", sample, lambda faults: run(sample.first, faults=faults)[0], Faults(3), Faults(leak=True)
    )
    if verdict.method == "packed":
        meet = sample.first.prompt.signature == sample.short.prompt.signature
        return dataclasses.replace(verdict, batches=not meet or _tried("questions are scored", together))
    return _by_rows(sample, verdict.reason)


def _by_rows(sample: _Sample, reason: str) -> Verdict:
    """Chooses among the methods that copy the prompt's cache for each continuation, and the plain one."""
    reasons = [reason]
    for method in ("expanded", "forked"):
        verdict = _verdict(method, sample, functools.partial(_expanded, sample, method))
        reasons.append(verdict.reason)
        if verdict.method == method:
            break
    return dataclasses.replace(verdict, reason="; ".join(filter(None, reasons)))


def _expanded(sample: _Sample, method: str, _: Faults) -> list[Scored]:
    return expanded(sample.checkpoint, sample.first, stepwise=method == "forked")


def _chunked(sample: _Sample) -> Verdict:
    """Checks models with chunked attention (Llama 4), with chunks short enough to divide the test question."""
    text = sample.checkpoint.model.config.get_text_config()
    size = text.attention_chunk_size
    text.attention_chunk_size = _SHORT_CHUNK
    try:
        cut = _Sample.make(sample.checkpoint, sample.prompter, sample.kind)
        cut = dataclasses.replace(cut, wrong_prompt=min(cut.wrong_prompt, _distance(sample.wanted, cut.wanted)))
        return _by_rows(cut, "packed: attention in chunks")
    except FAILURES as error:
        return Verdict("plain", reason=f"attention in chunks: {_short(error)}")
    finally:
        text.attention_chunk_size = size


def _verdict(method: str, sample: _Sample, run: Callable[[Faults], list[Scored]], *faults: Faults) -> Verdict:
    """Compares a method of scoring, unchanged and with deliberate mistakes, with the plain one."""
    try:
        difference = _distance(sample.wanted, run(NONE))
        seen = min(sample.wrong_prompt, *(_distance(sample.wanted, run(fault)) for fault in faults), float("inf"))
        reason = _judge(difference, seen, sample.limit)
    except FAILURES as error:
        reason = _short(error)
    return Verdict("plain", reason=f"{method}: {reason}") if reason else Verdict(method, difference, seen)


def _generates(sample: _Sample) -> bool:
    prompts = [sample.first.prompt, sample.short.prompt]
    if prompts[0].signature != prompts[1].signature:
        return True  # such prompts never share a batch of the library's loop
    return _alike(sample, _alone(sample, prompts), _generated(sample, prompts))


def _continuous(sample: _Sample) -> bool:
    """Compares rows that join and leave, two of one prompt, with each alone in the library's loop."""
    prompts = [sample.first.prompt, sample.short.prompt, sample.first.prompt, sample.first.prompt]
    rows = [_row(tokens) for tokens in (_CHECKED, _CHECKED, 2, _CHECKED)]
    entries = [Entry(prompt, row) for prompt, row in zip(prompts, rows, strict=True)]
    batches = [entries[:1], [], entries[1:], []]
    loop = Continuous(sample.checkpoint)
    while batches:  # more than once if the first row ended before others joined it
        loop.run(batches.pop(0), lambda: batches.pop(0) if batches else [])
    first, short = _alone(sample, prompts[:2])
    return _alike(sample, [first, short, first, first], rows)


def _samples(sample: _Sample) -> bool:
    """Compares three outputs of one prompt, batched with a shorter prompt if possible, with each alone."""
    first, short = sample.first.prompt, sample.short.prompt
    others = [short] if first.signature == short.signature else []
    rows = _generated(sample, [first, first, first, *others])
    alone = _alone(sample, [first, *others])
    once = [bool(row.call.cached_tokens) for row in rows[:3]] == [False, True, True]
    return once and _alike(sample, [alone[0]] * 3 + alone[1:], rows)


def _row(tokens: int) -> SamplingRow:
    config = model.GenerationConfig(max_output_tokens=tokens, temperature=0, top_logprobs=1)
    return SamplingRow(config, Call(), lambda _: None)


def _generated(sample: _Sample, prompts: Sequence[Prompt]) -> list[SamplingRow]:
    rows = [_row(_CHECKED) for _ in prompts]
    generate(sample.checkpoint, prompts, rows)
    return rows


def _alone(sample: _Sample, prompts: Sequence[Prompt]) -> list[SamplingRow]:
    return [_generated(sample, [prompt])[0] for prompt in prompts]


def _alike(sample: _Sample, wanted: Sequence[SamplingRow], got: Sequence[SamplingRow]) -> bool:
    for alone, batched in zip(wanted, got, strict=True):
        if not batched.logprobs and alone.logprobs:
            return False
        for one, other in zip(alone.logprobs, batched.logprobs, strict=False):
            if one.token != other.token and sample.checkpoint.model.dtype != torch.float32:
                break  # a near tie in a coarse number format
            if one.token != other.token or abs(one.logprob - other.logprob) > sample.limit:
                return False
    return True


def _vision(sample: _Sample, vision: VisionCache) -> bool:
    def agree() -> bool:
        questions = [sample.first, sample.short]
        for batch in (questions[:1], questions[:1], questions):  # fresh, cached, in one batch
            prompts = [question.prompt for question in batch]
            if len({prompt.signature for prompt in prompts}) > 1:
                continue
            got = packed(sample.checkpoint, batch, functools.partial(vision.apply, prompts))
            if _distance(sample.wanted, got[0]) > sample.limit:
                return False
        return True

    return _tried("vision features are kept", agree, otherwise="not at all")


def _tried(subject: str, test: Callable[[], bool], otherwise: str = "one by one") -> bool:
    try:
        good = test()
        cause = "they differ"
    except FAILURES as error:
        good, cause = False, _short(error)
    if not good:
        log.warning("%s %s: %s", subject, otherwise, cause)
    return good


def _judge(difference: float, seen: float, limit: float) -> str:
    if not difference <= limit:
        return f"differs from the plain way by {difference:.2g} per token, the limit is {limit:.2g}"
    if not seen > 2 * difference or (limit < 1e-3 and seen <= limit):
        return f"a mistake made on purpose changes so little ({seen:.2g}) that agreement proves nothing"
    return ""


def _distance(wanted: Sequence[Scored], got: Sequence[Scored]) -> float:
    pairs = [
        pair for scored in zip(wanted, got, strict=True) for pair in zip(*(s.logprobs for s in scored), strict=True)
    ]
    differences = [abs(one - other) for one, other in pairs]
    return float("inf") if any(map(math.isnan, differences)) else max(differences, default=0.0)


def question(prompter: Prompter, checkpoint: Checkpoint, seed: int, text: str, kind: Kind | None = None) -> Question:
    """Returns a synthetic question about a clip, or about an image if the model takes one."""
    shown = kind or ("image" if checkpoint.has_vision else None)
    prompt = _prompt(prompter, [synthetic.part(shown, seed)] if shown else [], text)
    return Question(prompt, prompter.join(prompt, _TEXTS))


def check_images(checkpoint: Checkpoint, prompter: Prompter) -> None:
    """Generates one token about a synthetic image.

    Raises:
        LoadError: The processor or the model fails at it, and so would at every image.
    """
    try:
        generate(checkpoint, [_prompt(prompter, [synthetic.part("image", 1)], "What is it?")], [_row(1)])
    except FAILURES as error:
        raise LoadError(
            f"this {checkpoint.kind} model takes images, and fails at one of 224 x 224 pixels ({_short(error)}): "
            "are its processor's files and settings those of the checkpoint?"
        ) from error


def find_limits(checkpoint: Checkpoint, prompter: Prompter, kinds: Iterable[Kind]) -> None:
    """Finds media that the processor silently drops, and makes the prompter refuse them.

    Args:
        checkpoint: The model.
        prompter: The prompter; sets its `apart` and the `longest` of its clips.
        kinds: The kinds of clips that the model takes.
    """
    seconds = window(checkpoint.processor) if "audio" in kinds else 0.0
    if seconds and not _tells(prompter, [synthetic.audio(1, 2, seconds + 1)], [synthetic.audio(1, 3, seconds + 1)]):
        prompter.clips.longest = seconds
    for one, other in combinations([*(["image"] if checkpoint.has_vision else []), *sorted(kinds)], 2):
        if not _mixes(prompter, one, other):
            log.warning("a prompt may not hold both %s and %s: the processor drops one or refuses them", one, other)
            prompter.apart.add(frozenset((one, other)))


def _mixes(prompter: Prompter, one: str, other: str) -> bool:
    """Returns True if both of two media of a prompt reach the model's inputs."""
    first, second = synthetic.part(one, 1), synthetic.part(other, 2)
    changed = ([synthetic.part(one, 3), second], [first, synthetic.part(other, 3)])
    return all(_tells(prompter, [first, second], media) for media in changed)


def _tells(prompter: Prompter, one: Sequence[model.Part], other: Sequence[model.Part]) -> bool:
    """Returns True if two lists of media yield different inputs; False if the processor refuses them."""
    try:
        first, second = (_prompt(prompter, parts, "What is it?").inputs for parts in (one, other))
    except FAILURES:
        return False
    return any(not torch.equal(value, second[name]) for name, value in first.items())


def _prompt(prompter: Prompter, media: Sequence[model.Part], text: str) -> Prompt:
    return prompter.prepare([model.Message(role=model.ROLE_USER, parts=[*media, model.Part(text=text)])])


def _short(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text if len(text) <= 160 else f'{text[:160]}...'}"
