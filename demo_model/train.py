"""Trains the demo model from scratch, on synthetic examples from an Arrow stream on standard input.

    draw="python -m demo_model.training_data"; train="python -m demo_model.train"
    $draw 1024 --no-images | $train begin work
    $draw 200000 --start 21024 | $train vision work --steps 4500
    $draw 200000 --start 1024 --no-images | $train language work --steps 3000
    $draw 200000 --seed 20264 --start 13800 | $train answers work --steps 800

The vision encoder and the language part train separately, also in parallel. The vision encoder learns to report the
objects in each cell of an image, in vectors that are fixed beforehand. The language part learns to answer from such
vectors, made from the description of an image without the image. Then the language part learns to work with the vectors
that the vision encoder really reports. An example's images are encoded once for all its questions.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import click
import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional

from demo_model.architecture import GRID, make_frame, make_model, make_processor, make_tokenizer, tf
from demo_model.dataset import IGNORED, Batch, Group, Read, Reader, batches, collate, stream

SIDES = 0.6
"""Weight of the horizontal position in the initial embeddings of the words left and right."""
SHARPNESS = 12.0
"""Sharpness of the names' probabilities; a name is present if its share in an image token exceeds a half."""
EXAM = 64
"""Examples on which the language part is evaluated."""
LOOKING = 1, 0
"""Layer and head in which a word attends to the object that it names."""
POINTING = 4, 0
"""Layer and head in which the end of a question attends to the option that is the answer, drawn or written."""
ASKED_FIRST, ASKED_LAST = (2, 1), (2, 2)
"""Layers and heads in which the end of a question attends to the first and the last object that it asks about."""
LOOK = 0.3
"""Weight of the attention loss in the total loss."""


class Answered(NamedTuple):
    """Losses and logits of a batch.

    Attributes:
        wrong: Loss of the answers' tokens.
        astray: Loss of the attention of words that do not attend to the objects they name.
        logits: Logits of each group's answers: [tokens, vocabulary].
    """

    wrong: torch.Tensor
    astray: torch.Tensor
    logits: list[torch.Tensor]


