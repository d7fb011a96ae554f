"""What an endpoint's failure means in the contract's statuses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

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
from lyncean.rpc.errors import LONGEST_PAUSE
from lyncean.rpc.limiter import retry_after

_CONTEXT = re.compile(
    r"context.?length|maximum context|context (window|limit|size)|prompt is too long|too many tokens|max_model_len|"
    r"maximum model length|input length|input token count|(maximum|max) number of tokens",
    re.IGNORECASE,
)
_POLICY = re.compile(
    r"content.?(policy|filter|management)|safety|moderation|responsible.?ai|data.?inspection.?failed|"
    r"inappropriate content|unsafe_generation",
    re.IGNORECASE,
)
_FLAGGED = re.compile(r"\b(input|prompt|content|request)s? (was|were|is|are|has been) flagged", re.IGNORECASE)
"""Of a prompt; an account may be flagged as well."""
_KEY = re.compile(
    r"\b(invalid|incorrect|missing|expired) api.?key|api.?key (is )?(invalid|incorrect|missing|expired|not valid)",
    re.IGNORECASE,
)
_UNPAID = re.compile(r"quota|billing|insufficient.(funds|credit|balance)|arrearage", re.IGNORECASE)
_NO_CREDIT = re.compile(
    r"credit balance is too low|insufficient (funds|credits|balance)|in good standing", re.IGNORECASE
)
SETTINGS = ("temperature", "top_p", "seed", "stop")
"""Settings of decoding that a server may leave out of its requests."""
_SETTING = re.compile(r"\b(temperature|top_p)\b|[`'\"](seed|stop)[`'\"]")
_NOT_TAKEN = re.compile(
    r"unsupported|not support|only .{0,20}default|deprecated|not permitted|not allowed|un(recognized|known|expected)|"
    r"cannot (both )?be|may only be|must be (set to )?1\b",
    re.IGNORECASE,
)
_LACKS = re.compile(
    r"image input is not supported|is not a multimodal model|unsupported content part|only supported by certain models",
    re.IGNORECASE,
)
_NEVER_FITS = re.compile(r"request too large", re.IGNORECASE)
"""With 429: more tokens than an account may ever send in a minute."""
_BUSY = re.compile(r"overloaded|too many requests|rate.?limit", re.IGNORECASE)
_NUMBER = r"(\d[\d,]*)"
_LIMITS = [
    re.compile(pattern.replace("#", _NUMBER), re.IGNORECASE)
    for pattern in (
        r"length (?:is|of) #",
        r"context length \(#",
        r"tokens allowed \(#",
        r"context (?:window|size|limit) \(?(?:of |is )?#",
        r"> #",
        r"should be \[\d+, #\]",
    )
]
_VALUES = [
    re.compile(pattern.replace("#", _NUMBER), re.IGNORECASE)
    for pattern in (
        r"# \+ # >",
        r"has # input tokens plus #",
        r"(?:requested|resulted in|has) #",
        r"token count \(#",
        r"(?:input|request) \(#",
        r"prompt \(length #",
        r"(?:too long|prompt): # tokens",
        r"requested tokens \(#",
    )
]
_PAUSE = re.compile(r"(?:try again in|retry after|retry in) ((?:[\d.]+ ?(?:h|ms|m|s)[a-z]* ?)+)", re.IGNORECASE)
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


class _Said(NamedTuple):
    """What an endpoint says of a failure.

    Attributes:
        code: Its code, type and status in lower case.
        text: Its message as one line, without the key.
        body: The object that holds them.
    """

    code: str
    text: str
    body: Mapping[str, Any]


def status_of(error: openai.OpenAIError) -> StatusError:
    """Maps what the client raised to a status."""
    if isinstance(error, openai.APITimeoutError):
        return DeadlineExceeded("endpoint_timeout", "the endpoint did not answer in time")
    if isinstance(error, openai.APIConnectionError):
        return Unavailable("endpoint_unreachable", f"the endpoint cannot be reached: {error.__cause__ or error}")
    if not isinstance(error, openai.APIStatusError):
        return InternalFailure("bad_reply", f"the endpoint's reply cannot be read: {type(error).__name__}")
    request = getattr(error, "request", None)  # litellm's errors may have none
    key = request.headers.get("authorization", "").removeprefix("Bearer ") if request is not None else ""
    said = _said(error.body, error.message, key)
    return _classified(error.status_code, said, retry_after(getattr(error.response, "headers", {})))


def status_in(reply: Any) -> StatusError | None:
    """Returns the failure that a reply with status 200 carries in place of an answer; None where it carries none.

    OpenRouter sends 200 as soon as a model has begun, and so do some proxies for every failure.
    """
    found = getattr(reply, "error", None)
    if not found and getattr(reply, "object", "") == "error":
        found = {name: getattr(reply, name, None) for name in ("message", "code", "type")}
    if not found:
        return None
    said = _said(found if isinstance(found, dict) else getattr(found, "model_dump", lambda: str(found))(), "", "")
    status = str(said.body.get("code") or said.body.get("status") or "")
    return _classified(int(status) if re.fullmatch(r"[45]\d\d", status) else 500, said, None)


def _classified(status: int, said: _Said, pause: float | None) -> StatusError:
    """Returns the failure that an HTTP status and what was said with it mean.

    401 and 403 stop the run, and so does what has not been paid for, whatever its code: every other call would
    fail alike. A gateway's 403 for a flagged prompt does not. 429 is a full queue. A context that is too long is
    OUT_OF_RANGE, and an input that the model cannot take UNIMPLEMENTED, whatever the code.
    """
    code, text, body = said
    message = f"the endpoint says {status}: {text}"
    pause = _pause_in(said) if pause is None else pause
    if status == 402 or (status < 500 and (_UNPAID.search(code) or _NO_CREDIT.search(text))):
        return Unauthenticated("quota_exhausted", message)
    if status in (400, 403) and (_FLAGGED.search(text) or "invalid_prompt" in code):
        return Denied("content_policy", message)
    if status in (401, 403) or (status == 400 and _KEY.search(text)):
        return Unauthenticated("endpoint_key", f"{message}; set the key with --api-key-file or OPENAI_API_KEY")
    if status == 429 and _NEVER_FITS.search(text):
        return InvalidRequest("request_too_large", message)
    if status in (429, 529) or (status == 503 and _BUSY.search(text)):
        words = f"{message}; it asks to wait for {pause:,.0f} s" if pause and pause > LONGEST_PAUSE else message
        return Overloaded("endpoint_busy", words, retry_after=pause)
    if "context" in code or _CONTEXT.search(text) or _LIMITS[-1].search(text):
        return OutOfRange("context_exceeded", message, **_facts(text, body))
    if _LACKS.search(text):
        return Unsupported("endpoint_lacks_input", message)
    if status in (408, 504):
        return DeadlineExceeded("endpoint_timeout", message)
    if status >= 500 or status == 409:
        return Unavailable("endpoint_failed", message, retry_after=pause)
    if _POLICY.search(code) or (status == 400 and _POLICY.search(text)):
        return Denied("content_policy", message)
    if status in (400, 422) and (name := _refused_setting(said)):
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


def _refused_setting(said: _Said) -> str:
    """Returns the setting of decoding that an endpoint does not take, at all or with this value; "" for another error.

    Reasoning models take no temperature: https://platform.openai.com/docs/guides/reasoning.
    """
    name = said.body.get("param")
    named = name if name in SETTINGS else next((found[1] or found[2] for found in _SETTING.finditer(said.text)), "")
    return named if named and _NOT_TAKEN.search(said.text) else ""


def _said(found: Any, otherwise: str, key: str) -> _Said:
    """Reads the object of a failure; some endpoints quote the key that they were given."""
    if isinstance(found, list) and found:  # Google's
        found = found[0]
    if not isinstance(found, dict):
        return _Said("", _hidden(str(found or otherwise), key), {})
    inner = found.get("error", found)
    if not isinstance(inner, dict):
        return _Said("", _hidden(str(inner), key), {})
    text = inner.get("message") or inner.get("detail") or otherwise or inner
    metadata = inner.get("metadata")
    if isinstance(metadata, dict) and metadata.get("raw"):  # OpenRouter's: what the model's provider said
        text = f"{text}: {metadata['raw']}"
    words = [inner.get(name) for name in ("code", "type", "status")]
    words += [detail.get("reason") for detail in _details(inner)]
    code = " ".join(str(word) for word in words if word).lower()
    return _Said(code, _hidden(str(text), key), inner)


def _details(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns Google's details."""
    found = body.get("details")
    return [detail for detail in found if isinstance(detail, dict)] if isinstance(found, list) else []


