"""Addresses as they are shown."""

from __future__ import annotations

import pytest
from hypothesis import example, given, strategies as st

from lyncean.rpc.addresses import without_password


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("--judge=openai:m@http://u:p@host/v1", "--judge=openai:m@http://***@host/v1"),
        ("http://u:p@ss@host/v1", "http://***@host/v1"),
        ("http://u:p/ss@host/v1", "http://***@host/v1"),
        ("http://u:p ss@host/v1", "http://***@host/v1"),
        ("postgresql:///j?user=u&password=SECRET", "postgresql:///j?user=u&password=***"),
        ("postgresql:///j?password=a@b&host=h", "postgresql://***&host=h"),
        ("postgresql:///j?pass%77ord=x;sslkey=y", "postgresql:///j?pass%77ord=***;sslkey=***"),
        ("http://host/v1?api-version=2024-02-01", "http://host/v1?api-version=2024-02-01"),
        ("s3://bucket/runs/first", "s3://bucket/runs/first"),
        ("openai:gpt@2024", "openai:gpt@2024"),
        ("a:1,b:2", "a:1,b:2"),
    ],
)
def test_what_is_shown(word: str, shown: str) -> None:
    assert without_password(word) == shown


_LETTERS = "αβγ"


@given(st.text(_LETTERS + "ab@/?&:=#%;+, \n", max_size=12))
@example("α@β")
@example("α?a=β&γ")
@example("α/β@γ")
def test_no_password_is_left(secret: str) -> None:
    for word in (
        f"postgresql://user:{secret}@host:5432/db?connect_timeout=3",
        f"--judge=openai:model@https://{secret}@host/v1",
        f"postgresql://user:{secret}@[::1],other/db",
    ):
        assert not set(_LETTERS) & set(without_password(word))
    value = secret.translate(dict.fromkeys(map(ord, "&;")))
    for name in ("password", "sslpassword", "api_key", "X-Amz-Signature", "access_token"):
        word = f"postgresql:///db?user=u&{name}={value}&connect_timeout=3"
        assert not set(_LETTERS) & set(without_password(word))
