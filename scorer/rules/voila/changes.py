"""Reads the properties that an answer calls changed or unchanged, and their values in both images.

An answer is read clause by clause. A property takes the state that the clause states for it
("number and subject type remain constant", "no change in the action"), else that of the heading
above it ("Changed properties:"). A property called both counts as neither.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, pairwise
from typing import NamedTuple

from scorer.rules.voila.vocabulary import LEXICON, PROPERTIES, mentions

_LONGEST = 200
"""Most tokens of a clause: a longer one is not a sentence, and the time to read it grows with their square."""
_STATES = ("changed", "unchanged")


class Change(NamedTuple):
    """The change of one property that an answer states.

    Attributes:
        changed: Whether it changes; None where the answer contradicts itself.
        first: The values stated for image 1, for both images where nothing changes.
        second: The values stated for image 2.
        direction: For the number, 1 up, -1 down, 0 not stated.
    """

    changed: bool | None
    first: frozenset[str]
    second: frozenset[str]
    direction: int


class _Token(NamedTuple):
    kind: str
    start: int
    end: int
    heading: bool


def changes(text: str) -> dict[str, Change]:
    """Returns the stated change of all properties that an answer mentions."""
    stated: dict[str, Change] = {}
    heading = topic = before = ""
    sentences = LEXICON.SENTENCE.split(LEXICON.VERSUS.sub("vs", text))
    nothing: frozenset[str] = frozenset()
    for index, sentence in enumerate(sentences):
        for prop, state in _of_all(sentence).items():
            stated[prop] = Change(state == "changed", nothing, nothing, 0)
            sentences[index] = ""
    for clause in _clauses("".join(sentences)):
        tokens = _completed(clause, _tokens(clause), before)
        before = _verb(clause, tokens)
        topic = _topic(clause, tokens, topic, heading)
        for prop, change in _of_clause(clause, tokens, heading, topic):
            known = stated.get(prop)
            if known and known.changed is not None and change.changed is not None and known.changed != change.changed:
                change = change._replace(changed=None)
            elif known:
                change = Change(
                    None if known.changed is None else change.changed,
                    known.first | change.first,
                    known.second | change.second,
                    known.direction or change.direction,
                )
            stated[prop] = change
        if tokens and tokens[-1].heading and not topic:
            heading = tokens[-1].kind
    rest = LEXICON.REST.search(text)
    if rest:
        changed = rest.lastgroup in ("changed_all", "changed_else")
        for prop in PROPERTIES:
            stated.setdefault(prop, Change(changed, nothing, nothing, 0))
    return stated


def _of_all(sentence: str) -> dict[str, str]:
    """Returns the states of all properties in a sentence like "everything changes except the action"; else {}."""
    but = LEXICON.ALL_BUT.search(sentence)
    every = LEXICON.ALL.search(sentence) if but else None
    tokens = _tokens(sentence) if every else []
    state = next((token.kind for token in tokens if token.kind in _STATES), "")
    if not (but and every and state):
        return {}
    excepted, end = set(), but.end()
    for token in tokens:
        if token.kind in PROPERTIES and token.start >= but.end():
            if LEXICON.LINK.fullmatch(sentence, end, token.start):
                excepted.add(token.kind)
            end = token.end
    state = _other(state) if every["none"] else state
    return {prop: _other(state) if prop in excepted else state for prop in PROPERTIES} if excepted else {}


def _tokens(clause: str) -> list[_Token]:
    """Returns the tokens of a clause; a state is a heading in "Changed:" and "the changed properties"."""
    tokens: list[_Token] = []
    for match in islice(LEXICON.TOKEN.finditer(clause), _LONGEST):
        kind = match.lastgroup or ""
        follows = tokens and tokens[-1].kind in PROPERTIES
        predicate = LEXICON.IS_THE.fullmatch(clause, tokens[-1].end, match.start()) if follows else None
        named = LEXICON.NAMED.match(clause, match.end()) or (not tokens and LEXICON.COLON.match(clause, match.end()))
        heading = kind == "both" or bool(kind in _STATES and not predicate and named)
        tokens.append(_Token(kind, *match.span(), heading))
    return tokens


def _verb(clause: str, tokens: list[_Token]) -> str:
    """Returns the state that a clause's last verb names, without its "not"; "" if there is none."""
    last = next((token for token in reversed(tokens) if token.kind in _STATES), None)
    if last is None:
        return ""
    return _other(last.kind) if LEXICON.NEGATED.search(clause[last.start : last.end]) else last.kind


