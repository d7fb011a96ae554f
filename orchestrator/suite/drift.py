"""drift.json in a suite's folder: its server's answers to repeated requests compared, see `check --drift`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from orchestrator.errors import ConfigError

FILE = "drift.json"


@dataclass(frozen=True, slots=True)
class Way:
    """Two ways to ask the same requests.

    Attributes:
        first: One way.
        second: The other.
        answers: Share of the items whose answer is another text.
        scores: Share of the items whose score is another.
        difference: Mean score of the second minus that of the first.
    """

    first: str
    second: str
    answers: float
    scores: float
    difference: float


@dataclass(frozen=True, slots=True)
class Drift:
    """The noise of a server: changes between evaluations of the same requests.

    Attributes:
        items: Items that were asked in each way.
        noise: Change of the mean score that the server alone exceeds in 5% of pairs of evaluations.
        ways: Each two ways.
    """

    items: int
    noise: float
    ways: Sequence[Way]


def read(folder: Path) -> Drift | None:
    """Returns the drift measured for the suite of a folder, None if it was not measured.

    Raises:
        ConfigError: If the file is damaged.
    """
    try:
        return msgspec.json.decode((folder / FILE).read_bytes(), type=Drift)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigError(f"{folder / FILE} cannot be read ({error}): delete it, and measure again") from error
