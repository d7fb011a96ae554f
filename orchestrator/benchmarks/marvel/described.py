"""MARVEL's AVR question with a text description of every panel (the paper's perception-free setting).

The paper's descriptions, 95 puzzles, are not published, so they come from a file of the user's:
one JSONL, JSON or CSV row a puzzle with `id` and `description`, a text or a list of one text for
each panel, the context's first, then the four choices'. Puzzles without one are not asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lyncean.model.v1 import model_pb2 as model
from lyncean.scorer.v1 import scorer_pb2 as scorer
from orchestrator.benchmarks.base import OUTPUT_TOKENS, Benchmark, check_parity, setting
from orchestrator.benchmarks.marvel import benchmark as marvel, texts
from orchestrator.data.rows import DataError, Row
from orchestrator.errors import ConfigError
from orchestrator.samples import Call, Sample, Variant, image_part, metric, single, text_part, user

COLUMN = "description"
"""Column of the user's file, or of the data itself where they hold one."""


@dataclass(frozen=True, slots=True)
class DescribedSettings:
    """Settings for `--set`."""

    descriptions: str = setting("", "file with columns id and description")
    image: bool = setting(True, "show the puzzle's image beside its description")
    baseline: bool = setting(False, "ask each puzzle without its description as well")
    letters: bool = setting(False, "name the choices A to D")
    max_output_tokens: int = setting(512, "bound on an answer's tokens", OUTPUT_TOKENS)
    descriptions_sha256: str = setting("", "set by itself: hash of the file")

    def __post_init__(self) -> None:
        object.__setattr__(self, "descriptions_sha256", texts.checked(self.descriptions, COLUMN))


def samples(row: Row, variant: Variant[DescribedSettings]) -> Iterator[Sample]:
    """Returns the AVR question of a puzzle, `marvel_described/<id>`, and `<id>:plain` without its description.

    Raises:
        DataError: There are no descriptions at all.
    """
    settings = variant.settings
    described = describe(row, settings)
    if not described:
        return
    kinds = {"described": described} | ({"plain": ""} if settings.baseline else {})
    for kind, description in kinds.items():
        question = f"{marvel.worded(row['avr_question'], settings.letters)}\n{marvel.avr_instruction(settings.letters)}"
        text = f"{description}\n\n{question}" if description else question

        def ask(text: str = text, with_image: bool = settings.image or kind == "plain") -> Call:
            images = [image_part(marvel.whole(row, settings.letters))] if with_image else []
            config = model.GenerationConfig(max_output_tokens=settings.max_output_tokens, temperature=0.0)
            continuations = marvel.marks(settings.letters) if variant.method == "likelihood" else ()
            return Call((user(*images, text_part(text)),), config, continuations)

        identifier = row["id"] if kind == "described" else f"{row['id']}:plain"
        scoring = marvel.avr_scoring(row, variant.method, settings.letters, input=kind)
        yield single(variant.key(identifier), ask, scoring)


def describe(row: Row, settings: DescribedSettings) -> str:
    """Returns a puzzle's description as it is shown, "" if it has none.

    Raises:
        DataError: There are no descriptions at all, or not one for each panel.
    """
    if settings.descriptions:
        description = texts.load(settings.descriptions, COLUMN).get(row["id"], "")
    elif COLUMN in row.fields:
        description = row[COLUMN]
    else:
        raise DataError(
            "marvel_described needs descriptions: --set descriptions=FILE, a JSONL, JSON or CSV file "
            "with the columns id and description"
        )
    if isinstance(description, str):
        return description
    count = row["c_perception_answer_tuple"][0]
    blank = 0 if row["task_configuration"] == "3D" else 1
    if len(description) != count - blank + 4:
        raise DataError(
            f"puzzle {row['id']}: {len(description)} descriptions for {count - blank} context panels and 4 choices"
        )
    names = [f"Context panel {i}" for i in range(1, count - blank + 1)]
    names += [f"Choice {mark}" for mark in marvel.marks(settings.letters)]
    return "\n".join(f"{name}: {text}" for name, text in zip(names, description, strict=True))


def metrics(variant: Variant[DescribedSettings]) -> list[scorer.MetricSpec]:
    """Returns the AVR accuracy with descriptions and, if asked for, without."""
    specs = [
        metric("AVR", "accuracy", where={"input": ("described",)}, by=marvel.BY),
        metric("AVR choice bias", "choice_bias", where={"input": ("described",)}),
    ]
    if variant.settings.baseline:
        specs.append(metric("AVR without description", "accuracy", where={"input": ("plain",)}, by=marvel.BY))
    return specs


def needs(variant: Variant[DescribedSettings]) -> Sequence[str]:
    """Returns the capabilities a model needs."""
    check_parity(variant, reference=False)
    if variant.shuffle_options:
        raise ConfigError("marvel_described cannot shuffle: descriptions may name choices; drop --shuffle-options")
    return ("IMAGE_INPUT",) if variant.settings.image or variant.settings.baseline else ()


BENCHMARK = Benchmark(
    name="marvel_described",
    tasks={"marvel_described": "MARVEL's AVR question with a text description of every panel"},
    data=marvel.BENCHMARK.data,
    rows=marvel.open_marvel,
    samples=samples,
    metrics=metrics,
    synthetic=marvel.synthetic,
    settings=DescribedSettings,
    needs=needs,
    family=marvel.BENCHMARK.name,
    row=marvel.question_of,
)
