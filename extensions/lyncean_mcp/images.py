"""Arguments of MCP tools that are images: the model passes an image's number, and the tool gets the file."""

from __future__ import annotations

import base64
import copy
import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from lyncean.errors import UserError
from lyncean.media import UNKNOWN, media_type
from tool_server import own_folder

Form = Literal["base64", "bytes", "path"]
"""Form in which a tool takes an image: as base64, as a list of numbers from 0 to 255, or as the path of a file."""
_SCHEMA = {
    "type": "integer",
    "minimum": 1,
    "description": "Number of the image, from 1, in the order of the conversation; images from tools count.",
}
_KEPT = "description"


@dataclass(frozen=True, slots=True)
class ImageArguments:
    """The arguments that are images, by tool and name.

    Attributes:
        forms: Tool and argument -> the form in which it takes an image.
        folder: Folder of the files for arguments that take a path. A file's name is its hash, and the next server at
            the same port uses the same folder, so that a repeated call has the same arguments.
    """

    forms: Mapping[tuple[str, str], Form]
    folder: Path

    def check(self, schemas: Mapping[str, Mapping[str, Any]]) -> None:
        """Checks that the tools have these arguments.

        Args:
            schemas: JSON Schema of each tool's arguments.

        Raises:
            UserError: A tool or an argument does not exist.
        """
        for tool, argument in self.forms:
            properties = _properties(schemas.get(tool) or {})
            if tool not in schemas:
                raise UserError(f"--image {tool}.{argument}: there is no tool {tool!r}; there are {', '.join(schemas)}")
            if argument not in properties:
                named = ", ".join(properties) or "none"
                raise UserError(f"--image {tool}.{argument}: {tool} has no argument {argument!r}; there are {named}")

    def schema(self, tool: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a tool's schema for the model: an image's number replaces its file."""
        changed = copy.deepcopy(dict(schema))
        for name in self._of(tool):
            argument = changed["properties"][name]
            text = argument.get(_KEPT, "") if isinstance(argument, dict) else ""
            changed["properties"][name] = _SCHEMA | {_KEPT: f"{text} {_SCHEMA[_KEPT]}".strip()}
        return changed

    def filled(self, tool: str, arguments: Mapping[str, Any], images: Sequence[bytes]) -> dict[str, Any]:
        """Returns a call's arguments with the images in place of their numbers.

        Raises:
            ValueError: The image does not exist; the message is for the model.
        """
        filled = dict(arguments)
        for name, form in self._of(tool).items():
            if name in filled:
                number = int(filled[name])
                if not 1 <= number <= len(images):
                    raise ValueError(f"There is no image {number}: the last one is {len(images)}.")
                filled[name] = self._formed(images[number - 1], form)
        return filled

    def clear(self) -> None:
        """Deletes the files."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _of(self, tool: str) -> dict[str, Form]:
        return {name: form for (of_tool, name), form in self.forms.items() if of_tool == tool}

    def _formed(self, data: bytes, form: Form) -> Any:
        if form == "path":
            return str(self._file(data))
        return base64.b64encode(data).decode() if form == "base64" else list(data)

    def _file(self, data: bytes) -> Path:
        """Returns a file that holds an image, in a folder that only this user can read."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        if self.folder.stat(follow_symlinks=False).st_uid != os.getuid():
            raise PermissionError(f"{self.folder} is another user's")
        kind = media_type(data)
        suffix = "" if kind == UNKNOWN else f".{kind.partition('/')[2]}"
        file = self.folder / f"{hashlib.sha256(data).hexdigest()}{suffix}"
        if not file.is_file() or file.read_bytes() != data:
            handle, name = tempfile.mkstemp(dir=self.folder)
            with os.fdopen(handle, "wb") as opened:
                opened.write(data)
            Path(name).replace(file)
        return file


def image_arguments(values: Sequence[str], port: int) -> ImageArguments:
    """Reads the values of `--image`.

    Args:
        values: The values.
        port: Port of the tool server; 0 for any port.

    Raises:
        UserError: A value is not TOOL.ARGUMENT=FORM.
    """
    forms: dict[tuple[str, str], Form] = {}
    for value in values:
        target, _, form = value.partition("=")
        tool, _, argument = target.rpartition(".")
        if not (tool and argument and form in get_args(Form)):
            kinds = ", ".join(get_args(Form))
            raise UserError(f"--image {value}: write TOOL.ARGUMENT=FORM, where FORM is one of {kinds}")
        forms[tool, argument] = form  # type: ignore[assignment]
    folder = Path(tempfile.gettempdir()) / f"lyncean-mcp-{port}"
    if not port and "path" in forms.values():
        folder = own_folder("lyncean-mcp-any-")  # the port is chosen later and differs at the next start
    return ImageArguments(forms, folder)


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}
