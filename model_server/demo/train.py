"""Trains the demo model from nothing, on drawn lessons that come as an Arrow stream on standard input.

    python -m orchestrator.synthetic.lessons 40000 | python -m model_server.demo.train demo-checkpoint

The model is a small InternVL of the transformers library: a vision transformer, four patches folded
into one token, a projector and a language model. A lesson's images are read once for all its
questions, each of which sees them and itself, as when it is asked alone. Before any question the
image tokens learn to name what stands in their place; that head is thrown away at the end.

What comes out does not see well enough to be shipped yet: the eyes learn what stands where in a few
minutes, but answers still go by which things are there at all, not by where (docs/decisions.md).
"""

from __future__ import annotations

import json
import math
import sys
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from torch.nn import functional

import model_server.hf.compat  # noqa: F401  (before transformers: makes torchvision importable)

tf: Any = transformers
SIDE, PATCH, FOLD = 256, 16, 2
GRID = SIDE // PATCH // FOLD
IMAGE_TOKENS = GRID * GRID
VOCABULARY = 1536
PAD, END, USER, ASSISTANT = "<|pad|>", "<|end|>", "<|user|>", "<|assistant|>"
IMAGE_START, IMAGE_END, IMAGE, VIDEO = "<img>", "</img>", "<IMG_CONTEXT>", "<video>"
SPECIAL = (PAD, END, USER, ASSISTANT, IMAGE_START, IMAGE_END, IMAGE, VIDEO)
TEMPLATE = (
    "{% for message in messages %}{{ '<|' + ('assistant' if message.role == 'assistant' else 'user') + '|>' }}"
    "{% if message.content is string %}{{ message.content }}{% else %}"
    "{% for part in message.content %}{% if part.type == 'image' %}<IMG_CONTEXT>{% else %}{{ part.text }}{% endif %}"
    "{% endfor %}{% endif %}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
VISION: dict[str, Any] = {
    "hidden_size": 192,
    "intermediate_size": 576,
    "num_hidden_layers": 4,
    "num_attention_heads": 3,
    "image_size": [SIDE, SIDE],
    "patch_size": [PATCH, PATCH],
    "attention_bias": True,
    "layer_scale_init_value": 1.0,
}
TEXT: dict[str, Any] = {
    "model_type": "qwen2",
    "vocab_size": VOCABULARY,
    "hidden_size": 192,
    "intermediate_size": 576,
    "num_hidden_layers": 5,
    "num_attention_heads": 6,
    "num_key_value_heads": 6,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": True,
}
EXAM = 64
"""Of the lessons that are held back, those that examine the model."""
IGNORED = -100
BOUNDS = (20, 44, 72, 110)
"""Questions are padded to the longest between two of these lengths."""


@dataclass(frozen=True)
class Read:
    """A lesson as numbers.

    Attributes:
        kind: What drew it.
        images: [images, SIDE, SIDE, 3], uint8.
        prefix: Tokens of the images.
        blocks: Tokens of each question with its answer, and how many are the question's.
        marks: Image, cell and word numbers.
    """

    kind: str
    images: torch.Tensor
    prefix: list[int]
    blocks: list[tuple[list[int], int]]
    marks: list[tuple[int, int, list[int]]]


def stream() -> Iterator[dict[str, Any]]:
    """Returns the lessons on standard input."""
    with pa.ipc.open_stream(sys.stdin.buffer) as source:
        for batch in source:
            yield from batch.to_pylist()


def make_tokenizer(rows: Sequence[dict[str, Any]]) -> Any:
    """Returns a byte-level BPE of the lessons' texts; any text can be written in it."""
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[AddedToken(token, special=True, normalized=False) for token in SPECIAL],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    texts = Counter(text for row in rows for asked in row["questions"] for text in asked.values())
    inner.train_from_iterator(sorted(texts), trainer)
    return tf.PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token=PAD,
        eos_token=END,
        padding_side="left",
        extra_special_tokens={
            "start_image_token": IMAGE_START,
            "end_image_token": IMAGE_END,
            "context_image_token": IMAGE,
            "video_token": VIDEO,
        },
    )


