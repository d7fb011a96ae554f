"""Writes examples as an Arrow stream to standard output: `python -m demo_model.training_data COUNT`.

One row is one example: `kind`; `images`, each SIDE x SIDE x 3 bytes; `questions` with `question` and
`answer`; `marks` with `image`, `x`, `y` and `words`. With --no-images the images are empty.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence

import click
import pyarrow as pa

from demo_model.training_data import SHARES, Example, examples

SCHEMA = pa.schema(
    [
        ("kind", pa.string()),
        ("images", pa.list_(pa.binary())),
        ("questions", pa.list_(pa.struct([("question", pa.string()), ("answer", pa.string())]))),
        (
            "marks",
            pa.list_(
                pa.struct(
                    [("image", pa.int32()), ("x", pa.float32()), ("y", pa.float32()), ("words", pa.list_(pa.string()))]
                )
            ),
        ),
    ]
)
_BATCH = 16


def _row(example: Example, described: bool) -> dict[str, object]:
    return {
        "kind": example.kind,
        "images": [b"" if described else draw().tobytes() for draw in example.images],
        "questions": [{"question": question, "answer": answer} for question, answer in example.questions],
        "marks": [{"image": m.image, "x": m.x, "y": m.y, "words": list(m.words)} for m in example.marks],
    }


@click.command()
@click.argument("count", type=click.IntRange(1))
@click.option("--seed", default=20_261, show_default=True, help="Other examples for another seed.")
@click.option("--start", default=0, show_default=True, help="Number of the first example.")
@click.option("--no-images", "described", is_flag=True, help="Draw nothing: only say what stands where.")
@click.option(
    "--share",
    "shares",
    type=(click.Choice(list(SHARES)), click.IntRange(0)),
    multiple=True,
    help="How much there is of a kind, in place of its usual share.",
)
def main(count: int, seed: int, start: int, described: bool, shares: Sequence[tuple[str, int]]) -> None:
    """Write COUNT examples as an Arrow stream to standard output."""
    source = itertools.islice(examples(seed, start=start, shares=SHARES | dict(shares)), count)
    with pa.ipc.new_stream(sys.stdout.buffer, SCHEMA) as stream:
        while rows := [_row(example, described) for example in itertools.islice(source, _BATCH)]:
            stream.write_batch(pa.RecordBatch.from_pylist(rows, SCHEMA))


if __name__ == "__main__":
    main()
