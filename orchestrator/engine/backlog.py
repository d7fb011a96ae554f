"""Answers on their way to the scorer: sent at once if it has room, else read back from the log later."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Mapping
from typing import Any

from lyncean.scorer.v1 import scorer_pb2
from lyncean.vocabulary.outcomes import Outcome
from orchestrator.engine.evidence import put_evidence
from orchestrator.engine.ledger import Ledger
from orchestrator.engine.scoring import ScorerClient
from orchestrator.run_folder.records import put_answer, scored_line, unanswered_line
from orchestrator.samples import Answer


class Backlog:
    """Answers that have no verdict yet, eight bytes each.

    Args:
        ledger: The run's state.
        scorer: The scorer.
    """

    def __init__(self, ledger: Ledger, scorer: ScorerClient) -> None:
        self._ledger, self._scorer = ledger, scorer
        self._offsets: array[int] = array("Q")
        self._more = asyncio.Event()

    def score(
        self,
        request: scorer_pb2.ScoreRequest | None,
        scoring: Mapping[str, Any] | None,
        answer: Answer,
        offset: int,
        *,
        cut: bool,
    ) -> None:
        """Has an answer scored.

        Args:
            request: The ScoreRequest, but for the answer; None for an answer that only prepares another.
            scoring: How it is scored; None likewise.
            answer: The answer.
            offset: First byte of its line.
            cut: Whether the output limit cut it.
        """
        if request is None or scoring is None:
            return
        self._ledger.accounting.cut += cut
        if self._scorer.room and scoring["rule"] not in self._scorer.needs:
            self._scorer.put(put_answer(request, answer, cut=cut), scoring)
        else:
            self.later(offset)

    def later(self, offset: int) -> None:
        """Has the answer scored whose line begins at an offset."""
        self._offsets.append(offset)
        self._more.set()

    async def finish(self) -> None:
        """Waits until every answer is with the scorer, or the run drains."""
        while self._offsets and not self._ledger.draining:
            self._more.set()
            await asyncio.sleep(0.05)

    async def run(self) -> None:
        """Sends answers from the log that have no verdict yet to the scorer."""
        log = self._ledger.log
        while True:
            while not self._offsets:
                self._more.clear()
                await self._more.wait()
            await self._scorer.wait_for_room()
            line = log.responses.read(self._offsets.pop())
            scoring = line["scoring"]
            if "outcome" in line:
                self._ledger.add_verdict(line["key"], line["task"], Outcome(line["outcome"]), unanswered_line(line))
            else:
                request = scored_line(line, scoring, log.images.get)
                needs = self._scorer.needs.get(scoring["rule"], frozenset())
                self._scorer.put(put_evidence(request, line, log, needs), scoring)
            await asyncio.sleep(0)