def make_processor(tokenizer: Any) -> Any:
    """Returns the processor: one square per image, whatever its shape."""
    size = {"height": SIDE, "width": SIDE}
    half = [0.5, 0.5, 0.5]
    return tf.InternVLProcessor(
        tf.GotOcr2ImageProcessor(
            size=size, crop_to_patches=False, min_patches=1, max_patches=1, image_mean=half, image_std=half
        ),
        tokenizer,
        tf.InternVLVideoProcessor(size=size, image_mean=half, image_std=half),
        image_seq_length=IMAGE_TOKENS,
        chat_template=TEMPLATE,
    )


def make_model(tokenizer: Any) -> Any:
    """Returns the model with random weights."""
    end, pad = (tokenizer.convert_tokens_to_ids(token) for token in (END, PAD))
    config = tf.InternVLConfig(
        vision_config=VISION,
        text_config=TEXT | {"eos_token_id": end, "pad_token_id": pad, "bos_token_id": None},
        image_token_id=tokenizer.convert_tokens_to_ids(IMAGE),
        image_seq_length=IMAGE_TOKENS,
        downsample_ratio=1 / FOLD,
        vision_feature_layer=-1,
        eos_token_id=end,
        pad_token_id=pad,
    )
    # With this little to a head, plain products beat fused attention on a processor.
    model = tf.InternVLForConditionalGeneration._from_config(config, attn_implementation="eager")
    model.generation_config = tf.GenerationConfig(eos_token_id=end, pad_token_id=pad)
    return model


class Reader:
    """Turns lessons into numbers.

    Args:
        tokenizer: The tokenizer.
        words: What marks may say; other words are passed over.
    """

    def __init__(self, tokenizer: Any, words: Sequence[str]) -> None:
        self._tokenizer = tokenizer
        self._words = {word: number for number, word in enumerate(words)}
        self._cache: dict[str, list[int]] = {}

    def ids(self, text: str) -> list[int]:
        """Returns a text's tokens."""
        if text not in self._cache:
            if len(self._cache) > 100_000:
                self._cache.clear()
            self._cache[text] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return self._cache[text]

    def __call__(self, row: dict[str, Any]) -> Read:
        """Returns a lesson as numbers."""
        flat = torch.frombuffer(bytearray(b"".join(row["images"])), dtype=torch.uint8)
        blocks = []
        for asked in row["questions"]:
            question = self.ids(asked["question"]) + self.ids(f"{END}{ASSISTANT}")
            blocks.append((question + self.ids(asked["answer"]) + self.ids(END), len(question)))
        marks = []
        for mark in row["marks"]:
            cell = min(GRID - 1, int(mark["y"] * GRID)) * GRID + min(GRID - 1, int(mark["x"] * GRID))
            known = [self._words[word] for word in mark["words"] if word in self._words]
            marks.append((mark["image"], cell, known))
        prefix = self.ids(USER + (IMAGE_START + IMAGE * IMAGE_TOKENS + IMAGE_END) * len(row["images"]))
        return Read(row["kind"], flat.view(-1, SIDE, SIDE, 3), prefix, blocks, marks)


@dataclass(frozen=True)
class Group:
    """Questions of like length.

    Attributes:
        lessons: Whose images each question is about: [questions].
        ids: Question and answer, padded on the right: [questions, tokens].
        labels: The token that follows where it is an answer's: [questions, tokens].
    """

    lessons: torch.Tensor
    ids: torch.Tensor
    labels: torch.Tensor


@dataclass(frozen=True)
class Batch:
    """Lessons run together, all with as many images.

    Attributes:
        pixels: [images, 3, SIDE, SIDE].
        prefix: Tokens of a lesson's images, the same for all: [tokens].
        count: Lessons.
        groups: Their questions.
        named: Which words stand in which cell: [images, cells, words].
    """

    pixels: torch.Tensor
    prefix: torch.Tensor
    count: int
    groups: list[Group]
    named: torch.Tensor