def _other(state: str) -> str:
    return "unchanged" if state == "changed" else "changed"


def _completed(clause: str, tokens: list[_Token], verb: str) -> list[_Token]:
    """Adds the verb that a clause takes from the one before: "... have", "not in the action"."""
    if not verb or not tokens or any(token.kind not in PROPERTIES for token in tokens):
        return tokens
    denied = LEXICON.NOT.match(clause)
    if denied:
        return [_Token(_other(verb), *denied.span(), False), *tokens]
    so = LEXICON.SO.search(clause, tokens[-1].end)
    return [*tokens, _Token(_other(verb) if so["no"] else verb, *so.span(), False)] if so else tokens


def _clauses(text: str) -> Iterator[str]:
    """Yields the parts of a text within which a state applies to a property; "Action: ..." starts a new one."""
    for piece in LEXICON.CLAUSE.split(text):
        starts = [
            match.start()
            for match in LEXICON.TOKEN.finditer(piece)
            if match.lastgroup in PROPERTIES and LEXICON.LABELLED.match(piece, match.end())
        ]
        cuts = [0, *(start for start in starts if start), len(piece)]
        for start, end in pairwise(cuts):
            yield piece[start:end]


def _topic(clause: str, tokens: list[_Token], topic: str, heading: str) -> str:
    """Returns the property whose title ("Action:", on a separate line) is above a clause; "" if there is none."""
    kinds = {token.kind for token in tokens if token.kind in PROPERTIES}
    if len(tokens) == len(kinds) == 1:
        return tokens[0].kind if not heading and LEXICON.TITLE.fullmatch(clause, tokens[0].end) else ""
    states_follow = bool(tokens) and tokens[-1].heading and LEXICON.HEADED.fullmatch(clause, tokens[-1].end)
    return "" if states_follow or not kinds <= {topic} else topic


def _of_clause(clause: str, tokens: list[_Token], heading: str, topic: str) -> Iterator[tuple[str, Change]]:
    properties = [index for index, token in enumerate(tokens) if token.kind in PROPERTIES]
    if not properties:
        yield from _of_topic(clause, tokens, topic) if topic else _unnamed(clause, tokens)
        return
    inherited = ""
    for index in reversed(properties):
        token = tokens[index]
        following = next((other.start for other in tokens[index + 1 :] if other.kind in PROPERTIES), len(clause))
        scope = clause[token.end : following]
        state = _state(clause, tokens, index, inherited)
        inherited = state
        above = next((other.kind for other in reversed(tokens[:index]) if other.heading), heading)
        if not state and LEXICON.LABELLED.match(scope) and _values(token.kind, scope, "moved")[1]:
            state = "moved"
        state = state or above
        if not state and LEXICON.BOTH.match(scope):
            state = "unchanged"
        elif not state and (verdict := LEXICON.VERDICT.match(scope)):
            state = "unchanged" if verdict["no"] else "changed"
        if state in (*_STATES, "moved"):
            yield token.kind, _change(token.kind, state, scope, clause)


def _state(clause: str, tokens: list[_Token], index: int, inherited: str) -> str:
    """Returns the state that a clause states for one of its properties; "" if there is none."""
    token = tokens[index]
    verb = _verb(clause, tokens[:index])
    so = LEXICON.SO_ALONE.match(clause, token.end) if verb else None
    if so:
        return _other(verb) if so["no"] else verb
    before = tokens[index - 1] if index else None
    after = tokens[index + 1] if index + 1 < len(tokens) and not _opens(clause, tokens, index + 1) else None
    if before and before.kind in _STATES and LEXICON.IN.fullmatch(clause, before.end, token.start):
        return before.kind
    if after and after.kind in ("changed", "unchanged", "moved"):
        # "from 2 to 2" is mere phrasing: a state later in the clause decides.
        if after.kind != "moved" and (LEXICON.NONE.match(clause, after.end) or "✗" in clause[: token.start]):
            return _other(after.kind)
        rest = [other.kind for other in tokens[index + 1 :] if other.kind != "moved"]
        return rest[0] if after.kind == "moved" and rest and rest[0] in _STATES else after.kind
    listed = _listed(clause, tokens, index)
    if listed:
        return listed
    if after and after.kind in PROPERTIES and inherited and LEXICON.LINK.fullmatch(clause, token.end, after.start):
        return inherited
    for other in reversed(tokens[:index]):
        if other.kind in ("changed", "unchanged", "both"):
            between = _without_properties(clause, tokens, other.end, token.start)
            return other.kind if not other.heading and LEXICON.LINK.fullmatch(between) else ""
    return ""


