"""The reference's data loader, for code that was written for it: the same arguments, the same dicts.

    from orchestrator.benchmarks.reform.loader import load_reform_dataset, loader_eval

Everything random is drawn from a seed, and right answers stay right when options are shuffled; otherwise a sample is
what the reference's loader hands out.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from PIL import Image

from lyncean.media.pictures import open_image
from orchestrator.benchmarks.reform import dialogs, files
from orchestrator.benchmarks.reform.datasets import (
    BY_CONFIG,
    DATASETS,
    GENERATION,
    HUB,
    METHODS,
    SINGLE_CHOICE,
    Dataset,
)
from orchestrator.benchmarks.reform.families import FAMILIES
from orchestrator.benchmarks.reform.images import shown
from orchestrator.benchmarks.reform.instructions import wording
from orchestrator.benchmarks.reform.prompts import marks_of, with_options
from orchestrator.benchmarks.reform.questions import Question, question_of
from orchestrator.benchmarks.reform.settings import ReformSettings, Switches
from orchestrator.data.images import row_image
from orchestrator.data.rows import DataError, Row, RowSource
from orchestrator.samples import BadRowError, Variant

Processor = Callable[[Mapping[str, Any]], Any]


def load_reform_dataset(
    dataset_name: str,
    formulation: str,
    dataset_config: str | Mapping[str, Any] | None = None,
    inference_method: str = "generation",
    in_context_sample: bool = True,
    random_instruct: bool = True,
    data_duplication: int = 5,
    shuffle_options: bool = True,
    load_from_hf: bool = True,
    preprocessor: Processor | None = None,
    option_mark: str | None = None,
    offline_from_hf: bool = False,
    *,
    data: str | None = None,
    instructions: str = "",
    capitalize: bool = True,
    seed: int = 0,
) -> ReformDataset:
    """Returns a dataset whose items are the reference's dicts.

    Args:
        dataset_name: The reference's name, for example "VQA"; or a task, for example "reform_vqa_v2".
        formulation: SingleChoice, Generation, OCROpenEnded or KIEOpenEnded.
        dataset_config: Path of the reference's configuration (its name decides; the file is not read), or a dict
            that has it under "config". Needed where a name stands for several datasets.
        inference_method: "generation" or "likelihood".
        in_context_sample: Whether to include the in-context example.
        random_instruct: Whether test k of a sample gets instruction k; else instructions cycle over the samples.
        data_duplication: Tests of each sample: 1 or a multiple of 5.
        shuffle_options: Whether options are permuted, anew for each test.
        load_from_hf: Whether to read from the hub.
        preprocessor: Renders the prompt into "text": one of `layouts` or the reference's own.
        option_mark: "number", "upper", "lower" or "random"; None means random.
        offline_from_hf: Whether to read `ReForm-Eval-Data` in the working directory; the hub wins where both are on.
        data: A folder or hub id of our own choice; beats the two switches.
        instructions: A file of instruction texts; our own texts otherwise.
        capitalize: Whether questions and answers of dialogues are capitalized.
        seed: Everything that is drawn depends on it.

    Raises:
        ValueError: An argument makes no sense.
        DataError: The data cannot be used.
    """
    if inference_method not in METHODS:
        raise ValueError(f"inference_method is {inference_method!r}: give generation or likelihood")
    if data_duplication < 1 or (data_duplication > 1 and data_duplication % 5):
        raise ValueError(f"data_duplication is {data_duplication}: give 1 or a multiple of 5, the instructions' number")
    dataset = find(dataset_name, formulation, dataset_config)
    if formulation not in dataset.formulations:
        raise ValueError(f"{dataset.label} has no formulation {formulation}: {' or '.join(dataset.formulations)}")
    if data is None:
        data = HUB if load_from_hf else "ReForm-Eval-Data" if offline_from_hf else None
        if data is None:
            raise ValueError("give load_from_hf, offline_from_hf or data: single image files are not read")
    likelihood = inference_method == "likelihood"
    prefix = getattr(preprocessor, "response_prefix", None)
    if dataset.family == "captions" and prefix is not None:
        # The reference takes the caller's own processor its prefix for good; ours is a copy.
        plain: Any = copy.copy(preprocessor)
        plain.response_prefix = None
        preprocessor, prefix = plain, None
    switches = Switches(
        option_mark=option_mark or "random",
        in_context=in_context_sample,
        random_instruct=random_instruct,
        shuffle=shuffle_options,
        capitalize=capitalize,
        options_in_history=not likelihood,
        likelihood=likelihood,
        repeats=data_duplication,
        prefix=None if likelihood else prefix,
    )
    set_mark = getattr(preprocessor, "set_mark", None)
    if set_mark is not None:
        set_mark(option_mark)
    variant = Variant(
        dataset.task,
        "likelihood" if likelihood else "generate",
        seed,
        repeats=data_duplication,
        shuffle_options=shuffle_options,
        parity=True,
        settings=ReformSettings(instructions=instructions),
    )
    return ReformDataset(dataset, files.open_reform(dataset.task, data), switches, variant, preprocessor)


def find(name: str, formulation: str, config: str | Mapping[str, Any] | None) -> Dataset:
    """Returns the dataset that the reference's arguments mean.

    Raises:
        ValueError: They mean none, or several.
    """
    if config is not None:
        word = str(config.get("config", "")) if isinstance(config, Mapping) else str(config)
        stem = Path(word).name.removesuffix(".yaml")
        if stem not in BY_CONFIG:
            raise ValueError(f"there is no dataset with configuration {stem!r}")
        return BY_CONFIG[stem]
    if name in DATASETS:
        return DATASETS[name]
    found = [d for d in DATASETS.values() if d.dataset_name == name and formulation in d.formulations]
    if len(found) != 1:
        configs = ", ".join(dataset.config for dataset in found)
        raise ValueError(
            f"{name} stands for several: give dataset_config, one of {configs}" if found else f"there is no {name}"
        )
    return found[0]


class ReformDataset(Sequence[dict[str, Any]]):
    """Tests as the reference's dicts: item i is test i % D of sample i // D.

    All records are held; images are decoded when an item is taken. A dialogue has the true history until
    `update_history` gets the model's answers, as in the reference's online mode.
    """

    def __init__(
        self,
        dataset: Dataset,
        source: RowSource,
        switches: Switches,
        variant: Variant,
        preprocessor: Processor | None,
    ) -> None:
        self.dataset = dataset
        self.switches = switches
        self.duplication = switches.repeats
        self.proc = preprocessor
        self._variant = variant
        self._predictions: dict[str, list[str]] = {}
        self._samples: list[tuple[Row, dialogs.Dialog | None, int]] = []
        for row in source:
            if dataset.family == "dialog":
                dialog = dialogs.dialog_of(row, capitalize=switches.capitalize)
                self._samples += [(row, dialog, at) for at in range(len(dialog.rounds))]
            else:
                self._samples.append((row, None, 0))

    def __len__(self) -> int:
        return len(self._samples) * self.duplication

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        """Returns one test's dict, or a list of them for a slice.

        Raises:
            IndexError: There is no such test.
            DataError: Its record cannot be used.
        """
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        index %= len(self)
        number, test = divmod(index, self.duplication)
        variant = replace(self._variant, repeat=test)
        row, dialog, at = self._samples[number]
        question = self._question(row, dialog, at, number, variant)
        try:
            encoded = shown(row_image(row), self.dataset.boxes, question.extras.get("bbox"))
            with open_image(encoded) as file:
                image = file.convert("RGB")
        except (BadRowError, OSError) as error:
            raise DataError(f"sample {question.sample_id}: {error}") from error
        return self._record(question, image, variant)

    def _question(self, row: Row, dialog: dialogs.Dialog | None, at: int, number: int, variant: Variant) -> Question:
        if dialog is None:
            item = FAMILIES[self.dataset.family].read(row.fields, row[files.NUMBER], self.dataset)
        else:
            item = dialog.item(at)
        texts = wording(self.dataset, self._variant.settings.instructions, row)
        question = question_of(item, str(item.sample_id), number, self.dataset, texts, self.switches, variant)
        if dialog is None:
            return question
        earlier = [self._predictions.get(f"{dialog.image_id}_{number}") for number in range(at)]
        turns = dialogs.history(dialog, earlier, self.switches, variant)
        return replace(question, history=(*question.history, *turns))

    def _record(self, question: Question, image: Image.Image, variant: Variant) -> dict[str, Any]:
        made: dict[str, Any] = {"sample_id": question.sample_id, "image": image, **question.extras, **question.record()}
        if question.options:
            # What else a sample has is the reference's: an index, in decimal where its builder makes it text.
            made["answer"] = str(question.right) if self.dataset.index_as_text else question.right
        elif self.dataset.formulations[0] == GENERATION:
            made["references"] = list(question.targets)
        else:
            made["answer"] = question.targets[0] if len(question.targets) == 1 else list(question.targets)
        if self.dataset.family == "dialog":
            made.setdefault("history", [])
        if question.options:
            rng = variant.rng(f"{question.sample_id}", "marks of question_with_option")
            marks = marks_of(self.switches.option_mark, rng)
            made["question_with_option"] = with_options(question.text, question.options, marks)
        if self.proc is not None:
            made["text"] = self.proc(made)
        return made

    def update_history(self, history_infos: Sequence[Sequence[tuple[str, str]]]) -> bool:
        """Takes the model's answers: batches of (sample id, option text or raw words)."""
        for batch in history_infos:
            for sample_id, prediction in batch:
                self._predictions.setdefault(sample_id, []).append(prediction)
        return True


def loader_eval(
    formulation: str,
    infer_method: str,
    multi_round_eval: bool = False,
    eval_stability: bool = False,
    prediction_file: str = "",
) -> dict[str, float | None]:
    """Scores a prediction file as the reference's script of this name does, and returns its metrics by name.

    A scorer is started for it and stopped; `orchestrator import reform` does the same and keeps a run folder.

    Raises:
        ValueError: Stability or rounds are asked of another formulation than SingleChoice.
        DataError: The file cannot be used.
    """
    import asyncio
    import tempfile

    from orchestrator.run.import_reform import import_predictions

    if formulation != SINGLE_CHOICE and (multi_round_eval or eval_stability):
        raise ValueError(f"multi_round_eval and eval_stability need formulation {SINGLE_CHOICE}")
    with tempfile.TemporaryDirectory() as folder:
        work = import_predictions(
            Path(prediction_file),
            Path(folder) / "run",
            formulation,
            infer_method,
            stability=eval_stability,
            rounds=multi_round_eval,
        )
        results = asyncio.run(work)
    return {metric["name"]: metric["value"] for task in results["tasks"].values() for metric in task["metrics"]}
