"""ReForm-Eval's 61 datasets as a table (arXiv 2310.02569): what distinguishes one from another, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

HUB = "Aweminus/ReForm-Eval-Data"
SINGLE_CHOICE, OCR, KIE, GENERATION = "SingleChoice", "OCROpenEnded", "KIEOpenEnded", "Generation"

DIMENSIONS = {
    "cg": "coarse-grained perception",
    "fg": "fine-grained perception",
    "stp": "scene text perception",
    "vgr": "visually grounded reasoning",
    "spatial": "spatial understanding",
    "dialog": "multi-turn dialogue",
    "cmi": "cross-modal inference",
    "desc": "visual description",
}
PERCEPTION = ("cg", "fg", "stp")


@dataclass(frozen=True, slots=True)
class Boxes:
    """How a record's boxes are shown.

    Attributes:
        corners: Whether a box is [x1, y1, x2, y2]; else it is [x, y, width, height].
        several: Whether the field holds a list of boxes.
        width: Width of the outline in pixels; 0 cuts the box out instead of drawing it.
    """

    corners: bool
    several: bool
    width: int


@dataclass(frozen=True, slots=True)
class Dataset:
    """One of the 61.

    Attributes:
        label: Its name in the paper's tables.
        dimension: A key of `DIMENSIONS`.
        dataset_name: The reference's `--dataset_name`.
        config: The reference's `--dataset_config` without folder and suffix; unique.
        formulations: The formulations it has, the one of the paper first.
        family: A key of `orchestrator.benchmarks.reform.families.FAMILIES`.
        instructions: A key of `orchestrator.benchmarks.reform.instructions.OWN`; "" where the data file holds them.
        context: A key of `orchestrator.benchmarks.reform.prompts.CONTEXTS`; "" where there is no in-context turn.
        file: Where its data lies below `huggingface_data/`.
        source: File of the reference, below `build/`, that holds its instructions.
        kind: What tells datasets of one file apart: TDIUC's question type.
        boxes: How boxes are shown, None where there are none.
        max_new_tokens: The published bound on an answer.
        index_as_text: Whether the reference's records hold the answer's index as a string.
    """

    label: str
    dimension: str
    dataset_name: str
    config: str
    formulations: tuple[str, ...]
    family: str
    instructions: str
    context: str
    file: str
    source: str
    kind: str = ""
    boxes: Boxes | None = None
    max_new_tokens: int = 30
    index_as_text: bool = True

    @property
    def name(self) -> str:
        """Its label in lower snake case."""
        return re.sub(r"[^a-z0-9]+", "_", self.label.lower())

    @property
    def task(self) -> str:
        """Its task."""
        return f"reform_{self.name}"


_CLASSIFIERS = (
    ("Flowers102", "Flowers102", "ImageClassification_flowers102_val", "flower102_val_1p", "flowers102", "V1"),
    ("CIFAR10", "CIFAR10", "ImageClassification_cifar10_val", "cifar10_test_10p", "cifar10", "V1"),
    ("ImageNet-1K", "ImageNet1K", "ImageClassification_imagenet1k_val", "imagenet1k_val_10p", "imagenet1k", "V1"),
    ("Pets37", "Pets37", "ImageClassification_pets37_val", "pets37_test_10p", "pets37", "V1n"),
)
_QUALITY = (
    ("VizWiz-yesno", "ImageQuality_vizwiz_yesNo_val", "vizwiz_yesno_val_10p"),
    ("VizWiz-singleChoice", "ImageQuality_vizwiz_singleChoice_val", "vizwiz_singleChoice_val_10p"),
)
_TDIUC = (
    ("Sport", "cg", "sport", "sport_recognition"),
    ("Scene", "cg", "scene", "scene_recognition"),
    ("Color", "fg", "color", "color"),
    ("Utility", "fg", "utility", "utility_affordance"),
    ("Position", "fg", "position", "positional_reasoning"),
    ("Detection", "fg", "detection", "object_recognition"),
    ("Counting", "fg", "counting", "counting"),
)
_OBJECTS = (
    ("MSCOCO-MCI", "MulticlassIdentification_val", "mci", "multiclass_identification", None),
    ("MSCOCO-GOI", "GroundedObjIdentification_val", "goi", "grounded_object_identification", Boxes(False, False, 3)),
    ("MSCOCO-MOS", "MissingObjectSelection_val", "mos", "missing_object_selection", Boxes(False, True, 3)),
)
_VQA = (
    ("VQA v2", "VQA_vqa_v2_val", "VQA_v2/vqa_val_10p"),
    ("GQA", "VQA_gqa_val_v2.0", "GQA/gqa_testdev_10p"),
    ("Whoops", "VQA_whoops_val", "Whoops/whoops_all_10p"),
    ("OK-VQA", "VQA_okvqa_val", "OK-VQA/okvqa_val_10p"),
    ("ScienceQA", "VQA_scienceqa_val_v2.0", "ScienceQA/scienceqa_test_10p"),
    ("VizWiz", "VQA_vizwiz_val_v2.0", "VizWiz/vizwiz_val_10p"),
    ("ViQuAE", "VQA_viquae_val", "ViQuAE/viquae_test_10p"),
    ("A-OKVQA", "VQA_aokvqa_val", "A-OKVQA/aokvqa_val_10p"),
    ("ImageNetVC", "VQA_imagenetvc_val", "ImageNetVC/imagenetvc_all_10p"),
)
_SPATIAL = (
    ("CLEVR", "clevr", "clevr", ""),
    ("VSR", "vsr", "vsr", "dialogue"),
    ("MP3D", "mp3d", "wordings", "dialogue"),
)
_WORDS = (
    ("Grounded IC15", "IC15", "GroundOCR_ic15_val", "IC15/ic15_gocr", "IC15/groundocr", Boxes(True, False, 2)),
    ("IC15", "IC15", "OCR_ic15_val", "IC15/ic15", "IC15/ocr", None),
    (
        "Grounded COCO-Text",
        "COCO_text",
        "GroundOCR_cocotext_val",
        "COCO_Text/cocotext_gocr",
        "COCO_text/groundocr",
        Boxes(False, False, 5),
    ),
    ("COCO-Text", "COCO_text", "OCR_cocotext_val", "COCO_Text/cocotext", "COCO_text/ocr", None),
    (
        "Grounded TextOCR",
        "TextOCR",
        "GroundOCR_textocr_val",
        "TextOCR/textocr_gocr",
        "textOCR/groundocr",
        Boxes(False, False, 2),
    ),
    ("TextOCR", "TextOCR", "OCR_textocr_val", "TextOCR/textocr", "textOCR/ocr", Boxes(False, False, 0)),
    ("CUTE80", "CUTE80", "OCR_cute80_val", "CUTE80/cute80", "CUTE80/ocr", None),
    ("IIIT5K", "IIIT5K", "OCR_iiit5k_val", "IIIT5K/iiit5k", "IIIT5K/ocr", None),
    ("WordArt", "WordArt", "OCR_wordart_val", "WordArt/wordart", "WordArt/ocr", None),
)
_TEXT_QUESTIONS = (
    ("TextVQA", "textvqa", "TextVQA/textvqa_val_10p"),
    ("DocVQA", "docvqa", "DocVQA/docvqa_val_10p"),
    ("OCR-VQA", "ocrvqa", "OCR-VQA/ocrvqa_test_10p"),
)
_CAPTIONS = (
    ("MSCOCO", "captions", 12),
    ("TextCaps", "text_captions", 15),
    ("NoCaps", "captions", 14),
    ("Flickr30K", "captions", 16),
)
_CHOICE = (SINGLE_CHOICE,)


def _datasets() -> list[Dataset]:
    return [
        *(
            Dataset(
                label, "cg", label, config, _CHOICE, "classification", "classes", context,
                f"{label}/{file}.json", f"{folder}/{stem}_dataset.py", index_as_text=False,
            )
            for label, folder, config, file, stem, context in _CLASSIFIERS
        ),
        *(
            Dataset(
                label, "cg", "VizWiz", config, _CHOICE, "classification", "classes", "V1",
                f"VizWiz/{file}.json", "VizWiz/vizwiz_dataset.py", index_as_text=False,
            )
            for label, config, file in _QUALITY
        ),
        *(
            Dataset(
                f"TDIUC-{label}", dimension, "TDIUC", f"TDIUC_{config}", _CHOICE, "tdiuc", "classes", "V1n",
                "TDIUC/TDIUC_val_ques.json", "TDIUC/tdiuc_dataset.py", kind=kind, index_as_text=False,
            )
            for label, dimension, config, kind in _TDIUC
        ),
        Dataset(
            "MEDIC", "cg", "MEDIC", "DisasterType_val", _CHOICE, "medic", "disaster", "V2-7",
            "MEDIC/disaster-type-selection-sampled.json", "MEDIC/disaster_type_dataset.py",
        ),
        *(
            Dataset(
                label, "fg", "MSCOCO", config, _CHOICE, "objects", "dialogue", "V2-7",
                f"MSCOCO/{file}_core_multiple_choice.json", f"MSCOCO/{source}_dataset.py", boxes=boxes,
            )
            for label, config, file, source, boxes in _OBJECTS
        ),
        Dataset(
            "RefCOCO", "fg", "RefCOCO", "ReferringExpression_val", _CHOICE, "refcoco", "region", "V2-4b",
            "RefCOCO/referring-expression-selection-sampled.json", "RefCOCO/referring_expression_selection.py",
            boxes=Boxes(True, True, 2),
        ),
        Dataset(
            "MSCOCO-OC", "fg", "MSCOCO", "ObjectCounting_mscoco_val", _CHOICE, "counting", "classes", "V1",
            "MSCOCO/object-counting-all.json", "MSCOCO/object_counting_dataset.py", index_as_text=False,
        ),
        *(
            Dataset(
                label, "vgr", "VQA", config, _CHOICE, "vqa", "vqa", "V3", f"{file}.json", "VQA/vqa_dataset.py"
            )
            for label, config, file in _VQA
        ),
        Dataset(
            "K-ViQuAE", "vgr", "KVQA", "KVQA_viquae_val", _CHOICE, "kvqa", "context_vqa", "V4",
            "K-ViQuAE/kviquae_test_10p.json", "VQA/kvqa_dataset.py",
        ),
        Dataset(
            "A-OKVQRA", "vgr", "VQRA", "VQRA_aokvqa_val", _CHOICE, "vqra", "rationale_answer", "V5",
            "A-OKVQRA/aokvqra_val_10p.json", "AOKVQA/qra_dataset.py",
        ),
        Dataset(
            "A-OKVQAR", "vgr", "VQAR", "VQAR_aokvqa_val", _CHOICE, "vqar", "answer_rationale", "V6",
            "A-OKVQAR/aokvqar_val_10p.json", "AOKVQA/qar_dataset.py",
        ),
        *(
            Dataset(
                label, "spatial", label, f"Spatial_{file}_val", _CHOICE, family, instructions, "V2-7",
                f"{label}/{file}_core_multiple_choice.json", f"{label}/spatial_dataset.py" if instructions else "",
            )
            for label, file, family, instructions in _SPATIAL
        ),
        Dataset(
            "VQA-MT", "dialog", "VisDial", "VQA_vqa_MultiRound_val", _CHOICE, "dialog", "dialogue", "V1c",
            "VisDial/VQA_MultiTurn_v1.0.json", "VisDial/visual_dialog_dataset.py", index_as_text=False,
        ),
        Dataset(
            "VisDial", "dialog", "VisDial", "VisDial_val_v1.2", _CHOICE, "dialog", "dialogue", "V1c",
            "VisDial/Visdial_1.0_val_v1.2.json", "VisDial/visual_dialog_dataset.py", index_as_text=False,
        ),
        Dataset(
            "MSCOCO-ITM", "cmi", "MSCOCO", "ImageTextMatching_val", _CHOICE, "itm", "matching", "V2-2",
            "MSCOCO/image-text-matching-object-sampled.json", "MSCOCO/image_text_matching_dataset.py",
        ),
        Dataset(
            "MSCOCO-ITS", "cmi", "MSCOCO", "ImageTextSelection_val", _CHOICE, "its", "selection", "V2-4",
            "MSCOCO/image-text-selection-object-sampled.json", "MSCOCO/image_text_selection_dataset.py",
        ),
        Dataset(
            "WikiHow", "cmi", "WikiHow", "TemporalOrdering_val", _CHOICE, "wikihow", "step", "V2-4c",
            "WikiHow/wikihow-image-text-selection-in-method-sampled.json", "WikiHow/temporal_ordering_dataset.py",
        ),
        Dataset(
            "Winoground", "cmi", "CaptionSelection", "CaptionSelection_winoground_val", _CHOICE, "winoground",
            "description", "V7", "Winoground/winoground_all_10p.json", "Winoground/caption_selection_dataset.py",
        ),
        Dataset(
            "SNLI-VE", "cmi", "SNLI-VE", "VisualEntailment_val", _CHOICE, "snli_ve", "entailment", "V2-3",
            "SNLI_VE/visual-entailment-matching-sampled.json", "SNLI_VE/visual_entailment_dataset.py",
        ),
        Dataset(
            "MOCHEG", "cmi", "MCV", "MCV_mocheg_val", _CHOICE, "mocheg", "claim", "V8",
            "MOCHEG/mocheg_test_10p.json", "MOCHEG/mcv_dataset.py",
        ),
        *(
            Dataset(
                label, "stp", name, config, (OCR,), "words", "reading", "",
                f"{file}_core_open_ended.json", f"{source}_dataset.py", boxes=boxes,
            )
            for label, name, config, file, source, boxes in _WORDS
        ),
        *(
            Dataset(
                label, "stp", label, f"KIE_{label.lower()}_val", formulations, "key_information", "reading", "",
                f"{label}/{label.lower()}_core_open_ended.json", f"{label}/kie_dataset.py",
            )
            for label, formulations in (("FUNSD", (KIE,)), ("POIE", (OCR, KIE)), ("SROIE", (OCR, KIE)))
        ),
        *(
            Dataset(
                label, "stp", "OCR", f"OCR_{file}_val", (OCR,), "text_questions", "vqa_open", "",
                f"{path}.json", "OCR/ocr_dataset.py",
            )
            for label, file, path in _TEXT_QUESTIONS
        ),
        *(
            Dataset(
                label, "desc", label, f"Caption_{label}_val", (GENERATION,), "captions", instructions, "",
                f"{label}/captions-sampled.json", f"{label}/caption_dataset.py", max_new_tokens=tokens,
            )
            for label, instructions, tokens in _CAPTIONS
        ),
    ]  # fmt: skip


DATASETS: Mapping[str, Dataset] = {dataset.task: dataset for dataset in _datasets()}
"""Task -> dataset, by dimension roughly as the reference lists them."""

BY_CONFIG: Mapping[str, Dataset] = {dataset.config: dataset for dataset in DATASETS.values()}
"""The reference's configuration (without folder and suffix) -> dataset."""


def groups() -> dict[str, tuple[str, ...]]:
    """Returns the task groups: all, each dimension, perception and cognition, and those with core files."""
    made = {f"reform_{key}": tuple(t for t, d in DATASETS.items() if d.dimension == key) for key in DIMENSIONS}
    perception = tuple(task for task, dataset in DATASETS.items() if dataset.dimension in PERCEPTION)
    return {
        "reform": tuple(DATASETS),
        **made,
        "reform_perception": perception,
        "reform_cognition": tuple(task for task in DATASETS if task not in perception),
        "reform_core": tuple(task for task, dataset in DATASETS.items() if "_core_" in dataset.file),
    }