def collate(lessons: Sequence[Read], words: int) -> Batch:
    """Puts lessons together, questions of like length side by side."""
    asked = [(row, ids, known) for row, lesson in enumerate(lessons) for ids, known in lesson.blocks]
    asked.sort(key=lambda one: len(one[1]))
    cuts = [bisect_left(asked, bound, key=lambda one: len(one[1])) for bound in (*BOUNDS, math.inf)]
    groups = [_group(asked[start:end]) for start, end in pairwise([0, *cuts]) if start < end]
    each = len(lessons[0].images)
    named = torch.zeros((len(lessons) * each, IMAGE_TOKENS, words))
    for row, lesson in enumerate(lessons):
        for image, cell, known in lesson.marks:
            named[row * each + image, cell, known] = 1
    pixels = torch.cat([lesson.images for lesson in lessons]).permute(0, 3, 1, 2).float() / 127.5 - 1
    return Batch(pixels, torch.tensor(lessons[0].prefix), len(lessons), groups, named)


def _group(asked: Sequence[tuple[int, list[int], int]]) -> Group:
    shape = (len(asked), max(len(ids) for _, ids, _ in asked))
    ids, labels = torch.zeros(shape, dtype=torch.long), torch.full(shape, IGNORED)
    for place, (_, tokens, known) in enumerate(asked):
        ids[place, : len(tokens)] = torch.tensor(tokens)
        labels[place, known - 1 : len(tokens) - 1] = torch.tensor(tokens[known:])
    return Group(torch.tensor([row for row, _, _ in asked]), ids, labels)


class Learner(torch.nn.Module):
    """The model with the head that names what stands in each place of an image.

    A name is told by its own tokens' embeddings, so that what is seen and what is read meet in one space.

    Args:
        model: The model.
        words: The tokens of each name.
    """

    def __init__(self, model: Any, words: Sequence[Sequence[int]]) -> None:
        super().__init__()
        self.model = model
        self.spelled = words
        self.meant = torch.nn.Parameter(torch.zeros(len(words), TEXT["hidden_size"]))
        self.scale = torch.nn.Parameter(torch.tensor(5.0))
        self.bias = torch.nn.Parameter(torch.full((len(words),), -5.0))  # most words are true of no cell

    def forward(self, batch: Batch) -> tuple[torch.Tensor, list[tuple[torch.Tensor, torch.Tensor]]]:
        """Returns the loss of the answers, and each group's logits with its answers' places.

        The language model reads a lesson's images once; every question goes on from there alone.
        """
        inner = self.model.model
        language = inner.language_model
        features = inner.get_image_features(batch.pixels).pooler_output
        embeds = self.model.get_input_embeddings()(batch.prefix).repeat(batch.count, 1, 1)
        places = (batch.prefix == self.model.config.image_token_id).expand(batch.count, -1)
        embeds = embeds.masked_scatter(places[..., None], features.to(embeds.dtype))
        cache = tf.DynamicCache()
        language(inputs_embeds=embeds, past_key_values=cache, use_cache=True)
        shown = len(batch.prefix)
        answers, losses, count = [], [], 0
        for group in batch.groups:
            kept = tf.DynamicCache()
            for number, layer in enumerate(cache.layers):
                kept.update(layer.keys[group.lessons], layer.values[group.lessons], number)
            length = group.ids.shape[1]
            seen = torch.ones((length, shown + length), dtype=torch.bool).tril(shown)
            mask = torch.zeros(seen.shape, dtype=torch.bfloat16).masked_fill_(~seen, -1e9)
            hidden = language(
                inputs_embeds=self.model.get_input_embeddings()(group.ids),
                attention_mask=mask.expand(len(group.ids), 1, -1, -1),
                position_ids=torch.arange(shown, shown + length)[None],
                past_key_values=kept,
                use_cache=True,
            ).last_hidden_state
            wanted = group.labels != IGNORED
            logits = self.model.lm_head(hidden[wanted]).float()
            losses.append(functional.cross_entropy(logits, group.labels[wanted], reduction="sum"))
            count += len(logits)
            answers.append((logits.detach(), wanted))
        return torch.stack(losses).sum() / count, answers

    def look(self, pixels: torch.Tensor, named: torch.Tensor) -> torch.Tensor:
        """Returns the loss of the names alone."""
        features = self.model.model.get_image_features(pixels).pooler_output
        names = functional.binary_cross_entropy_with_logits(self.named(features).float(), named, reduction="sum")
        return names / named.sum().clamp(min=1)

    def named(self, features: torch.Tensor) -> torch.Tensor:
        """Returns how strongly each image token says each name: [images, cells, names]."""
        table = self.model.get_input_embeddings().weight
        names = torch.stack([table[list(ids)].mean(0) for ids in self.spelled]) + self.meant
        return self.scale * (features @ names.T) + self.bias


