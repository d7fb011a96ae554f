"""The kit for tools in Python: subclass `Tools`, give it methods, and run `tool-server serve FILE.py`."""

from __future__ import annotations

import hashlib
import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import PIL

from lyncean.errors import UserError
from lyncean.media.picture_formats import DAMAGE
from lyncean.model.v1 import model_pb2 as model
from tool_server import pictures
from tool_server.types import Output, Session

if TYPE_CHECKING:
    from PIL import Image
    from pydantic import BaseModel

__all__ = ["Output", "ToolError", "Tools"]

MAX_PIXELS = 100_000_000
"""Maximum pixels of an image that a tool gets."""
_ARGUMENT = re.compile(r"(\w+)(?: *\([^)]*\))?: *(.*)")
_SECTION = re.compile(r"\n[ \t]*(Args|Returns|Raises|Yields|Attributes|Examples?|Notes?):[ \t]*(?:\n|$)")
_IMAGE = "Number of the image, from 1, in the order of the conversation; images from tools count."


class ToolError(Exception):
    """Raised by a tool for a mistake of the model, which reads the message; other exceptions fail the call."""


class Tools:
    """Base class of tools: an instance is one conversation, and each public method is a tool.

    A method's name, docstring and annotations describe it to the model: arguments of any type that pydantic reads
    from JSON, and images (`PIL.Image.Image`), which the model names by their number. It returns text, an image, the
    bytes of an image file, several of them, or an `Output`. Methods of several conversations run at a time.

    Attributes:
        revision: Identity of everything beside the file's code that results depend on, for example weights.
        stateful: Whether a result may depend on earlier calls of the conversation.
    """

    revision = ""
    stateful = True

    def close(self) -> None:
        """Frees the conversation's resources."""


class Kit:
    """A toolset of a subclass of `Tools`.

    Args:
        kind: The class.
        source: Its file's code.

    Raises:
        UserError: It has no methods, or one cannot be described.
    """

    def __init__(self, kind: type[Tools], source: bytes) -> None:
        self._kind = kind
        self.stateful = kind.stateful
        code = hashlib.sha256(source + Path(__file__).read_bytes() + pictures.code() + PIL.__version__.encode())
        self.revision = f"{kind.revision} {code.hexdigest()[:16]}".strip()
        self._methods = {name: _Method(name, function) for name, function in _functions(kind)}
        if not self._methods:
            raise UserError(f"{kind.__name__} has no public method: each is a tool")

    def tools(self) -> Sequence[model.Tool]:
        """Returns the methods as tools."""
        return [method.describe() for method in self._methods.values()]

    def open(self) -> Session:
        """Returns a new conversation."""
        return _Conversation(self._kind(), self._methods)


class _Conversation:
    def __init__(self, instance: Tools, methods: Mapping[str, _Method]) -> None:
        self._instance, self._methods = instance, methods

    def call(self, name: str, arguments: str, images: Sequence[bytes]) -> Output:
        """Calls a method; see `tool_server.types.Session`."""
        try:
            values = self._methods[name].read(arguments, images)
            return _output(getattr(self._instance, name)(**values))
        except ToolError as error:
            return Output((str(error) or "The call failed.",), is_error=True)

    def close(self) -> None:
        """Closes the instance."""
        self._instance.close()


class _Method:
    """A method as a tool: its description, and the reader of its arguments."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        from PIL import Image
        from pydantic import ConfigDict, Field, create_model
        from pydantic.errors import PydanticUserError

        self._name = name
        self._description, notes = _described(inspect.getdoc(function) or "")
        fields: dict[str, Any] = {}
        self._images = set[str]()
        try:
            hints = get_type_hints(function, include_extras=True)
        except NameError as error:
            raise UserError(f"tool {name}: {error}: name types that the module imports") from error
        for argument, parameter in list(inspect.signature(function).parameters.items())[1:]:
            kind, note = hints.get(argument, Any), notes.get(argument)
            if kind is Image.Image:
                self._images.add(argument)
                kind, note = Annotated[int, Field(ge=1)], note or _IMAGE
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[argument] = kind, Field(default, description=note)
        try:
            config = ConfigDict(extra="forbid")
            self._model: type[BaseModel] = create_model(name, __config__=config, **fields)
            self._schema = _untitled(self._model.model_json_schema())
        except PydanticUserError as error:
            raise UserError(f"tool {name}: {str(error).splitlines()[0]}") from error

    def describe(self) -> model.Tool:
        return model.Tool(name=self._name, description=self._description, input_schema=json.dumps(self._schema))

    def read(self, arguments: str, images: Sequence[bytes]) -> dict[str, Any]:
        """Returns the arguments in the form that the method takes.

        Raises:
            ToolError: They cannot be read, or they name a missing image.
        """
        from pydantic import ValidationError

        try:
            fields = self._model.model_validate_json(arguments)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise ToolError(f"The arguments cannot be used: {where}: {first['msg']}") from error
        values = {name: getattr(fields, name) for name in type(fields).model_fields}
        return values | {name: _image(values[name], images) for name in self._images if values[name] is not None}


def _functions(kind: type[Tools]) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yields the public methods of a class, those of its bases first."""
    functions: dict[str, Callable[..., Any]] = {}
    for base in reversed(kind.__mro__):
        if base is not Tools and issubclass(base, Tools):
            functions |= {name: value for name, value in vars(base).items() if inspect.isfunction(value)}
    return ((name, value) for name, value in functions.items() if not name.startswith("_") and name != "close")


def _described(text: str) -> tuple[str, dict[str, str]]:
    """Returns a docstring without its sections, and the notes of its section `Args` by argument."""
    pieces = _SECTION.split(f"\n{text}")
    notes: dict[str, str] = {}
    for title, body in zip(pieces[1::2], pieces[2::2], strict=True):
        name = ""
        for line in inspect.cleandoc(body).splitlines() if title == "Args" else ():
            if not line.startswith(" ") and (match := _ARGUMENT.match(line)):
                name, notes[match[1]] = match[1], match[2]
            elif name:
                notes[name] = f"{notes[name]} {line.strip()}".strip()
    return pieces[0].strip(), notes


def _untitled(schema: Any) -> Any:
    """Returns a schema without the titles that pydantic derives from names."""
    if isinstance(schema, list):
        return [_untitled(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: _untitled(inner) for name, inner in value.items()}
        if key in ("properties", "$defs")
        else _untitled(value)
        for key, value in schema.items()
        if key != "title" or not isinstance(value, str)
    }


def _image(number: int, images: Sequence[bytes]) -> Image.Image:
    """Returns an image of the conversation as RGB, turned as EXIF says.

    Raises:
        ToolError: The image is missing or cannot be read.
    """
    if number > len(images):
        raise ToolError(f"There is no image {number}: the last one is {len(images)}.")
    try:
        return pictures.decoded(images[number - 1], MAX_PIXELS)
    except DAMAGE as error:
        raise ToolError(f"Image {number} cannot be read: {error}") from error


def _output(value: Any) -> Output:
    """Returns a method's result as an output."""
    if isinstance(value, Output):
        return value
    several = value if isinstance(value, (list, tuple)) else (value,)
    return Output(tuple(map(_piece, several)))


def _piece(value: Any) -> str | bytes:
    from PIL import Image

    if isinstance(value, Image.Image):
        return pictures.encoded(value)
    if isinstance(value, (str, bytes)):
        return value
    raise TypeError(f"a tool returns text, images or bytes, not {type(value).__name__}")
