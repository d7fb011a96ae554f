"""Finds where a text says yes or no."""

from __future__ import annotations

import re

from scorer.reading.mentions import TEXT, Mention

# As a determiner "no" answers nothing: "there is no circle".
_YES_NO = re.compile(
    r"""
      (?P<yes>\b(?:yes|yeah|yep|yup)\b)
    | (?P<no>\b(?:nope|nah)\b
      | (?<=\byes\ or\ )no\b
      | \bno\b(?=\s*(?:[.,;:!)"'\n-]|no\b|way\s*(?:[.!]|$)|$)|\s+(?:it|they|there|the|this|that|these|those|he|we|i)\b))
    | (?P<si>\A(?:sí|oui|ja|sim|да|はい|네|예|是的?|对|有|نعم|true|correct
      |certainly|definitely|absolutely|of\ course|indeed|sure|i\ (?:think|believe|guess|suppose)\ so)
      (?!\ not\b)(?=[\s.,;:!]|\Z))
    | (?P<non>\A(?:non|nein|não|нет|いいえ|아니[요오]?|不是?|没有?|沒有?|否|لا|false|incorrect
      |not\ really|not\ at\ all|(?:absolutely|certainly|definitely|of\ course|probably
      |most\ likely)\ not)(?=[\s.,;:!]|\Z))
    """,
    re.IGNORECASE | re.VERBOSE,
)


def yes_no(text: str, yes: str, no: str) -> list[Mention]:
    """Returns every place where a folded text says yes or no, with the label that stands for it."""
    found = []
    for match in _YES_NO.finditer(text):
        value = yes if match["yes"] or match["si"] else no
        found.append(Mention(match.start(), match.end(), value, TEXT, match.start(), match.end()))
    return found
