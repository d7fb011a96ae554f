"""Text protocols as data: one TOML file of `protocols/` each, texts exact to the last blank."""

from __future__ import annotations

import hashlib
import tomllib
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

from orchestrator.tools.arguments import Syntax
from orchestrator.tools.pixels import CropPolicy, SizePolicy

_FOLDER = Path(__file__).parent / "protocols"


class Decoding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Decoding of the protocol's reference; None leaves the task's value.

    Attributes:
        max_output_tokens: Tokens of one answer.
        temperature: As in GenerationConfig.
        top_p: As in GenerationConfig.
        top_k: As in GenerationConfig.
        stop: Strings that end an answer.
        put_back: The stop string that is put back where an answer holds `CallForm.open` without its end.
    """

    max_output_tokens: int
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop: tuple[str, ...] = ()
    put_back: str = ""


class CallForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Place and syntax of the calls in an answer.

    Attributes:
        open: Mark before a call.
        close: Mark after a call; a call that lacks it ends with the answer.
        which: The call that counts of several: "first", "last" or "all". "last_at_end" is the last, if
            the answer ends with it.
        syntax: Language of the arguments.
        pattern: Expression for the whole answer with the groups `box` and `source`, in place of an object with name
            and arguments; for code, with the group `code`. RE2.
        fence: For code: marks around it in a call, each of which may be missing.
        thought_end: Mark before which nothing is a call; "" where calls count anywhere.
        repaired: Whether name and arguments are searched for in a call that cannot be read.
        echo: The model's own message in the next request: "raw", "stripped" of white space at both ends, or "rebuilt"
            from the calls that were read.
    """

    open: str
    close: str
    which: Literal["first", "last", "last_at_end", "all"]
    syntax: Syntax = "json"
    pattern: str = ""
    fence: tuple[str, str] | None = None
    thought_end: str = ""
    repaired: bool = False
    echo: Literal["raw", "stripped", "rebuilt"] = "raw"


class ResultForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The user's message that holds results.

    Attributes:
        parts: Its pieces for one result; "{content}" is what the tool gave back. In the others {turn} is the answer's
            number from 0, {observation} that number from 1, {width} and {height} are the size of the first image. Of
            code, {stdout} is what it printed, {stderr} its error, "{images}" its images, and "{output}" these, or what
            it printed where there are none.
        error: The same where the result is an error and {error} its text; none if an error ends the trajectory.
        between: Stands between several results.
        again: Whether the same request is sent again, unchanged, where a result is an error or holds nothing.
    """

    parts: tuple[str, ...]
    error: tuple[str, ...] = ()
    between: str = ""
    again: bool = False


class AnswerForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Place of the final answer in an answer without a call.

    Attributes:
        open: Mark before it; "" if the whole text is the answer.
        last: Whether the last of several counts, else the first.
        close: Mark after it. If `closes`, every answer that has it is final.
        closes: See `close`.
        opens: Whether an answer that has `open` is final.
        pattern: Expression with the group `answer`, in place of both marks. RE2.
        whole: Whether the whole text is the answer where the marks are missing, else nothing is.
        again: Answers without a call for which the same request is sent again: "unanswered" is those without `close`,
            "empty" those of which nothing is left.
    """

    open: str = ""
    close: str = ""
    last: bool = False
    closes: bool = False
    opens: bool = False
    pattern: str = ""
    whole: bool = True
    again: Literal["never", "unanswered", "empty"] = "never"


class ToolForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The protocol's tool, which cuts a box out of an image.

    Attributes:
        line: The tool's description as JSON, as the system prompt has it.
        box: Argument that holds the four numbers.
        index: Argument that names the image; "" if it is always the first.
        first_index: Number of the first image.
        named: For names in place of numbers: that of the first image, and the beginning of those of tool results.
        syntax: Language of its arguments: that of a call that was read is "json".
        checks_name: Whether a call must name this tool.
        validates: Whether the arguments must fit the schema.
        errors: Texts for the model by cause: "name", "name NAME" for one name, "unreadable", "arguments", "box",
            "index" and "crop". {name}, {type}, {error} and {count} are filled in. What is not listed is the error's
            own text.
    """

    line: str
    box: str
    index: str = ""
    first_index: int = 0
    named: tuple[str, str] | None = None
    syntax: Syntax = "json"
    checks_name: bool = False
    validates: bool = False
    errors: dict[str, str] = {}


class ImageForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Sizes in which the client sends images; without bounds it sends the files as they are.

    Attributes:
        policy: Bounds and resampling of a user's image.
        results: The same of a tool's image; None sends it as it is.
        kind: Format in which images are then sent.
        results_kind: That of a tool's image, where it is another.
        cut: Whether the tool gets a user's image as it was sent; else as it is stored.
        first: For code: whether it gets the first image alone.
        white: Values from which on all of a tool's image is white, which is then not sent; 0 sends all.
    """

    policy: SizePolicy | None = None
    results: SizePolicy | None = None
    kind: Literal["PNG", "JPEG"] = "PNG"
    results_kind: Literal["", "PNG", "JPEG"] = ""
    cut: bool = False
    first: bool = False
    white: int = 0


class CodeForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The protocol's tool, which runs code; it is one of a server of tools.

    Attributes:
        tool: Its name there; it takes {"code": text}.
        nothing: Its text if code shows nothing.
        folder: Folder in which code finds the images as files: image_1.png and so on.
    """

    tool: str
    nothing: str = ""
    folder: str = ""


class Spec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A text protocol.

    Attributes:
        name: Its name in `--protocol`.
        source: Repository, commit and files that it is written from.
        deviations: Differences from that, for readers.
        system: System prompt, after the task's own. {tools} stands for the tool's line.
        prefix: Text before the user's message, if it has images; {images} stands for "![image](image_1.jpg)" and so
            on, one for each.
        lead: Text before the last text of the user's message.
        suffix: Text after the user's message. For code, {path} is the first image's file, {size} its size.
        thoughts: The reasoning of an answer in its message, where a server tells it apart; {reasoning} is its text.
        max_calls: Requests of a trajectory.
        judged_at_limit: Whether the last answer counts when there were so many.
        decoding: See `Decoding`; so for the others. A protocol has `tool` and `crop`, or `code`.
    """

    name: str
    source: str
    deviations: tuple[str, ...]
    system: str
    max_calls: int
    judged_at_limit: bool
    decoding: Decoding
    call: CallForm
    result: ResultForm
    answer: AnswerForm
    tool: ToolForm = ToolForm("", "")
    crop: CropPolicy = CropPolicy("pixels", "kept", "kept")
    code: CodeForm | None = None
    prefix: str = ""
    lead: str = ""
    suffix: str = ""
    thoughts: str = "<think>{reasoning}</think>"
    images: ImageForm = ImageForm()


def names() -> list[str]:
    """Returns the names of the text protocols."""
    return sorted(file.stem for file in _FOLDER.glob("*.toml"))


@cache
def load(name: str) -> Spec:
    """Returns a text protocol by its name; it must be one of `names`."""
    return msgspec.convert(tomllib.loads((_FOLDER / f"{name}.toml").read_text("utf-8")), Spec)


def sha256(name: str) -> str:
    """Returns the hash of a protocol's file."""
    return hashlib.sha256((_FOLDER / f"{name}.toml").read_bytes()).hexdigest()