def batches(source: Iterator[Read], size: int, words: int) -> Iterator[Batch]:
    """Returns batches of lessons in the order in which they come, those with several images by themselves."""
    pools: dict[int, list[Read]] = defaultdict(list)
    for lesson in source:
        pool = pools[len(lesson.images)]
        pool.append(lesson)
        if len(pool) * len(lesson.images) >= size:
            yield collate(pool, words)
            pool.clear()


def optimizers(learner: Learner, rate: float) -> list[torch.optim.Optimizer]:
    """Returns Muon for the layers' matrices, AdamW for all else."""
    matrices: list[torch.nn.Parameter] = []
    rest: list[torch.nn.Parameter] = []
    for name, weight in learner.named_parameters():
        if not weight.requires_grad:
            continue
        inner = weight.ndim == 2 and "layer" in name and "embed" not in name
        (matrices if inner else rest).append(weight)
    return [
        torch.optim.Muon(matrices, lr=rate, weight_decay=0.05, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(rest, lr=rate / 2, betas=(0.9, 0.98), weight_decay=0.01, fused=True),
    ]


class Course:
    """Steps of one part of the training, with its learning rate and its history.

    Args:
        name: Of the part.
        learner: What learns.
        makers: Its optimizers.
        steps: How many there will be.
        last: Share of the highest learning rate that is left at the end.
        history: Where lines go.
    """

    def __init__(
        self,
        name: str,
        learner: Learner,
        makers: Sequence[torch.optim.Optimizer],
        steps: int,
        last: float,
        history: list[dict[str, Any]],
    ) -> None:
        self._name, self._learner, self._makers = name, learner, makers
        self._steps, self._last, self._history = steps, last, history
        self._highest = [group["lr"] for maker in makers for group in maker.param_groups]
        self._sums: dict[str, list[float]] = defaultdict(list)
        self._began = time.monotonic()
        self.step = 0

    @property
    def done(self) -> float:
        """The share of steps that is behind."""
        return self.step / self._steps

    def learn(self, loss: torch.Tensor, **shown: torch.Tensor) -> dict[str, Any] | None:
        """Takes one step down the loss; every fifty steps returns what was seen, by the means of `shown`."""
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self._learner.parameters(), 1.0)
        self.step += 1
        factor = min(1.0, self.step / 60) * (
            self._last + (1 - self._last) * 0.5 * (1 + math.cos(math.pi * min(1.0, self.done)))
        )
        groups = [group for maker in self._makers for group in maker.param_groups]
        for group, highest in zip(groups, self._highest, strict=True):
            group["lr"] = highest * factor
        for maker in self._makers:
            maker.step()
            maker.zero_grad()
        for name, value in shown.items():
            self._sums[name].append(value.item())
        if self.step % 50 and self.step != self._steps:
            return None
        means = {name: round(sum(values) / len(values), 4) for name, values in self._sums.items()}
        self._sums.clear()
        line = {"part": self._name, "step": self.step, **means, "seconds": round(time.monotonic() - self._began)}
        self._history.append(line)
        return line


