"""Instruction texts: our own five for each family, or those of a file.

The reference's texts are not ours to ship: `orchestrator import reform-instructions` reads them out of a user's
checkout of it and writes the file that `--set instructions=FILE` takes.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.benchmarks.reform.datasets import DATASETS, Dataset
from orchestrator.data.rows import DataError

FORMAT = "lyncean reform instructions 1"
METHODS = ("generation", "likelihood")

Texts = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Wording:
    """What a dataset's instructions say.

    Attributes:
        generation: Five texts for generation; test k or row k takes the k-th, modulo 5.
        likelihood: Five for likelihood: the same without talk of options.
        suffix: What is added behind an instruction, by method.
        question: A question that replaces the record's, by method.
    """

    generation: Texts
    likelihood: Texts
    suffix: Mapping[str, str] = field(default_factory=dict)
    question: Mapping[str, str] = field(default_factory=dict)

    def texts(self, method: str) -> Texts:
        """Returns the five texts of a method."""
        return self.likelihood if method == "likelihood" else self.generation


_OPEN = (
    "Look at the image and answer the question.",
    "Answer the question from what the image shows.",
    "Study the image, then reply to the question.",
    "Use the image to find the answer to the question.",
    "Give the answer that the image supports.",
)
_VQA = (
    "Look at the image and choose the option that answers the question.",
    "Pick the right option for the question from what the image shows.",
    "Study the image and the question, then name the correct option.",
    "Use the image to decide which option answers the question.",
    "Choose the option that the image supports.",
)

_CAPTIONS = (
    "Describe the image in one short sentence.",
    "Write a one-sentence caption for the image.",
    "Say in a sentence what the image shows.",
    "Sum up the image in a single sentence.",
    "Give a brief caption of what can be seen.",
)
_TEXT_CAPTIONS = (
    "Describe the image in one short sentence, including the text in it.",
    "Write a one-sentence caption that mentions what is written in the image.",
    "Say in a sentence what the image shows and what its text says.",
    "Sum up the image and the words in it in a single sentence.",
    "Give a brief caption that makes use of the text in the image.",
)

OWN: Mapping[str, Wording] = {
    "classes": Wording(
        (
            "Look at the image and reply with the mark of the correct option in brackets, such as (A).",
            "Answer the question about the image by choosing one of the options.",
            "Which option fits the image? Reply with its mark in brackets.",
            "Choose the option that answers the question about the image.",
            "Decide from the image which option is correct and give its mark, such as (A).",
        ),
        _OPEN,
    ),
    "disaster": Wording(
        (
            "Which disaster does the image show? Choose one of the options.",
            "Name the disaster in the image by picking an option.",
            "Select the option that says what disaster is seen in the image.",
            "What kind of disaster can be told from the image? Reply with an option.",
            "Choose the disaster that took place in the image from the options.",
        ),
        (
            "Which disaster does the image show?",
            "Name the disaster in the image.",
            "Say what disaster is seen in the image.",
            "What kind of disaster can be told from the image?",
            "State the disaster that took place in the image.",
        ),
    ),
    "dialogue": Wording(
        (
            "Answer each question about the image with one of its options, minding what was said before.",
            "Choose the right options, using the image and the conversation so far.",
            "Look at the image and the earlier turns to decide which option is correct.",
            "Reply with an option to the questions about this image.",
            "Use the image and the dialogue to pick the correct options.",
        ),
        (
            "Answer each question about the image, minding what was said before.",
            "Reply to the questions, using the image and the conversation so far.",
            "Look at the image and the earlier turns to find the answers.",
            "Reply to the questions about this image.",
            "Use the image and the dialogue to answer.",
        ),
    ),
    "reading": Wording(_OPEN, _OPEN),
    "region": Wording(
        (
            "Which option describes what is inside the red box in the image?",
            "Choose the text that fits the region in the red box.",
            "Select the option that matches the part of the image outlined in red.",
            "Look at the red box in the image and pick the text that belongs to it.",
            "Which of the options names what the red box encloses?",
        ),
        (
            "What describes what is inside the red box in the image?",
            "Give a text that fits the region in the red box.",
            "Describe the part of the image outlined in red.",
            "Look at the red box in the image and say what belongs to it.",
            "What does the red box enclose?",
        ),
    ),
    "vqa": Wording(_VQA, _OPEN),
    "vqa_open": Wording(_OPEN, _OPEN),
    "context_vqa": Wording(
        (
            "Choose the option that answers the question, given the image and the context.",
            "Read the context, look at the image and pick the correct option.",
            "Use both the image and the context to decide which option is right.",
            "From the image and its context, select the answer among the options.",
            "Pick the option that image and context support.",
        ),
        (
            "Answer the question, given the image and the context.",
            "Read the context, look at the image and answer.",
            "Use both the image and the context to find the answer.",
            "From the image and its context, work out the answer.",
            "Give the answer that image and context support.",
        ),
    ),
    "rationale_answer": Wording(
        (
            "Choose the option that answers the question, given the image and the rationale.",
            "Follow the rationale, look at the image and pick the correct option.",
            "Use both the image and the rationale to decide which option is right.",
            "From the image and the reasons given, select the answer among the options.",
            "Pick the option that image and rationale support.",
        ),
        (
            "Answer the question, given the image and the rationale.",
            "Follow the rationale, look at the image and answer.",
            "Use both the image and the rationale to find the answer.",
            "From the image and the reasons given, work out the answer.",
            "Give the answer that image and rationale support.",
        ),
    ),
    "answer_rationale": Wording(
        (
            "Choose the option that explains why the answer to the question is right.",
            "Pick the reason that leads from the image to the answer.",
            "Which option justifies the answer, given the image?",
            "Select the rationale behind the answer.",
            "Look at the image and choose the option that supports the answer.",
        ),
        (
            "Explain why the answer to the question is right.",
            "Give the reason that leads from the image to the answer.",
            "What justifies the answer, given the image?",
            "State the rationale behind the answer.",
            "Look at the image and say what supports the answer.",
        ),
    ),
    "matching": Wording(
        (
            "Is '{}' a caption of this image? Choose one of the options.",
            "Does the caption '{}' say what the image shows? Pick an option.",
            "Do the image and the text '{}' belong together? Reply with an option.",
            "Could '{}' be said of this image? Select one of the options.",
            "Is the image described by '{}'? Answer with an option.",
        ),
        (
            "Is '{}' a caption of this image?",
            "Does the caption '{}' say what the image shows?",
            "Do the image and the text '{}' belong together?",
            "Could '{}' be said of this image?",
            "Is the image described by '{}'?",
        ),
    ),
    "selection": Wording(
        (
            "Which of the options is the caption of this image?",
            "Choose the text that says what the image shows.",
            "Select the option that belongs to the image.",
            "Pick the caption that fits the image best.",
            "Which option describes the image?",
        ),
        (
            "What is the caption of this image?",
            "Give a text that says what the image shows.",
            "State what belongs to the image as its caption.",
            "Give the caption that fits the image best.",
            "What describes the image?",
        ),
    ),
    "step": Wording(
        (
            "The image shows one step of the task '{}'. Choose the text of that step.",
            "Which option names the step of '{}' that is seen in the image?",
            "Doing '{}' takes several steps; select the one in the image.",
            "Pick the option that says what is done in the image as part of '{}'.",
            "For '{}', which of the options belongs to the step in the image?",
        ),
        (
            "The image shows one step of the task '{}'. Give the text of that step.",
            "Which step of '{}' is seen in the image?",
            "Doing '{}' takes several steps; name the one in the image.",
            "Say what is done in the image as part of '{}'.",
            "For '{}', what is the step in the image?",
        ),
    ),
    "description": Wording(
        _VQA,
        _OPEN,
        question={
            "generation": "Which description fits this image?",
            "likelihood": "Write one sentence that describes this image.",
        },
    ),
    "entailment": Wording(
        (
            "Does the image show that '{}'? Choose one of the options.",
            "Can '{}' be concluded from the image? Pick an option.",
            "Given the image, is it true that '{}'? Reply with an option.",
            "Does '{}' follow from what is seen in the image? Select one of the options.",
            "Judging by the image, does '{}' hold? Answer with an option.",
        ),
        (
            "Does the image show that '{}'? Say yes, not sure or no.",
            "Can '{}' be concluded from the image? Say yes, not sure or no.",
            "Given the image, is it true that '{}'? Say yes, not sure or no.",
            "Does '{}' follow from what is seen in the image? Say yes, not sure or no.",
            "Judging by the image, does '{}' hold? Say yes, not sure or no.",
        ),
    ),
    "claim": Wording(
        (
            "Judge the claim by the image and the text, and choose an option.",
            "Which option says how the evidence in image and text bears on the claim?",
            "Check the claim against both pieces of evidence and pick the correct option.",
            "Use the image and the text to decide which option is right about the claim.",
            "Select the option that the evidence supports.",
        ),
        (
            "Judge the claim by the image and the text.",
            "Say how the evidence in image and text bears on the claim.",
            "Check the claim against both pieces of evidence.",
            "Use the image and the text to decide about the claim.",
            "State what the evidence says about the claim.",
        ),
        suffix={"likelihood": " Say supported, refuted or not enough information."},
    ),
    "captions": Wording(_CAPTIONS, _CAPTIONS),
    "text_captions": Wording(_TEXT_CAPTIONS, _TEXT_CAPTIONS),
}
"""Our own texts, by family; `{}` is the record's caption, hypothesis or task."""


