"""Retrains the demo model by transformers' Trainer, from the bundled checkpoint with noise in its weights.

    python -m demo_model.relearn work --suite suite.yaml

It keeps every checkpoint and resumes after it was killed. With a suite each checkpoint is evaluated while training
continues (`lyncean_trainer`). The vision encoder is frozen, so the loss falls within minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import click
import torch
import transformers

import lyncean.transformers_import  # noqa: F401
from demo_model.architecture import END
from demo_model.training_data import examples
from model_server.demo import CHECKPOINT

tf: Any = transformers
KINDS = ("vstar", "marvel")
IGNORED = -100
QUESTIONS = 4
"""Questions taken from an example at most."""
NOISE = 0.5
"""Standard deviation of the noise in a matrix, relative to that of its weights: training does not recover from 1."""


class Questions(torch.utils.data.Dataset[Any]):
    """Questions on synthetic images, and their answers; each depends only on the seed and its number."""

    def __init__(self, size: int, seed: int) -> None:
        rows = (
            {"images": example.images, "question": question, "answer": answer}
            for example in examples(seed)
            if example.kind in KINDS
            for question, answer in example.questions[:QUESTIONS]
        )
        self._rows: list[dict[str, Any]] = list(islice(rows, size))

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, number: int) -> dict[str, Any]:
        row = self._rows[number]
        images: Sequence[Callable[[], Any]] = row["images"]
        return {**row, "images": [draw() for draw in images]}


class Collate:
    """Makes a batch in which only the answers have labels."""

    def __init__(self, processor: Any) -> None:
        self._processor = processor
        processor.tokenizer.padding_side = "right"

    def __call__(self, rows: Sequence[dict[str, Any]]) -> Any:
        """Returns the tensors of a batch."""
        prompts = [self._prompt(row) for row in rows]
        texts = [f"{prompt}{row['answer']}{END}" for prompt, row in zip(prompts, rows, strict=True)]
        images = [row["images"] for row in rows]
        batch = self._processor(text=texts, images=images, padding=True, return_tensors="pt")
        labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, IGNORED)
        for line, prompt, text in zip(labels, prompts, texts, strict=True):
            line[: int((line != IGNORED).sum()) - self._length(text) + self._length(prompt)] = IGNORED
        batch["labels"] = labels
        return batch

    def _prompt(self, row: dict[str, Any]) -> Any:
        parts = [*({"type": "image"} for _ in row["images"]), {"type": "text", "text": row["question"]}]
        return self._processor.apply_chat_template([{"role": "user", "content": parts}], add_generation_prompt=True)

    def _length(self, text: str) -> int:
        return len(self._processor.tokenizer(text)["input_ids"])


def forgetful() -> Any:
    """Returns the bundled model with a frozen vision encoder and a noisy language model: its answers are chance."""
    torch.manual_seed(0)
    model = tf.InternVLForConditionalGeneration.from_pretrained(
        CHECKPOINT, dtype=torch.float32, attn_implementation="eager"
    )
    inner = model.model
    for weight in chain(inner.vision_tower.parameters(), model.get_input_embeddings().parameters()):
        weight.requires_grad_(False)
    with torch.no_grad():
        for weight in inner.language_model.layers.parameters():
            if weight.ndim > 1:
                weight.add_(torch.randn_like(weight) * weight.std() * NOISE)
    return model


@click.command()
@click.argument("work", type=click.Path(file_okay=False, path_type=Path))
@click.option("--steps", default=40, show_default=True)
@click.option("--save-every", default=2, show_default=True, help="Steps between two checkpoints.")
@click.option("--batch", default=10, show_default=True, help="Questions in a batch.")
@click.option("--rate", default=3e-4, show_default=True, help="Highest learning rate.")
@click.option("--suite", type=click.Path(exists=True, path_type=Path), help="Evaluate each checkpoint by it.")
@click.option("--run", type=click.Path(path_type=Path), help="The suite's folder.")
def main(
    work: Path, steps: int, save_every: int, batch: int, rate: float, suite: Path | None, run: Path | None
) -> None:
    """Train the demo model again, in WORK."""
    callbacks = []
    if suite is not None:
        from lyncean_trainer import EvaluateCheckpoints

        callbacks.append(EvaluateCheckpoints(suite, run))
    torch.set_num_threads(1)
    processor = tf.AutoProcessor.from_pretrained(CHECKPOINT)
    arguments = tf.TrainingArguments(
        str(work), max_steps=steps, save_steps=save_every, logging_steps=save_every, learning_rate=rate, seed=0,
        per_device_train_batch_size=batch, lr_scheduler_type="cosine", warmup_steps=min(4, steps // 5),
        report_to="none", remove_unused_columns=False, use_cpu=True, dataloader_pin_memory=False,
    )  # fmt: skip
    trainer = tf.Trainer(
        forgetful(), arguments, data_collator=Collate(processor), processing_class=processor, callbacks=callbacks,
        train_dataset=Questions(steps * batch, 31),
    )  # fmt: skip
    trainer.train(resume_from_checkpoint=any(work.glob("checkpoint-*")))


if __name__ == "__main__":
    main()
