"""What an endpoint's failure means in the contract's statuses."""

from __future__ import annotations

import re
from typing import Any

import openai

from lyncean.rpc import (
    SETTING_REFUSED,
    DeadlineExceeded,
    Denied,
    InternalFailure,
    InvalidRequest,
    OutOfRange,
    Overloaded,
    StatusError,
    Unauthenticated,
    Unavailable,
    Unsupported,
)
from lyncean.rpc.limiter import retry_after

_CONTEXT = re.compile(
    r"context.?length|maximum context|context window|prompt is too long|too many tokens|max_model_len|"
    r"longer than the maximum model length|input length",
    re.IGNORECASE,
)
_POLICY = re.compile(r"content.?(policy|filter|management)|safety|moderation|responsible.?ai", re.IGNORECASE)
_FLAGGED = re.compile(r"\b(input|prompt|content|request)s? (was|were|is|are|has been) flagged", re.IGNORECASE)
"""Of a prompt; an account may be flagged as well."""
_KEY = re.compile(
    r"\b(invalid|incorrect|missing|expired) api.?key|api.?key (is )?(invalid|incorrect|missing|expired|not valid)",
    re.IGNORECASE,
)
_UNPAID = re.compile(r"quota|billing|insufficient.(funds|credit|balance)")
SETTINGS = ("temperature", "top_p", "seed", "stop")
"""Settings of decoding that a server may leave out of its requests."""
_SETTING = re.compile(r"\b(temperature|top_p)\b|[`'\"](seed|stop)[`'\"]")
_NOT_TAKEN = re.compile(
    r"unsupported|not support|only .{0,20}default|deprecated|not permitted|not allowed|un(recognized|known|expected)|"
    r"cannot (both )?be|may only be|must be (set to )?1\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d[\d,]*\d|\d")


def status_of(error: openai.OpenAIError) -> StatusError:
    """Maps what the client raised, after its own retries, to a status.

    401 and 403 stop the run, and so does what has not been paid for, whatever its code: every other call would
    fail alike. A gateway's 403 for a flagged prompt does not. 429 is a full queue. A context that is too long is
    OUT_OF_RANGE whatever its code.
    """
    if isinstance(error, openai.APITimeoutError):
        return DeadlineExceeded("endpoint_timeout", "the endpoint did not answer in time")
    if isinstance(error, openai.APIConnectionError):
        return Unavailable("endpoint_unreachable", f"the endpoint cannot be reached: {error.__cause__ or error}")
    if not isinstance(error, openai.APIStatusError):
        return InternalFailure("bad_reply", f"the endpoint's reply cannot be read: {type(error).__name__}")
    status, code, text = error.status_code, *_error_text(error)
    message, pause = f"the endpoint says {status}: {text}", retry_after(getattr(error.response, "headers", {}))
    if status == 402 or (status < 500 and _UNPAID.search(code)):
        return Unauthenticated("quota_exhausted", message)
    if status == 403 and _FLAGGED.search(text):
        return Denied("content_policy", message)
    if status in (401, 403) or (status == 400 and _KEY.search(text)):
        return Unauthenticated("endpoint_key", f"{message}; set the key with --api-key-file or OPENAI_API_KEY")
    if status == 429:
        return Overloaded("endpoint_busy", message, retry_after=pause)
    if status in (408, 504):
        return DeadlineExceeded("endpoint_timeout", message)
    if status >= 500 or status == 409:
        return Unavailable("endpoint_failed", message, retry_after=pause)
    if "context_length" in code or _CONTEXT.search(text):
        numbers = [number.replace(",", "") for number in _NUMBER.findall(text)]
        facts = dict(zip(("limit", "value"), numbers, strict=False))
        return OutOfRange("context_exceeded", message, **facts)
    if _POLICY.search(code) or (status == 400 and _POLICY.search(text)):
        return Denied("content_policy", message)
    if status in (400, 422) and (name := _refused_setting(error, text)):
        return InvalidRequest(
            SETTING_REFUSED,
            f"{message}; leave {name} out: --model-option leave-out={name} (of a server that runs already: "
            f"model-server serve --leave-out {name})",
        )
    if status == 404 and "v1/responses" in text:
        return Unsupported("endpoint_not_found", f"{message}; give --model responses:NAME")
    if status == 404:
        return Unsupported("endpoint_not_found", f"{message}; is --model right, and does --base-url end in /v1?")
    if status == 413:
        return InvalidRequest("request_too_large", message)
    return InvalidRequest("endpoint_refused", message)


def _refused_setting(error: openai.APIStatusError, text: str) -> str:
    """Returns the setting of decoding that an endpoint does not take, at all or with this value; "" for another error.

    Reasoning models take no temperature: https://platform.openai.com/docs/guides/reasoning.
    """
    body: Any = error.body if isinstance(error.body, dict) else {}
    inner = body.get("error", body)
    said = inner.get("param") if isinstance(inner, dict) else None
    named = said if said in SETTINGS else next((match[1] or match[2] for match in _SETTING.finditer(text)), "")
    return named if named and _NOT_TAKEN.search(text) else ""


def _error_text(error: openai.APIStatusError) -> tuple[str, str]:
    """Returns the error's code and type, and its text without the key: some endpoints quote what they were given."""
    body: Any = error.body
    if isinstance(body, list) and body:  # Google's
        body = body[0]
    code, text = "", error.message
    if isinstance(body, dict):
        inner = body.get("error", body)
        text = str(inner)
        if isinstance(inner, dict):
            text = str(inner.get("message") or inner.get("detail") or error.message)
            code = f"{inner.get('code') or ''} {inner.get('type') or ''}".lower()
    request = getattr(error, "request", None)  # litellm's errors may have none
    key = request.headers.get("authorization", "").removeprefix("Bearer ") if request is not None else ""
    return code, short(text.replace(key, "***") if len(key) > 7 else text)


def short(text: str) -> str:
    """Returns what an endpoint said as one line of bounded length."""
    text = " ".join(text.split())
    return text if len(text) <= 300 else f"{text[:300]}..."
