"""Likelihood by several methods with the same result.

`plain`: one forward pass per continuation; the others are compared with it. `packed`: all continuations of a question
stand in one row after the prompt, as a tree (continuations that begin alike share their first tokens), and a mask lets
each token see the prompt and its own ancestors; questions batch together. `expanded`: the prompt's cache is repeated,
one row per continuation; for models that take no such mask and those with recurrent layers, whose state is in the
cache. `forked` is `expanded` one token at a time, for recurrent layers that cannot continue from a state otherwise.

All but `plain` encode the image once and prefill the prompt once. None is used before `model_server.hf.selfcheck` has
compared it with `plain`.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from model_server.hf.batch import Replace, prefill, to_batch
from model_server.hf.checkpoint import Checkpoint
from model_server.hf.family import Prefill
from model_server.hf.fitting import fitted
from model_server.hf.inputs import Joined, Prompt

MAX_NODES = 512
"""Tokens of continuations in one pass: bounds the logits, [questions, tokens, vocabulary]."""
_ROWS = 256
"""Prompt tokens whose log-probabilities are computed at a time: [tokens, vocabulary], in float32."""


@dataclass(frozen=True)
class Question:
    """A prompt and its continuations.

    Attributes:
        prompt: The prompt.
        joined: Its continuations, each tokenized together with it.
    """

    prompt: Prompt
    joined: Sequence[Joined]

    @property
    def shared(self) -> int:
        """Leading prompt tokens that all continuations share and that precede their first predicted token."""
        ids = self.prompt.ids
        return min(min(common(ids, continuation.ids), continuation.start) for continuation in self.joined)


@dataclass(frozen=True)
class Scored:
    """One continuation's tokens.

    Attributes:
        ids: The tokens that the continuation owns.
        logprobs: Natural log-probability of each, in float32.
        is_greedy: Whether every token was the most probable one.
    """

    ids: list[int]
    logprobs: list[float]
    is_greedy: bool

    @property
    def logprob(self) -> float:
        """The sum."""
        return sum(self.logprobs)


@dataclass(frozen=True)
class TokenScore:
    """One token of a prompt.

    Attributes:
        logprob: Its natural log-probability after the tokens before it, in float32.
        best: The most probable token at its position.
        best_logprob: That token's log-probability.
    """

    logprob: float
    best: int
    best_logprob: float


@dataclass(frozen=True)
class ScoredPrompt:
    """The tokens of a prompt, without the first."""

    tokens: list[TokenScore]


@dataclass
class Tree:
    """A token tree of the continuations of one prompt.

    Attributes:
        ids: The token of each node.
        parents: The parent of each node; -1 is the prompt's last token.
        depths: The number of ancestors of each node.
        paths: Per continuation, the nodes that predict its owned tokens; -1 is the prompt's last token.
        owned: Per continuation, the owned tokens.
    """

    ids: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    paths: list[list[int]] = field(default_factory=list)
    owned: list[list[int]] = field(default_factory=list)
    _children: dict[tuple[int, int], int] = field(default_factory=dict)

    def add(self, tail: Sequence[int], start: int) -> None:
        """Adds a continuation.

        Args:
            tail: Its tokens after the shared prefix.
            start: Number of these that still belong to the prompt.
        """
        node, path = -1, [-1]
        for token in tail[:-1]:  # nothing is predicted after the last token
            key = (node, token)
            if key not in self._children:
                self._children[key] = len(self.ids)
                self.ids.append(token)
                self.parents.append(node)
                self.depths.append(0 if node < 0 else self.depths[node] + 1)
            node = self._children[key]
            path.append(node)
        self.paths.append(path[start:])
        self.owned.append(list(tail[start:]))

    def ancestry(self) -> torch.Tensor:
        """Returns the attention mask of the nodes; each sees itself and its ancestors: [nodes, nodes], bool."""
        seen = torch.eye(len(self.ids), dtype=torch.bool)
        for node, parent in enumerate(self.parents):
            if parent >= 0:
                seen[node] |= seen[parent]
        return seen


@dataclass(frozen=True)
class Faults:
    """Deliberate mistakes, by which the self-check proves that it would detect them.

    Attributes:
        shift: Added to the continuations' positions.
        leak: Let continuations see each other.
    """

    shift: int = 0
    leak: bool = False


NONE = Faults()


@torch.inference_mode()
def plain(checkpoint: Checkpoint, prompt: Prompt, joined: Sequence[Joined]) -> list[Scored]:
    """Scores each continuation in a forward pass of its own."""
    results: list[Scored] = []
    for continuation in joined:
        kept = common(prompt.ids, continuation.ids[:-1])
        inputs = to_batch(checkpoint, [checkpoint.family.extend(prompt.inputs, kept, continuation.ids[kept:-1])])
        checkpoint.family.reset(checkpoint.model)
        owned = continuation.ids[continuation.start :]
        tree = Tree(paths=[list(range(-1, len(owned) - 1))], owned=[owned])
        results += _read(checkpoint.family.logits(checkpoint.model, inputs)[0, continuation.start - 1 :], tree)
    return results


@torch.inference_mode()
def score_prompt(checkpoint: Checkpoint, prompt: Prompt) -> ScoredPrompt:
    """Scores each token of a prompt after those before it, but the first, in one forward pass."""
    if len(prompt.ids) == 1:
        return ScoredPrompt([])
    inputs = to_batch(checkpoint, [checkpoint.family.extend(prompt.inputs, len(prompt.ids) - 1, ())])
    checkpoint.family.reset(checkpoint.model)
    scores: list[TokenScore] = []
    for first, logits in enumerate(torch.split(checkpoint.family.logits(checkpoint.model, inputs)[0], _ROWS)):
        logprobs = logits.float().log_softmax(-1)
        ids = torch.tensor(prompt.ids[first * _ROWS + 1 :][: len(logprobs)], device=logprobs.device)
        values = logprobs.gather(-1, ids[:, None])[:, 0].tolist()
        best = logprobs.max(-1)
        scores += map(TokenScore, values, best.indices.tolist(), best.values.tolist())
    return ScoredPrompt(scores)


@torch.inference_mode()
def packed(
    checkpoint: Checkpoint,
    questions: Sequence[Question],
    replace: Replace | None = None,
    faults: Faults = NONE,
) -> list[list[Scored]]:
    """Scores all continuations of several questions.

    Args:
        checkpoint: The model.
        questions: Questions whose prompts have one signature.
        replace: Replaces the prompts' image inputs if vision features are cached.
        faults: Deliberate mistakes.
    """
    state = _prefill(checkpoint, questions, replace)
    lengths, most = state.lengths(), MAX_NODES
    results: list[list[Scored]] = [[] for _ in questions]
    while any(len(q.joined) > len(done) for q, done in zip(questions, results, strict=True)):
        trees = [_tree(q, len(done), most) for q, done in zip(questions, results, strict=True)]
        nodes = max(len(tree.ids) for tree in trees)
        read = functools.partial(_read_trees, checkpoint, state, trees, faults)
        # A batch of several questions is split by the batcher, which learns its token budget from that.
        smaller = len(trees) == 1 and len(trees[0].paths) > 1
        scores = fitted(read, nodes, "tokens of continuations", smaller=smaller)
        state.narrow(lengths)
        if scores is None:
            most = nodes // 2
            continue
        for done, some in zip(results, scores, strict=True):
            done += some
    return results


@torch.inference_mode()
def expanded(checkpoint: Checkpoint, question: Question, rows: int = 64, *, stepwise: bool = False) -> list[Scored]:
    """Scores the continuations of one question in rows of a repeated cache.

    Args:
        checkpoint: The model.
        question: The question.
        rows: Continuations in one pass.
        stepwise: Whether each pass reads one token of each row, not all.
    """
    state = _prefill(checkpoint, [question])
    results: list[Scored] = []
    while len(results) < len(question.joined):
        part = question.joined[len(results) : len(results) + rows]
        read = functools.partial(_read_rows, checkpoint, state, part, question.shared, stepwise=stepwise)
        scores = fitted(read, len(part), "continuations", smaller=len(part) > 1)
        if scores is None:
            rows = len(part) // 2
            continue
        results += scores
    return results


def _read_rows(
    checkpoint: Checkpoint, state: Prefill, part: Sequence[Joined], shared: int, *, stepwise: bool
) -> list[Scored]:
    """Scores continuations in one pass, or one per token, after a copy of the prompt's cache."""
    device = checkpoint.device
    tails = [continuation.ids[shared:] for continuation in part]
    longest = max(len(tail) for tail in tails) - 1
    logits = [state.last[:, None].expand(len(part), -1, -1)]
    if longest:
        ids = torch.zeros((len(part), longest), dtype=torch.long, device=device)
        for row, tail in enumerate(tails):
            ids[row, : len(tail) - 1] = torch.tensor(tail[:-1], device=device)
        cache = copy.deepcopy(state.cache)
        cache.reorder_cache(torch.zeros(len(part), dtype=torch.long, device=device))
        step = 1 if stepwise else longest
        for done in range(0, longest, step):
            some = ids[:, done : done + step]
            logits.append(checkpoint.family.step_rows(checkpoint.model, cache, state, some, done))
    seen = torch.cat(logits, dim=1)
    results: list[Scored] = []
    for row, (continuation, tail) in enumerate(zip(part, tails, strict=True)):
        tree = Tree(
            paths=[list(range(continuation.start - shared - 1, len(tail) - 1))],
            owned=[tail[continuation.start - shared :]],
        )
        results += _read(seen[row], tree)
    return results