class Learner(torch.nn.Module):
    """The model and the targets of its image tokens.

    Args:
        model: The model.
        names: Number of names.
    """

    def __init__(self, model: Any, names: int) -> None:
        super().__init__()
        self.model = model
        frame = make_frame(names)
        columns, lines = frame[names : names + GRID], frame[names + GRID :]
        self.names = torch.nn.Buffer(frame[:names])
        self.places = torch.nn.Buffer((columns[None] + lines[:, None]).flatten(0, 1))

    def described(self, named: torch.Tensor) -> torch.Tensor:
        """Returns the image tokens that describe the names in images: [images, cells, width]."""
        return named @ self.names + self.places

    def seen(self, pixels: torch.Tensor) -> torch.Tensor:
        """Returns the vision encoder's image tokens: [images, cells, width]."""
        features: torch.Tensor = self.model.model.get_image_features(pixels).pooler_output
        return features

    def look(self, pixels: torch.Tensor, named: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the losses of the vision encoder: cross entropy of names, and squared distance."""
        features = self.seen(pixels).float()
        logits = SHARPNESS * ((features - self.places) @ self.names.T - 0.5)
        wrong = functional.binary_cross_entropy_with_logits(logits, named, reduction="sum") / named.sum().clamp(min=1)
        far = (features - self.described(named)).square().sum(-1)
        full = named.any(-1)
        return wrong, far[full].mean() + far[~full].mean()

    def answers(self, features: torch.Tensor, batch: Batch) -> Answered:
        """Returns the losses of the answers.

        The language model reads an example's images once; every question continues separately from there.
        """
        language = self.model.model.language_model
        embed = self.model.get_input_embeddings()
        embeds = embed(batch.prefix).repeat(batch.count, 1, 1)
        places = batch.prefix == self.model.config.image_token_id
        embeds = embeds.masked_scatter(places.expand(batch.count, -1)[..., None], features.to(embeds.dtype))
        cache = tf.DynamicCache()
        language(inputs_embeds=embeds, past_key_values=cache, use_cache=True)
        shown = len(batch.prefix)
        named = batch.named.view(batch.count, -1, batch.named.shape[-1])
        losses, logits, count = [], [], 0
        looks: list[torch.Tensor] = []
        for group in batch.groups:
            kept = tf.DynamicCache()
            for number, layer in enumerate(cache.layers):
                kept.update(layer.keys[group.examples], layer.values[group.examples], number)
            length = group.ids.shape[1]
            seen = torch.ones((length, shown + length), dtype=torch.bool).tril(shown)
            mask = torch.zeros(seen.shape, dtype=torch.bfloat16).masked_fill_(~seen, -1e9)
            done = language(
                inputs_embeds=embed(group.ids),
                attention_mask=mask.expand(len(group.ids), 1, -1, -1),
                position_ids=torch.arange(shown, shown + length)[None],
                past_key_values=kept,
                use_cache=True,
                output_attentions=True,
            )
            wanted = group.labels != IGNORED
            predicted = self.model.lm_head(done.last_hidden_state[wanted]).float()
            losses.append(functional.cross_entropy(predicted, group.labels[wanted], reduction="sum"))
            count += len(predicted)
            logits.append(predicted.detach())
            things = functional.pad(named[group.examples], (0, 1))  # the last name, NONE, is false of every cell
            looks += _looks(group, things, done.attentions, places)
        astray = torch.cat(looks)
        return Answered(torch.stack(losses).sum() / count, astray.sum() / max(1, len(astray)), logits)


def _looks(
    group: Group, things: torch.Tensor, attentions: Sequence[torch.Tensor], places: torch.Tensor
) -> Iterator[torch.Tensor]:
    """Yields the losses of attention heads whose target is known.

    Args:
        group: Questions.
        things: 1 if a name is true of a cell of their images: [questions, cells, names].
        attentions: Attention of each layer: [questions, heads, tokens, tokens before].
        places: True for image cells among the tokens before the questions: [tokens].
    """
    every, shown = torch.arange(len(group.ids)), len(places)

    def at_end(head: tuple[int, int]) -> torch.Tensor:
        return attentions[head[0]][every, head[1], group.last]

    meant = things.gather(-1, group.spelled[:, None].expand(-1, things.shape[1], -1) % things.shape[-1]).mT
    yield _astray(attentions[LOOKING[0]][:, LOOKING[1], :, :shown][..., places], meant)
    end = at_end(POINTING)
    options = torch.cat([things[every, :, group.shown], group.option], -1)
    yield _astray(torch.cat([end[:, :shown][:, places], end[:, shown:]], -1), options)
    places_said = torch.arange(group.ids.shape[1])
    mentioned = meant.any(-1) & (places_said < group.asked[:, None])
    for head, order in ((ASKED_FIRST, mentioned.shape[1] - places_said), (ASKED_LAST, 1 + places_said)):
        rank = mentioned * order
        yield _astray(at_end(head)[:, shown:], (rank == rank.amax(-1, keepdim=True)) & mentioned)


def _astray(attended: torch.Tensor, meant: torch.Tensor) -> torch.Tensor:
    """Returns the negative log of the attention on its targets, for each token with known targets."""
    known = meant.any(-1)
    return -(attended[known] * meant[known]).sum(-1).float().clamp(min=1e-6).log()


def blurred(named: torch.Tensor) -> torch.Tensor:
    """Returns names as an uncertain vision encoder would report them: some weak, some wrong."""
    weak = 1 - torch.rand_like(named) * (torch.rand_like(named) < 0.3)
    wrong = torch.rand_like(named) * (torch.rand_like(named) < 0.002) * named.any(-1, keepdim=True)
    return named * weak + wrong


def optimizers(parts: Sequence[torch.nn.Module], rate: float) -> list[torch.optim.Optimizer]:
    """Returns Muon for the layers' matrices, AdamW for all other weights."""
    matrices: list[torch.nn.Parameter] = []
    rest: list[torch.nn.Parameter] = []
    for name, weight in (named for part in parts for named in part.named_parameters()):
        inner = weight.ndim == 2 and "layer" in name and "embed" not in name
        (matrices if inner else rest).append(weight)
    return [
        torch.optim.Muon(matrices, lr=rate, weight_decay=0.05, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(rest, lr=rate / 2, betas=(0.9, 0.98), weight_decay=0.01, fused=True),
    ]


class Course:
    """Steps of one part of the training, with its learning rate and its history.

    Args:
        name: Name of the part.
        parts: Modules that learn.
        rate: The highest learning rate, of the matrices.
        steps: Number of steps.
        work: Folder of the history.
    """

    def __init__(self, name: str, parts: Sequence[torch.nn.Module], rate: float, steps: int, work: Path) -> None:
        self._name, self._steps, self._file = name, steps, work / f"{name}.jsonl"
        self._weights = [weight for part in parts for weight in part.parameters()]
        self._makers = optimizers(parts, rate)
        self._highest = [group["lr"] for maker in self._makers for group in maker.param_groups]
        self._sums: dict[str, list[float]] = defaultdict(list)
        self._began = time.monotonic()
        self.step = 0

    @property
    def over(self) -> bool:
        """True if all steps are done."""
        return self.step >= self._steps

    def learn(self, loss: torch.Tensor, **shown: torch.Tensor) -> dict[str, Any] | None:
        """Takes one optimizer step; every fifty steps returns a line of the history with the means of `shown`."""
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self._weights, 1.0)
        self.step += 1
        factor = min(1.0, self.step / 60) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * self.step / self._steps)))
        groups = [group for maker in self._makers for group in maker.param_groups]
        for group, highest in zip(groups, self._highest, strict=True):
            group["lr"] = highest * factor
        for maker in self._makers:
            maker.step()
            maker.zero_grad()
        for name, value in shown.items():
            self._sums[name].append(value.item())
        if self.step % 50 and not self.over:
            return None
        means = {name: round(sum(values) / len(values), 4) for name, values in self._sums.items()}
        self._sums.clear()
        return {"part": self._name, "step": self.step, **means, "seconds": round(time.monotonic() - self._began)}

    def note(self, line: dict[str, Any]) -> None:
        """Writes a line of the history."""
        with self._file.open("a") as file:
            print(json.dumps(line), file=file)
        print(json.dumps(line), file=sys.stderr, flush=True)