@torch.no_grad()
def examine(learner: Learner, exam: Sequence[Read], words: int) -> dict[str, float]:
    """Returns, by kind, the share of answers whose every token is the most probable one."""
    learner.eval()
    right: dict[str, list[bool]] = defaultdict(list)
    for lesson in exam:
        batch = collate([lesson], words)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            _, answers = learner(batch)
        for group, (logits, wanted) in zip(batch.groups, answers, strict=True):
            same = torch.ones(wanted.shape, dtype=torch.bool)
            same[wanted] = logits.argmax(-1) == group.labels[wanted]
            for one, answer in zip(same.all(-1).tolist(), wanted.sum(-1).tolist(), strict=True):
                right[f"{lesson.kind} {'short' if answer <= 3 else 'long'}"].append(one)
    learner.train()
    return {kind: round(sum(found) / len(found), 3) for kind, found in sorted(right.items())}


def save(learner: Learner, processor: Any, out: Path) -> None:
    """Writes the checkpoint, its weights in half precision, to be computed with in single precision."""
    state = {name: weight.half() for name, weight in learner.model.state_dict().items()}
    learner.model.save_pretrained(out, state_dict=state)
    processor.save_pretrained(out)


def looking(source: Iterator[Read], lessons: int, words: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Returns the images of lessons, and what stands in them, for the sight alone: [images, cells, words]."""
    while lessons > 0 and (part := list(islice(source, min(16, lessons)))):
        lessons -= len(part)
        single = [replace(lesson, blocks=[]) for lesson in part]
        each = [collate([lesson], words) for lesson in single]
        yield torch.cat([one.pixels for one in each]), torch.cat([one.named for one in each])


@click.command()
@click.argument("out", type=click.Path(file_okay=False, path_type=Path))
@click.option("--sight", default=14_000, show_default=True, help="Lessons for the sight alone, before any question.")
@click.option("--lessons", default=15_000, show_default=True, help="Lessons with their questions, after these.")
@click.option("--size", default=8, show_default=True, help="Lessons in a batch with questions.")
@click.option("--rate", default=5e-3, show_default=True, help="Highest learning rate, of the matrices.")
@click.option("--seed", default=0, show_default=True, help="Of the first weights.")
@click.option("--held", default=1024, show_default=True, help="Lessons held back at first: the tokens are theirs.")
@click.option("--threads", default=1, show_default=True, help="Of the processor.")
def main(out: Path, sight: int, lessons: int, size: int, rate: float, seed: int, held: int, threads: int) -> None:
    """Train the demo model on the lessons on standard input and write it to OUT, its history beside it."""
    out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    rows = stream()
    first = list(islice(rows, held))
    tokenizer = make_tokenizer(first)
    words = sorted({word for row in first for mark in row["marks"] for word in mark["words"]})
    reader = Reader(tokenizer, words)
    processor = make_processor(tokenizer)
    learner = Learner(make_model(tokenizer), [reader.ids(f" {word}") for word in words])
    exam = [reader(row) for row in first[-EXAM:]]
    source = (reader(row) for part in (rows, first[:-EXAM]) for row in part)
    weights = sum(weight.numel() for weight in learner.model.parameters())
    print(f"{weights / 1e6:.2f} million weights, {len(tokenizer)} tokens, {len(words)} names", file=sys.stderr)
    history: list[dict[str, Any]] = []

    def note(line: dict[str, Any]) -> None:
        print(json.dumps(line), file=sys.stderr, flush=True)
        (out.parent / "history.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in history))

    course = Course("sight", learner, optimizers(learner, rate), -(-sight // 16), 0.05, history)
    for pixels, named in looking(source, sight, len(words)):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = learner.look(pixels, named)
        if line := course.learn(loss, naming=loss.detach()):
            note(line)
    save(learner, processor, out)
    # Answers that are wrong at first for want of words would undo what the eyes have learned.
    inner = learner.model.model
    for part in (inner.vision_tower, inner.multi_modal_projector):
        part.requires_grad_(False)
    course = Course("answers", learner, optimizers(learner, rate), lessons // size, 0.02, history)
    for batch in islice(batches(source, size, len(words)), lessons // size):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            answered, _ = learner(batch)
        line = course.learn(answered, answering=answered.detach())
        if line and (course.step % 250 == 0 or course.done >= 1):
            line["exam"] = examine(learner, exam, len(words))
            save(learner, processor, out)
        if line:
            note(line)


if __name__ == "__main__":
    main()