def wording(dataset: Dataset, file: str = "") -> Wording:
    """Returns a dataset's wording, from a file where one is given and has it.

    Raises:
        DataError: The file cannot be read or is malformed.
    """
    found = _loaded(file).get(dataset.name) if file else None
    if found:
        return found
    return OWN[dataset.instructions] if dataset.instructions else Wording((), ())


@functools.lru_cache(maxsize=8)
def _loaded(file: str) -> Mapping[str, Wording]:
    try:
        found = json.loads(Path(file).expanduser().read_text("utf-8"))
    except OSError as error:
        raise DataError(f"instructions {file} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"instructions {file} are no JSON: {error}") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise DataError(f"{file} is no file of instructions; make one with `orchestrator import reform-instructions`")
    known = {dataset.name for dataset in DATASETS.values()}
    unknown = sorted(set(found.get("datasets", {})) - known)
    if unknown:
        raise DataError(f"{file}: there is no dataset {', '.join(unknown)}")
    return {name: _checked(file, name, entry) for name, entry in found.get("datasets", {}).items()}


def _checked(file: str, name: str, entry: Any) -> Wording:
    lists: list[Any] = [entry.get(method) for method in METHODS] if isinstance(entry, dict) else []
    if not all(isinstance(texts, list) and texts and all(isinstance(text, str) for text in texts) for texts in lists):
        raise DataError(f"{file}: {name} needs a list of texts for generation and one for likelihood")
    return Wording(tuple(lists[0]), tuple(lists[1]), entry.get("suffix", {}), entry.get("question", {}))