def _opens(clause: str, tokens: list[_Token], index: int) -> bool:
    """Returns true if a state applies to the properties after it: a heading, or "that changed are"."""
    token = tokens[index]
    if token.heading or index + 1 == len(tokens) or tokens[index + 1].kind not in PROPERTIES:
        return token.heading
    lists = LEXICON.LISTS.match(clause, token.end) if token.kind in _STATES else None
    return bool(lists and not lists["colon"] and LEXICON.LINK.fullmatch(clause, lists.end(), tokens[index + 1].start))


def _listed(clause: str, tokens: list[_Token], index: int) -> str:
    """Returns the state of the list that holds a property of a clause; "" if there is none."""
    nearest = next((other for other in reversed(range(index)) if tokens[other].kind in _STATES), None)
    if nearest is None or not _opens(clause, tokens, nearest):
        return ""
    lists = LEXICON.LISTS.match(clause, tokens[nearest].end)
    between = _without_properties(clause, tokens, lists.end(), tokens[index].start) if lists else "."
    # "The property that changed is the number, and the action ...": the comma ends a list of one.
    alone = lists and lists["one"] and "," in between
    return tokens[nearest].kind if LEXICON.LINK.fullmatch(between) and not alone else ""


def _without_properties(clause: str, tokens: list[_Token], start: int, end: int) -> str:
    for token in tokens:
        if token.kind in PROPERTIES and start <= token.start and token.end <= end:
            clause = f"{clause[: token.start]:<{token.end}}{clause[token.end :]}"
    return clause[start:end]


def _of_topic(clause: str, tokens: list[_Token], topic: str) -> Iterator[tuple[str, Change]]:
    """Reads a clause under a property's title: "Unchanged", "Change: none", "from 2 to 3"."""
    for token in [token for token in tokens if not token.heading][:1] or tokens[:1]:
        state = "unchanged" if token.heading and LEXICON.NONE.match(clause, token.end) else token.kind
        if state in (*_STATES, "moved"):
            yield topic, _change(topic, state, clause, clause)


def _unnamed(clause: str, tokens: list[_Token]) -> Iterator[tuple[str, Change]]:
    """Reads "it changes from walking to running", in which the values reveal the property."""
    state = next((token.kind for token in tokens if token.kind in ("changed", "unchanged", "moved")), "")
    meant = [prop for prop in PROPERTIES if any(mention.value for mention in mentions(prop, clause))]
    if state and len(meant) == 1:
        yield meant[0], _change(meant[0], state, clause, clause)


def _change(prop: str, state: str, scope: str, clause: str) -> Change:
    direction = 0
    if prop == "number":
        source = scope if LEXICON.UP.search(scope) or LEXICON.DOWN.search(scope) else clause
        direction = bool(LEXICON.UP.search(source)) - bool(LEXICON.DOWN.search(source))
    first, second = _values(prop, scope, state)
    changed = state == "changed" or (state == "moved" and not (first and first == second))
    return Change(changed, first, second, direction if changed else 0)


def _values(prop: str, scope: str, state: str) -> tuple[frozenset[str], frozenset[str]]:
    """Returns the stated values of images 1 and 2; for an unchanged property all values, and none."""
    if state == "unchanged":
        return frozenset(mention.value for mention in mentions(prop, scope)), frozenset()
    arrow = LEXICON.ARROW.search(scope)
    if not arrow:
        return frozenset(), frozenset()
    first = [mention.value for mention in mentions(prop, scope[: arrow.start()])][-1:]
    second = [mention.value for mention in mentions(prop, scope[arrow.end() :])][:1]
    return frozenset(first), frozenset(second)
