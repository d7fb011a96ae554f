"""ReForm-Eval's files in the hub's layout, made of drawn records."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

from orchestrator.benchmarks.reform.datasets import DATASETS, Dataset
from orchestrator.benchmarks.reform.families import FAMILIES
from orchestrator.benchmarks.reform.synthetic import COUNTS, Record, records, shared


def write_folder(folder: Path, count: int, seed: int = 0, tasks: Iterable[str] = DATASETS) -> None:
    """Writes files of the hub's layout, `folder/huggingface_data/...`, with so many records a dataset."""
    questions: list[Record] = []
    annotations: list[Record] = []
    for task in tasks:
        dataset = DATASETS[task]
        drawn = list(islice(records(dataset, seed), count))
        if dataset.family == "tdiuc":
            for record in drawn:
                record["question_id"] += 1000 * (1 + len(annotations))
                answers, source = record.pop("answers"), record.pop("ans_source")
                questions.append(record)
                annotations.append(
                    {
                        "question_id": record["question_id"],
                        "image_id": record["image_id"],
                        "question_type": dataset.kind,
                        "answers": answers,
                        "ans_source": source,
                    }
                )
            _write(folder, f"TDIUC/choice_list/{dataset.kind}.json", {"choice": list(shared(dataset)["choice"])})
            continue
        if dataset.family == "counting":
            _write(folder, "MSCOCO/objectCounting_answer_list/answer_list.json", {"choice": list(COUNTS)})
        _write(folder, dataset.file, _file(dataset, drawn))
    if questions:
        _write(folder, "TDIUC/TDIUC_val_ques.json", questions[::-1])
        _write(folder, "TDIUC/TDIUC_val_anns.json", annotations)


def _file(dataset: Dataset, drawn: list[Record]) -> Any:
    family = FAMILIES[dataset.family]
    if family.array:
        return drawn
    usual = {"version": "2.0", "split": "val", "dataset_name": dataset.label.lower()}
    header = {name: value or usual[name] for name, value in family.header.items()}
    held = {name: list(values) for name, values in shared(dataset).items()}
    if dataset.family == "dialog":
        return {**header, "data": {**held, "dialogs": drawn}}
    return {**header, **held, "data": drawn}


def _write(folder: Path, name: str, content: Any) -> None:
    file = folder / "huggingface_data" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(orjson.dumps(content))


BUILDER = """
class Made:
    def __init__(self, args):
        if args.kind == 'single_choice' and args.infer_method == 'generation':
            self.instruction_list = ['g0', 'g1', 'g2', 'g3', 'g4', 'g5']
        elif args.kind == 'vqa' or (args.kind == 'single_choice' and args.infer_method == 'likelihood'):
            self.instruction_list = [
                'l0', "l1", 'l' '2', 'l3', 'l4',
            ]
        self.instruction_list4absurd = ['no', 'no']

    def __getitem__(self, index):
        if self.args.infer_method == 'likelihood' and self.args.more:
            sample['instruct'] = sample['instruct'] + ' Say so.'
        if self.args.infer_method == 'generation':
            sample['question'] = 'fixed?'
        sample['question'] = self.samples[0]['question']
"""