def _prefill(checkpoint: Checkpoint, questions: Sequence[Question], replace: Replace | None = None) -> Prefill:
    prompts = [checkpoint.family.extend(q.prompt.inputs, q.shared, ()) for q in questions]
    return prefill(checkpoint, prompts, replace)


def _tree(question: Question, first: int, most: int) -> Tree:
    """Returns the tree of the continuations from `first` on that fit into `most` tokens; of at least one, if any."""
    tree, shared = Tree(), question.shared
    for continuation in question.joined[first:]:
        if tree.paths and len(tree.ids) + len(continuation.ids) - shared > most:
            break
        tree.add(continuation.ids[shared:], continuation.start - shared)
    return tree


def _read_trees(checkpoint: Checkpoint, state: Prefill, trees: Sequence[Tree], faults: Faults) -> list[list[Scored]]:
    nodes = max(len(tree.ids) for tree in trees)
    logits = state.last[:, None]
    if nodes:
        logits = torch.cat([logits, _step(checkpoint, state, trees, nodes, faults)], dim=1)
    return [_read(logits[row], tree) for row, tree in enumerate(trees)]


def _step(checkpoint: Checkpoint, state: Prefill, trees: Sequence[Tree], nodes: int, faults: Faults) -> torch.Tensor:
    device, prompt = checkpoint.device, state.mask.shape[1]
    ids = torch.zeros((len(trees), nodes), dtype=torch.long)
    depths = torch.zeros((len(trees), nodes), dtype=torch.long)
    visible = torch.zeros((len(trees), nodes, prompt + nodes), dtype=torch.bool)
    visible[:, :, :prompt] = state.mask.bool().cpu()[:, None]
    for row, tree in enumerate(trees):
        count = len(tree.ids)
        ids[row, :count] = torch.tensor(tree.ids, dtype=torch.long)
        depths[row, :count] = torch.tensor(tree.depths, dtype=torch.long)
        seen = torch.ones((count, count), dtype=torch.bool).tril() if faults.leak else tree.ancestry()
        visible[row, :count, prompt : prompt + count] = seen
    positions = state.next_position[:, None] + depths.to(device) + faults.shift
    return checkpoint.family.step(checkpoint.model, state, ids.to(device), positions, visible.to(device))


def _read(logits: torch.Tensor, tree: Tree) -> list[Scored]:
    """Returns the scores of all continuations of a tree.

    Args:
        logits: [1 + nodes, vocabulary]; the first row is the prompt's last token.
        tree: The continuations, with the nodes that predict their tokens.
    """
    nodes = [node + 1 for path in tree.paths for node in path]
    if not nodes:
        return []
    device = logits.device
    position = torch.tensor(nodes, device=device)
    token = torch.tensor([t for owned in tree.owned for t in owned], device=device)
    used, where = torch.unique(position, return_inverse=True)
    logprobs = logits[used].float().log_softmax(-1)
    values = logprobs[where, token].tolist()
    greedy = (logprobs.argmax(-1)[where] == token).tolist()
    results, first = [], 0
    for owned in tree.owned:
        last = first + len(owned)
        results.append(Scored(owned, values[first:last], all(greedy[first:last])))
        first = last
    return results


def common(first: Sequence[int], second: Sequence[int]) -> int:
    """Returns the number of leading tokens that two sequences share."""
    for index, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return index
    return min(len(first), len(second))
