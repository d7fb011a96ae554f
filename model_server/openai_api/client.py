"""Connects to the endpoint: key, retries, deadlines, and the kind of server."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import openai

from lyncean.errors import printable
from lyncean.rpc import DeadlineExceeded, InternalFailure, Unauthenticated
from lyncean.rpc.addresses import keep_out_of_logs, shown_place, without_password
from model_server.backend import Call, LoadError
from model_server.openai_api.errors import status_of

keep_out_of_logs()
log = logging.getLogger(__name__)
LOOK_TIMEOUT = 20.0
Hook = Callable[[Any], Awaitable[None]]
OLD_LIMIT, NEW_LIMIT = "max_tokens", "max_completion_tokens"
"""Names of the output limit; most endpoints know the old one, some only the new."""

_UNKNOWN = (openai.NotFoundError, openai.BadRequestError, openai.UnprocessableEntityError)
"""Failures of an endpoint without such a route or model."""


@dataclass(frozen=True, slots=True)
class Settings:
    """An endpoint, and its use.

    Attributes:
        model: Model name at the endpoint.
        name: The model's name in results; "" takes the model's.
        base_url: The endpoint; None takes $OPENAI_BASE_URL, else the vendor's own.
        key_file: File with the key; None takes $OPENAI_API_KEY. Never an argument's value.
        timeout: Seconds for one request, retries not counted.
        max_concurrency: Requests at a time.
        max_queue: Requests waiting; one more is refused.
        retries: Retries of the client itself, after 408, 409, 429 and 5xx. They are invisible to callers, so leave 0
            where callers retry by themselves.
        patience: Seconds to wait for an endpoint that is not up yet.
        image_output: The API by which it draws: "images", "chat" or "responses"; "" if it does not.
        audio_input: Whether the model takes audio.
        video_input: Whether it takes videos, as vLLM and SGLang do.
        api: "chat" completions or "responses".
        leave_out: Settings of decoding to omit from requests, as the model does not take them.
    """

    model: str
    name: str = ""
    base_url: str | None = None
    key_file: Path | None = None
    timeout: float = 300.0
    max_concurrency: int = 32
    max_queue: int = 256
    retries: int = 0
    patience: float = 60.0
    image_output: str = ""
    audio_input: bool = False
    video_input: bool = False
    api: str = "chat"
    leave_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class Endpoint:
    """Known facts about an endpoint.

    Attributes:
        kind: "vllm", "sglang", "openai", or "other".
        context: Tokens of prompt and output together; 0 if it does not say.
    """

    kind: str
    context: int


def key_in(file: Path) -> str:
    """Reads a file with a key.

    Raises:
        LoadError: If it is empty or cannot be read.
    """
    try:
        key = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise LoadError(f"{file} cannot be read as text: {error}") from error
    if not key:
        raise LoadError(f"{file} is empty: write the endpoint's key into it")
    return key


def key_of(settings: Settings) -> str:
    """Reads the key.

    Raises:
        LoadError: If the named source holds no key, or the vendor's own endpoint would be used without one.
    """
    if settings.key_file:
        key, where = key_in(settings.key_file), str(settings.key_file)
    else:
        key, where = os.environ.get("OPENAI_API_KEY", "").strip(), "OPENAI_API_KEY"
    if not key and not (settings.base_url or os.environ.get("OPENAI_BASE_URL")):
        raise LoadError("no key: set OPENAI_API_KEY or --api-key-file, or --base-url for an endpoint of your own")
    if not all("!" <= sign <= "~" for sign in key):
        raise LoadError(f"{where} holds no key: a key is one word of ASCII letters, digits and signs")
    return key or "none"


def make_client(settings: Settings, watch: Hook) -> openai.AsyncOpenAI:
    """Returns a client; nothing is sent yet.

    Args:
        settings: The endpoint.
        watch: Called with each request before it is sent.
    """
    return openai.AsyncOpenAI(
        api_key=key_of(settings),
        base_url=settings.base_url,
        max_retries=settings.retries,
        timeout=settings.timeout,
        http_client=openai.DefaultAsyncHttpxClient(event_hooks={"request": [watch]}),
    )


def looking_client(settings: Settings) -> openai.AsyncOpenAI:
    """Returns a client for requests about the endpoint itself."""
    key = key_of(settings)
    return openai.AsyncOpenAI(api_key=key, base_url=settings.base_url, max_retries=1, timeout=LOOK_TIMEOUT)


def look(settings: Settings) -> Endpoint:
    """Asks the endpoint for its models, waiting for one that is still starting.

    A list that does not have the model may name it otherwise (Gemini's `models/...`, deployments of Azure, a folder):
    then one request of one token decides.

    Raises:
        LoadError: If it cannot be reached, refuses the key, or does not serve the model.
    """
    until = time.monotonic() + settings.patience
    check_url(settings.base_url or os.environ.get("OPENAI_BASE_URL") or "")
    with openai.OpenAI(
        api_key=key_of(settings), base_url=settings.base_url, max_retries=0, timeout=LOOK_TIMEOUT
    ) as client:
        where, by_host = without_password(str(client.base_url)), _by_host(str(client.base_url))
        while True:
            try:
                cards: dict[str, Any] = {str(card.id): card for card in client.models.list()}
                break
            except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
                raise _refused_key(where) from error
            except _UNKNOWN as error:
                if isinstance(status_of(error), Unauthenticated):
                    raise _refused_key(where) from error
                return Endpoint(by_host, 0)  # an endpoint without a list of models may well serve one
            except (openai.APIConnectionError, openai.InternalServerError, openai.RateLimitError) as error:
                if time.monotonic() > until:
                    raise LoadError(
                        f"cannot reach {where}: {error.__cause__ or error}; is it running, and is --base-url right?"
                    ) from error
                time.sleep(0.5)
            except openai.OpenAIError as error:
                raise LoadError(f"{where} is not an OpenAI-compatible endpoint: {error}") from error
            except (AttributeError, TypeError, ValueError) as error:  # a page, or JSON of another kind
                raise LoadError(
                    f"{where} is not an OpenAI-compatible endpoint: its list of models cannot be read; "
                    "does --base-url end in /v1?"
                ) from error
    if cards and settings.model not in cards:
        _probe(settings, where, cards)
    card = cards.get(settings.model)
    owner = str(getattr(card, "owned_by", "") or "").lower()
    kind = owner if owner in ("vllm", "sglang") else by_host
    length = getattr(card, "max_model_len", 0)
    return Endpoint(kind, length if isinstance(length, int) else 0)


def _refused_key(where: str) -> LoadError:
    return LoadError(f"{where} refuses the key: set OPENAI_API_KEY or --api-key-file")


def _probe(settings: Settings, where: str, cards: Iterable[str]) -> None:
    """Asks a model that the endpoint does not list for one token.

    Raises:
        LoadError: If the endpoint does not know it.
    """
    names = sorted(cards)
    some = printable(", ".join(names[:5])) + (", ..." if len(names) > 5 else "")
    with openai.OpenAI(
        api_key=key_of(settings), base_url=settings.base_url, max_retries=settings.retries, timeout=settings.timeout
    ) as client:
        try:
            client.chat.completions.create(
                model=settings.model, messages=[{"role": "user", "content": "Hi"}], max_tokens=1
            )
        except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
            raise _refused_key(where) from error
        except _UNKNOWN as error:
            if NEW_LIMIT not in str(error):  # else it knows the model, and only another name of the limit
                reason = printable(str(status_of(error)))
                raise LoadError(f"{where} does not serve {settings.model!r}; it has {some} ({reason})") from error
        except openai.OpenAIError as error:  # busy, or not up yet
            log.warning("%s could not be asked for one token: %s", where, printable(str(status_of(error))))
        except ValueError as error:
            raise LoadError(f"{where} does not answer as an OpenAI-compatible endpoint does") from error
    log.warning("%s does not list %r, only %s; it is used by that name all the same", where, settings.model, some)


def check_url(url: str) -> None:
    """Raises LoadError unless it is an http address or empty."""
    try:
        parts = urlsplit(url)
        good = not url or (parts.scheme in ("http", "https") and parts.hostname and parts.port != 0)
    except ValueError:  # brackets that do not match, an invalid port
        good = False
    if not good:
        raise LoadError(f"{shown_place(url)} is not a URL: give --base-url in full, for example http://host:8000/v1")


def _by_host(url: str) -> str:
    return "openai" if "://api.openai.com" in url else "other"


async def ask(send: Callable[..., Awaitable[Any]], call: Call, timeout: float, **fields: Any) -> Any:
    """Makes one request within the caller's deadline.

    Args:
        send: The client's method, such as `client.chat.completions.create`.
        call: The call that waits.
        timeout: Seconds at most.
        **fields: The request.

    Raises:
        StatusError: Any failure, mapped to the contract's statuses.
    """
    left = timeout if call.deadline is None else min(timeout, call.deadline - time.monotonic())
    if left <= 0:
        raise DeadlineExceeded("deadline_in_queue", "the deadline passed before the endpoint was asked")
    try:
        return await send(timeout=left, **fields)
    except openai.OpenAIError as error:
        raise status_of(error) from error
    except ValueError as error:
        raise InternalFailure("bad_reply", "the endpoint's reply is not the JSON that it says it is") from error
