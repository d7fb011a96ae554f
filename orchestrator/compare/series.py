"""A training's checkpoints held against a baseline that moves: what changed, and whether it is an alarm."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Change:
    """What one checkpoint is against its baseline, over the items of all tasks that both have.

    Attributes:
        model: The checkpoint.
        variant: The suite's variant, "" where there is none.
        baseline: The model that it is compared with.
        items: Items that both have.
        difference: Mean score of the checkpoint minus that of the baseline, a fraction.
        low: Lower end of the confidence sequence of the difference: the intervals of all checkpoints of a training
            hold together in 95% of trainings.
        high: Upper end.
        alarm: Whether the model fell, at 5% over the whole training.
        why: The alarm in one sentence, "" where there is none.
        detectable: The fall that is found within two checkpoints in 90% of trainings, by items that vary like these;
            None where their spread is unknown.
        noise: What the server itself makes of the same requests (`check --drift`): changes up to this are noise; None
            where it was not measured.
    """

    model: str
    variant: str
    baseline: str
    items: int
    difference: float
    low: float | None
    high: float | None
    alarm: bool = False
    why: str = ""
    detectable: float | None = None
    noise: float | None = None

    @property
    def is_noise(self) -> bool:
        """Whether the change is no larger than what the server makes of the same requests."""
        return self.noise is not None and abs(self.difference) <= self.noise

    def as_json(self) -> dict[str, Any]:
        """Returns it for machines."""
        return asdict(self) | {"is_noise": self.is_noise}
