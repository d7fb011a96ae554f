# ruff: noqa: E501 - the alternatives of a pattern are easier to check on one line than on ten
"""Tells a model that declines to answer from one that merely fails to."""

from __future__ import annotations

import re
from collections.abc import Iterator

from scorer.reading.prefilter import Screen

_CANNOT = r"(?:can(?:no|')?t|can not|could(?: not|n't)|won't|will not|(?:will |wo|would )?(?:'m|am|are|'re|is|be)?(?: not|n't) (?:be )?(?:able|allowed|permitted|comfortable)(?: to| with)?|(?:am |'m )?unable to|(?:am |'m )?not trained to|do not feel comfortable|don't feel comfortable|must (?:decline|refuse)(?: to)?|(?:have to|need to|will) (?:decline|refuse)(?: to)?|decline to|refuse to)"
_HELPS = r"help(?! but\b| noticing| thinking| feeling| seeing)"
_HELP = rf"(?:assist|{_HELPS}|comply|fulfil+|provide|answer(?:ing)?|respond|engage|continue|participate|complete|support|discuss|identify|process|proceed|do (?:that|this)|view(?:ing)?|see|analy[sz]e|access|open|interpret|look at)"
_CANNOT, _HELP, _HELPS = (words.replace(" ", r"\ ") for words in (_CANNOT, _HELP, _HELPS))
# Failing for want of evidence is not declining.
_EVIDENCE = r"(?:(?:see|view|access|open|load) (?:the|this|your|that|an?|any) (?:image|picture|photo|options|choices|figures?|puzzle|panels)|clear|determin|tell |which |sure|certain|enough|small|blurr|resolution|any image|the image (?:you|attach)|attached|the answer from)"

_DECLINES = re.compile(
    rf"""
      \b(?:sorry|apologi[sz]e|apologies|regret|afraid)\b[^.!?\n]{{0,60}}?\b{_CANNOT}\W+(?:\w+\W+){{0,3}}?{_HELP}\b
    | \bI(?:\ am|'m|’m)?\s*{_CANNOT}\W+(?:\w+\W+){{0,2}}?(?:assist|{_HELPS}|comply|fulfil+|engage|participate|continue|support|discuss)\b
    | \bI\ (?:must|have\ to|need\ to|will)\ (?:respectfully\ |politely\ )?(?:decline|refuse)\b
    | \b(?:don't|do\ not)\ have\ the\ (?:ability|capability|capacity)\ to\ (?:view|see|process|analy[sz]e|help|assist)
    | \b(?:can't|cannot|won't|unable\ to)\ identify\ (?:people|persons?|individuals|real|who\b|the\ person|someone|anyone)
    | \bI(?:\ am|'m)?\s*{_CANNOT}\W+provide\ (?:that|this|any|such|the\ requested)\ (?:information|answer|assistance|content|kind|type|details?)
    | \bI\ (?:decline|refuse)\ to\b
    | \bas\ an?\ (?:AI|artificial|language|large|text)\b[^.!?\n]{{0,80}}?\b(?:{_CANNOT}|don't|do\ not)\b
    | \bI(?:\ am|'m)?\s*{_CANNOT}\W+(?:\w+\W+){{0,2}}?(?:answer|respond\ to)\ (?:that|this|your|the|such)\ (?:question|request|query|prompt)
    | \b(?:against|violates?)\ (?:my|the|our|content|safety|usage)\ (?:\w+\ )?(?:guidelines|polic(?:y|ies)|programming|rules|terms)
    | \bI(?:\ am|'m)?\s*{_CANNOT}\W+(?:view|see|process|analy[sz]e|interpret|access|open)\ (?:or\ \w+\ )?(?:images|pictures|photos|visual\ content|image\ files|attachments)
    | (?:抱歉|对不起|對不起|很遗憾)[^。！\n]{{0,20}}(?:无法|無法|不能|没办法)(?:协助|帮助|提供|回答|满足|处理|查看)
    | (?:申し訳|すみません|ごめんなさい)[^。\n]{{0,30}}(?:お答え|お手伝い|対応)[^。\n]{{0,8}}(?:できません|できかねます|ません)
    | (?:죄송)[^.\n]{{0,30}}(?:도와|답변|도움)[^.\n]{{0,12}}(?:없|못)
    | \b(?:lo\ siento|lo\ lamento|desculpe|sinto\ muito)\b[^.!?\n]{{0,40}}(?:no\ puedo|não\ posso)\b[^.!?\n]{{0,20}}(?:ayudar|asistir|responder|ajudar|cumplir)
    | \b(?:d[ée]sol[ée]e?|je\ regrette)\b[^.!?\n]{{0,40}}ne\ (?:peux|puis)\ pas\b[^.!?\n]{{0,30}}(?:aider|assister|r[ée]pondre)
    | \b(?:es\ tut\ mir\ leid|tut\ mir\ leid|entschuldigung)\b[^.!?\n]{{0,40}}(?:kann|darf)\b[^.!?\n]{{0,40}}nicht\b[^.!?\n]{{0,30}}(?:helfen|beantworten|weiterhelfen|unterst)
    | (?:извините|простите|к\ сожалению)[^.!?\n]{{0,40}}не\ (?:могу|можем)[^.!?\n]{{0,30}}(?:помочь|ответить|выполнить)
    """,
    re.IGNORECASE | re.VERBOSE,
)
_WANTING = re.compile(_EVIDENCE, re.IGNORECASE)
_SCREEN = Screen([_DECLINES])

