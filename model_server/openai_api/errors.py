"""Maps an endpoint's failures to the contract's statuses."""

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
"""Matches flagged prompts only; an account may be flagged as well."""
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


class _Report(NamedTuple):
    """An endpoint's description of a failure.

    Attributes:
        code: Its code, type and status in lower case.
        text: Its message as one line, without the key.
        body: The object that holds them.
    """

    code: str
    text: str
    body: Mapping[str, Any]


def status_of(error: openai.OpenAIError) -> StatusError:
    """Maps an error of the client to a status."""
    if isinstance(error, openai.APITimeoutError):
        return DeadlineExceeded("endpoint_timeout", "the endpoint did not answer in time")
    if isinstance(error, openai.APIConnectionError):
        return Unavailable("endpoint_unreachable", f"the endpoint cannot be reached: {error.__cause__ or error}")
    if not isinstance(error, openai.APIStatusError):
        return InternalFailure("bad_reply", f"the endpoint's reply cannot be read: {type(error).__name__}")
    request = getattr(error, "request", None)  # litellm's errors may have none
    key = request.headers.get("authorization", "").removeprefix("Bearer ") if request is not None else ""
    report = _report(error.body, error.message, key)
    return _classified(error.status_code, report, retry_after(getattr(error.response, "headers", {})))


def status_in(reply: Any) -> StatusError | None:
    """Returns the failure that a reply with status 200 carries in place of an answer; None if it carries none.

    OpenRouter sends 200 as soon as a model has begun, and so do some proxies for every failure.
    """
    problem = getattr(reply, "error", None)
    if not problem and getattr(reply, "object", "") == "error":
        problem = {name: getattr(reply, name, None) for name in ("message", "code", "type")}
    if not problem:
        return None
    report = _report(
        problem if isinstance(problem, dict) else getattr(problem, "model_dump", lambda: str(problem))(), "", ""
    )
    status = str(report.body.get("code") or report.body.get("status") or "")
    return _classified(int(status) if re.fullmatch(r"[45]\d\d", status) else 500, report, None)


def _classified(status: int, report: _Report, pause: float | None) -> StatusError:
    """Returns the failure that an HTTP status and its body mean.

    401 and 403 stop the run, and so does an unpaid account with any code: every other call would fail alike. A
    gateway's 403 for a flagged prompt does not. 429 is a full queue. Regardless of the code, a context that is too
    long is OUT_OF_RANGE, and an input that the model cannot take UNIMPLEMENTED.
    """
    code, text, body = report
    message = f"the endpoint says {status}: {text}"
    pause = _pause_in(report) if pause is None else pause
    if status == 402 or (status < 500 and (_UNPAID.search(code) or _NO_CREDIT.search(text))):
        return Unauthenticated("quota_exhausted", message)
    if status in (400, 403) and (_FLAGGED.search(text) or "invalid_prompt" in code):
        return Denied("content_policy", message)
    if status in (401, 403) or (status == 400 and _KEY.search(text)):
        return Unauthenticated("endpoint_key", f"{message}; set the key with --api-key-file or OPENAI_API_KEY")
    if status == 429 and _NEVER_FITS.search(text):
        return InvalidRequest("request_too_large", message)
    if status in (429, 529) or (status == 503 and _BUSY.search(text)):
        busy = f"{message}; it asks to wait for {pause:,.0f} s" if pause and pause > LONGEST_PAUSE else message
        return Overloaded("endpoint_busy", busy, retry_after=pause)
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
    if status in (400, 422) and (name := _refused_setting(report)):
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


def _refused_setting(report: _Report) -> str:
    """Returns the setting of decoding that an endpoint does not take, at all or with this value; "" for another error.

    Reasoning models take no temperature: https://platform.openai.com/docs/guides/reasoning.
    """
    name = report.body.get("param")
    named = name if name in SETTINGS else next((match[1] or match[2] for match in _SETTING.finditer(report.text)), "")
    return named if named and _NOT_TAKEN.search(report.text) else ""


def _report(body: Any, otherwise: str, key: str) -> _Report:
    """Reads the body of a failure, and hides the key, which some endpoints quote."""
    if isinstance(body, list) and body:  # Google's
        body = body[0]
    if not isinstance(body, dict):
        return _Report("", _hidden(str(body or otherwise), key), {})
    inner = body.get("error", body)
    if not isinstance(inner, dict):
        return _Report("", _hidden(str(inner), key), {})
    text = inner.get("message") or inner.get("detail") or otherwise or inner
    metadata = inner.get("metadata")
    if isinstance(metadata, dict) and metadata.get("raw"):  # OpenRouter's: the message of the model's provider
        text = f"{text}: {metadata['raw']}"
    codes = [inner.get(name) for name in ("code", "type", "status")]
    codes += [detail.get("reason") for detail in _details(inner)]
    code = " ".join(str(word) for word in codes if word).lower()
    return _Report(code, _hidden(str(text), key), inner)


def _details(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the details of a failure, as Google sends them."""
    details = body.get("details")
    return [detail for detail in details if isinstance(detail, dict)] if isinstance(details, list) else []


def _hidden(text: str, key: str) -> str:
    return short(text.replace(key, "***") if len(key) > 7 else text)


def _facts(text: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the limit of a context and the value beyond it, in tokens, as far as the message has them."""
    if isinstance(body.get("n_ctx"), int) and isinstance(body.get("n_prompt_tokens"), int):  # llama.cpp
        return {"limit": str(body["n_ctx"]), "value": str(body["n_prompt_tokens"])}
    facts = {}
    for name, patterns in (("limit", _LIMITS), ("value", _VALUES)):
        if match := next((hit for pattern in patterns if (hit := pattern.search(text))), None):
            facts[name] = str(sum(int(number.replace(",", "")) for number in match.groups()))
    return facts


def _pause_in(report: _Report) -> float | None:
    """Returns the seconds that a failure asks to wait for, by Google's RetryInfo or its message; None without any."""
    for detail in _details(report.body):
        delay = detail.get("retryDelay")
        if isinstance(delay, str) and re.fullmatch(r"\d+(\.\d+)?s", delay):
            return float(delay[:-1])
    if not (match := _PAUSE.search(report.text)):
        return None
    parts = re.findall(r"(\d+(?:\.\d+)?) ?(ms|h|m|s)", match[1], re.IGNORECASE)
    return sum(float(number) * _SECONDS[unit.lower()] for number, unit in parts)


def short(text: str) -> str:
    """Returns an endpoint's text as one line of bounded length."""
    text = " ".join(text.split())
    return text if len(text) <= 300 else f"{text[:300]}..."
