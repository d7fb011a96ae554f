"""The requests left of each sample, by the log; turns that end without an answer, and with them all later ones."""

from __future__ import annotations

from collections.abc import Callable

from lyncean.vocabulary.outcomes import Outcome
from orchestrator.engine.answer_lines import limited_facts, unsent_line
from orchestrator.engine.finishing import Finishing
from orchestrator.engine.ledger import Ledger
from orchestrator.engine.prepared import Episode, LoggedCall, UnsentOutcome
from orchestrator.engine.trajectory import CONTEXT_LIMIT, call_name
from orchestrator.run_folder.cut import CUT_REASONING
from orchestrator.run_folder.key_table import shard_of
from orchestrator.run_folder.log import Entry, State
from orchestrator.run_folder.records import outcome_line, scoring_json
from orchestrator.samples import Sample, Turn

_NOT_ANSWERED = (Outcome.REJECTED, Outcome.FAILED, Outcome.REFUSED)
_UNKNOWN = (State.NONE, State.FAILED)


class Progress:
    """Plans samples, takes the answers of earlier processes from the log, and ends turns that have no answer.

    Args:
        ledger: The run's state.
        finishing: The cut answers that are to be finished.
        shard: (index from 0, number of shards); None plans everything.
        score_later: Gets the offset of the line of an answer that has no verdict yet.
    """

    def __init__(
        self,
        ledger: Ledger,
        finishing: Finishing,
        shard: tuple[int, int] | None,
        score_later: Callable[[int], None],
    ) -> None:
        self._ledger, self._finishing = ledger, finishing
        self._shard, self._score_later = shard, score_later

    def plan(self, sample: Sample) -> Episode | None:
        """Counts a sample's items and passes over those that the log holds; returns the rest."""
        if self._shard and shard_of(sample.key, self._shard[1]) != self._shard[0]:
            return None
        episode = Episode(sample)
        task = episode.task
        known = [self._ledger.plan(sample.item_key(turn), task, turn.scoring is not None) for turn in sample.turns]
        calls = self._ledger.log.resumed and sample.turns[0].play
        if all(entry.state is State.NONE for entry in known) and not calls:
            return episode
        complete = len(known) == 1 and known[0].state is State.ANSWERED and not self._finishing.is_open(episode.key)
        if complete and (outcome := self._ledger.settled(known[0])):
            self._ledger.accounting.resume(task, outcome)
            return None
        return None if self.resume(episode) else episode

    def resume(self, episode: Episode) -> bool:
        """Takes the sample's answers from the log; returns whether all its requests are done."""
        finishing, before, episode.begun = self._finishing, episode.answered_key, None
        while not episode.over:
            entry = self._ledger.log.entry(episode.key)
            stale = before is not None and finishing.is_stale(episode.key, before)
            if stale or entry.state in _UNKNOWN:
                return bool(episode.turn.play) and not episode.trajectory and self._ended_in_a_call(episode)
            before = episode.key
            if finishing.is_open(episode.key):
                episode.begun = entry.offset
                return False
            if episode.turn.scoring:
                if outcome := self._ledger.settled(entry):
                    self._ledger.accounting.resume(episode.task, outcome)
                else:
                    self._score_later(entry.offset)
            if entry.state is State.ENDED:
                self._end_later(episode, self._logged_end(entry))
                return True
            episode.answers.append(entry.offset)
        return True

    def end(self, episode: Episode, ended: UnsentOutcome) -> None:
        """Settles a turn that has no answer, and with it every later one."""
        self._settle(episode, episode.turn, ended)
        self._end_later(episode, ended)

    def end_unsent(self, episode: Episode, ended: UnsentOutcome) -> None:
        """Logs that a turn has no answer and no request of its own, and ends it."""
        self._log_unsent(episode, episode.turn, ended)
        self.end(episode, ended)

    def _ended_in_a_call(self, episode: Episode) -> bool:
        """Takes the calls of a turn with tools from the log; returns whether one of them ended the turn."""
        logged: list[LoggedCall] = []
        while True:
            call = self._entry(episode, len(logged) + 1)
            ended = self._logged_end(call) if call.state is State.ENDED else None
            if ended and ended.reason != CONTEXT_LIMIT:
                self.end_unsent(episode, ended)
                return True
            if call.state is not State.ANSWERED:
                episode.logged, episode.beyond = logged, ended.detail if ended else ""
                return False
            tools: list[int] = []
            while (tool := self._entry(episode, len(logged) + 1, len(tools) + 1)).state is State.ANSWERED:
                tools.append(tool.offset)
            logged.append(LoggedCall(call.offset, tools))

    def _entry(self, episode: Episode, ordinal: int, tool: int | None = None) -> Entry:
        return self._ledger.log.entry(episode.sample.call_key(call_name(ordinal, episode.turn.name, tool)))

    def _logged_end(self, entry: Entry) -> UnsentOutcome:
        line = self._ledger.log.responses.read(entry.offset)
        return UnsentOutcome(Outcome(line["outcome"]), line["error"]["reason"], line["error"]["message"])

    def _end_later(self, episode: Episode, ended: UnsentOutcome) -> None:
        turn = episode.turn
        if ended.outcome in _NOT_ANSWERED:
            detail = f"turn {turn.name or 1}: {ended.reason}: {ended.detail}"
            ended = UnsentOutcome(ended.outcome, "earlier_turn", detail)
        for later in episode.sample.turns[len(episode.answers) + 1 :]:
            key = episode.sample.item_key(later)
            entry = self._ledger.log.entry(key)
            stale = entry.offset < self._ledger.log.entry(episode.key).offset
            unsent = stale or entry.state in _UNKNOWN
            if unsent:
                self._log_unsent(episode, later, ended)
            if entry.state is State.ENDED and not unsent and entry.settled and later.scoring:
                self._ledger.accounting.resume(episode.task, entry.settled)
            else:
                self._settle(episode, later, ended)

    def _log_unsent(self, episode: Episode, turn: Turn, ended: UnsentOutcome) -> None:
        self._ledger.add_response(episode.sample.item_key(turn), ended.outcome, unsent_line(episode, turn, ended))

    def _settle(self, episode: Episode, turn: Turn, ended: UnsentOutcome) -> None:
        if turn.scoring:
            key = episode.sample.item_key(turn)
            self._ledger.accounting.cut += ended.reason == CUT_REASONING
            scoring = scoring_json(turn.scoring) or {}
            facts = limited_facts(episode, turn, ended)
            line = outcome_line(key, ended.outcome, ended.reason, ended.detail, episode.task, scoring, facts)
            self._ledger.add_verdict(key, episode.task, ended.outcome, line)