_ENDS = re.compile(
    r"[.!?;](?=[\s\"')]|$)|\n|\b(?:but|however|although|though|yet|nevertheless|nonetheless|pero|mais|aber|mas|но)\b|但|不过|不過|しかし|하지만",
    re.IGNORECASE,
)
"""Behind the words that decline: what follows is said all the same."""
_SENTENCES = re.compile(r"[.!?;](?=\s|$)|\n")
_OFFERS = re.compile(
    r"\b(?:if you|please|feel free|let me know|happy to|glad to|instead,? i can|you (?:can|could|may|might) (?:try|ask|provide|describe)"
    r"|(?:i can|i could|can i|could i|i may) (?:still |instead |only )?(?:help|assist|describe|offer|provide|try|answer|discuss)|would you like|(?:is there )?anything else)\b[^:\n]{0,300}$",
    re.IGNORECASE,
)
"""The words before something named, or a whole sentence: another thing is offered instead."""
_COURTESY = re.compile(
    r"\b(?:i'?m|i am|we|really|so|very|deeply|sorry|unfortunately|but|however|apolog\w+|thank\w*|you|for (?:your|the) \w+|and|regret|understanding|hello|hi|no|yes|as an? \w+(?: \w+){0,2})\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"\w")


def declines(text: str) -> bool:
    """Returns whether the words decline to answer, whatever else they say.

    "I cannot tell from the image" is no refusal: it is an answer without content.
    """
    return next(clauses(text), None) is not None


def overrules(text: str, place: int) -> bool:
    """Returns whether what a text names at a place is part of a refusal, or of what is offered instead.

    "I can't identify the person, but the shirt is red" declines one thing and answers another.
    """
    declined = list(clauses(text))
    if any(start <= place < end for start, end in declined):
        return True
    ends = [match.end() for match in _SENTENCES.finditer(text, 0, place)]
    return bool(declined and _OFFERS.search(text[ends[-1] if ends else 0 : place]))


def only_declines(text: str) -> bool:
    """Returns whether a text declines to answer, and says nothing else but courtesies and offers."""
    rest, done = [], 0
    for start, end in clauses(text):
        rest.append(text[done:start])
        done = max(end, done)
    if not rest:
        return False
    rest.append(text[done:])
    return all(
        _OFFERS.search(sentence) or not _WORD.search(_COURTESY.sub("", sentence.replace("’", "'")))
        for piece in rest
        for sentence in _SENTENCES.split(piece)
    )


def clauses(text: str) -> Iterator[tuple[int, int]]:
    """Yields where each clause that declines begins and ends, of the first 4,000 code points."""
    head = text[:4000].replace("’", "'")
    if not _SCREEN(head).may(_DECLINES):
        return
    for match in _DECLINES.finditer(head):
        stop = _ENDS.search(text, match.end())
        end = stop.end() if stop else len(text)
        if not _WANTING.search(text, match.start(), min(end, match.end() + 60)):
            yield match.start(), end