Shown = Callable[[Batch], torch.Tensor]


@torch.no_grad()
def examine(learner: Learner, shown: Shown, exam: Sequence[Read]) -> dict[str, float]:
    """Returns, by kind, the share of answers of which every token is the most probable one."""
    learner.eval()
    right: dict[str, list[bool]] = defaultdict(list)
    for example in exam:
        batch = collate([example], len(learner.names))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            answered = learner.answers(shown(batch), batch)
        for group, logits in zip(batch.groups, answered.logits, strict=True):
            wanted = group.labels != IGNORED
            same = torch.ones(wanted.shape, dtype=torch.bool)
            same[wanted] = logits.argmax(-1) == group.labels[wanted]
            for one, answer in zip(same.all(-1).tolist(), wanted.sum(-1).tolist(), strict=True):
                right[f"{example.kind} {'short' if answer <= 3 else 'long'}"].append(one)
    learner.train()
    return {kind: round(sum(outcomes) / len(outcomes), 3) for kind, outcomes in sorted(right.items())}


class Work:
    """The folder of a training: the checkpoint, the names, and the learned weights of each part.

    Args:
        folder: The folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.checkpoint = folder / "checkpoint"
        self.names: list[str] = json.loads((folder / "names.json").read_text())
        self.processor = tf.AutoProcessor.from_pretrained(self.checkpoint)
        torch.manual_seed(0)
        self.model = make_model(self.processor.tokenizer)
        self.reader = Reader(self.processor.tokenizer, self.names)
        self.learner = Learner(self.model, len(self.names))
        inner = self.model.model
        self.vision_encoder = [inner.vision_tower, inner.multi_modal_projector]
        self.language = [inner.language_model]

    @torch.no_grad()
    def name_tokens(self) -> None:
        """Initializes tokens that are a name or a side as the vector by which the vision encoder reports it."""
        table = self.model.get_input_embeddings().weight
        table.normal_(std=0.05)
        meanings = dict(zip(self.names, self.learner.names, strict=True))
        across = torch.linspace(-1, 1, GRID)
        left_to_right = across @ self.learner.places.view(GRID, GRID, -1).mean(0)
        meanings |= {"left": -SIDES * left_to_right, "right": SIDES * left_to_right}
        for name, meaning in meanings.items():
            for text in (name, f" {name}"):
                if len(ids := self.reader.ids(text)) == 1:
                    table[ids[0]] += meaning

    def keep(self, name: str, parts: Sequence[torch.nn.Module]) -> None:
        """Writes the weights of parts."""
        state = {
            f"{number}.{key}": weight for number, part in enumerate(parts) for key, weight in part.state_dict().items()
        }
        save_file(state, self.folder / f"{name}.safetensors")

    def recall(self, name: str, parts: Sequence[torch.nn.Module]) -> None:
        """Reads the weights of parts."""
        state = load_file(self.folder / f"{name}.safetensors")
        for number, part in enumerate(parts):
            prefix = f"{number}."
            part.load_state_dict({key.removeprefix(prefix): state[key] for key in state if key.startswith(prefix)})

    def save(self) -> None:
        """Writes the checkpoint with weights in half precision; computation is in single precision."""
        self.model.save_pretrained(
            self.checkpoint, state_dict={name: weight.half() for name, weight in self.model.state_dict().items()}
        )


def _answering(work: Work, name: str, rate: float, size: int, steps: int, shown: Shown) -> None:
    """Trains the language part on image tokens from `shown`; the first examples evaluate it."""
    source = map(work.reader, stream())
    exam = list(islice(source, EXAM))
    course = Course(name, work.language, rate, steps, work.folder)
    for batch in batches(source, size, len(work.names)):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            done = work.learner.answers(shown(batch), batch)
        line = course.learn(
            done.wrong + LOOK * done.astray, answering=done.wrong.detach(), looking=done.astray.detach()
        )
        if line and (course.step % 250 == 0 or course.over):
            line["exam"] = examine(work.learner, shown, exam)
            work.keep(name, work.language)
        if line:
            course.note(line)
        if course.over:
            break


@click.group()
@click.option("--threads", default=1, show_default=True, help="Of the processor.")
def main(threads: int) -> None:
    """Train the demo model on examples from standard input."""
    torch.set_num_threads(threads)


@main.command()
@click.argument("work", type=click.Path(file_okay=False, path_type=Path))
def begin(work: Path) -> None:
    """Make the tokenizer, the names and the processor from the examples."""
    work.mkdir(parents=True, exist_ok=True)
    rows = list(stream())
    names = sorted({word for row in rows for mark in row["marks"] for word in mark["words"]})
    (work / "names.json").write_text(json.dumps(names, indent=0))
    tokenizer = make_tokenizer(rows)
    make_processor(tokenizer).save_pretrained(work / "checkpoint")
    print(f"{len(tokenizer)} tokens, {len(names)} names", file=sys.stderr)


def _part(command: Callable[..., None]) -> click.Command:
    """Makes a command of a part of the training, with the options common to all parts."""
    for option in (
        click.option("--steps", required=True, type=int, help="Batches in all; the learning rate falls to their end."),
        click.option("--size", default=16, show_default=True, help="Images in a batch."),
        click.option("--rate", default=5e-3, show_default=True, help="Highest learning rate, of the matrices."),
        click.argument("folder", metavar="WORK", type=click.Path(exists=True, file_okay=False, path_type=Path)),
    ):
        command = option(command)
    return main.command()(command)


@_part
def vision(folder: Path, rate: float, size: int, steps: int) -> None:
    """Train the vision encoder to report objects and their positions; continues earlier training."""
    work = Work(folder)
    if (folder / "vision.safetensors").exists():
        work.recall("vision", work.vision_encoder)
    course = Course("vision", work.vision_encoder, rate, steps, folder)
    unasked = (work.reader({**row, "questions": ()}) for row in stream())
    for batch in batches(unasked, size, len(work.names)):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            naming, distance = work.learner.look(batch.pixels, batch.named)
        line = course.learn(naming + distance, naming=naming.detach(), distance=distance.detach())
        if line:
            course.note(line)
        if course.step % 500 == 0 or course.over:
            work.keep("vision", work.vision_encoder)
        if course.over:
            break


@_part
def language(folder: Path, rate: float, size: int, steps: int) -> None:
    """Train the language part to answer from descriptions of images; continues earlier training."""
    work = Work(folder)
    if (folder / "language.safetensors").exists():
        work.recall("language", work.language)
    else:
        work.name_tokens()
    learner = work.learner

    def shown(batch: Batch) -> torch.Tensor:
        return learner.described(blurred(batch.named) if learner.training else batch.named)

    _answering(work, "language", rate, size, steps, shown)


@_part
def answers(folder: Path, rate: float, size: int, steps: int) -> None:
    """Train the language part to answer from the vision encoder's reports, and write the checkpoint."""
    work = Work(folder)
    work.recall("vision", work.vision_encoder)
    work.recall("language", work.language)

    @torch.no_grad()
    def shown(batch: Batch) -> torch.Tensor:
        return work.learner.seen(batch.pixels)

    _answering(work, "answers", rate, size, steps, shown)
    work.save()


if __name__ == "__main__":
    main()