def _hidden(text: str, key: str) -> str:
    return short(text.replace(key, "***") if len(key) > 7 else text)


def _facts(text: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the limit of a context and the value that is beyond it, in tokens, as far as they are said."""
    if isinstance(body.get("n_ctx"), int) and isinstance(body.get("n_prompt_tokens"), int):  # llama.cpp
        return {"limit": str(body["n_ctx"]), "value": str(body["n_prompt_tokens"])}
    facts = {}
    for name, patterns in (("limit", _LIMITS), ("value", _VALUES)):
        if match := next((found for pattern in patterns if (found := pattern.search(text))), None):
            facts[name] = str(sum(int(number.replace(",", "")) for number in match.groups()))
    return facts


def _pause_in(said: _Said) -> float | None:
    """Returns the seconds that a failure's body asks for: Google's RetryInfo, or in words."""
    for detail in _details(said.body):
        delay = detail.get("retryDelay")
        if isinstance(delay, str) and re.fullmatch(r"\d+(\.\d+)?s", delay):
            return float(delay[:-1])
    if not (match := _PAUSE.search(said.text)):
        return None
    parts = re.findall(r"(\d+(?:\.\d+)?) ?(ms|h|m|s)", match[1], re.IGNORECASE)
    return sum(float(number) * _SECONDS[unit.lower()] for number, unit in parts)


def short(text: str) -> str:
    """Returns what an endpoint said as one line of bounded length."""
    text = " ".join(text.split())
    return text if len(text) <= 300 else f"{text[:300]}..."
