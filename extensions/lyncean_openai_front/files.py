"""Files of the Batch API, in a temporary folder that ends with the process."""

from __future__ import annotations

import asyncio
import shutil
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response

from lyncean.errors import printable
from lyncean_openai_front.body import chunks
from lyncean_openai_front.errors import refuse
from lyncean_openai_front.owned_folder import OwnedFolder

MAX_FILE_BYTES = 200_000_000
"""Largest input file, as at OpenAI."""
MAX_STORED_BYTES = 2_000_000_000
"""Largest size of all files together."""
MAX_STORED = 1000
"""Files, and batches, that are remembered."""
KEPT = 7 * 86400
"""Seconds that a file, and a batch, is remembered."""
SPARED = 3600
"""Seconds for which a file is kept when space runs out."""
_FORM = 10_000
"""Bytes around a file that is uploaded."""


@dataclass(slots=True)
class StoredFile:
    """One file: an input, or the results of a batch."""

    path: Path
    name: str
    purpose: str
    size: int = 0
    created: int = field(default_factory=lambda: int(time.time()))

    def as_json(self) -> dict[str, Any]:
        """Returns the API's file object."""
        return {
            "id": self.path.name,
            "object": "file",
            "bytes": self.size,
            "created_at": self.created,
            "expires_at": self.created + KEPT,
            "filename": self.name,
            "purpose": self.purpose,
            "status": "processed",
        }


class Files:
    """The files, and the routes to them.

    Args:
        in_use: Whether the file of an id belongs to a batch that has not ended.
    """

    def __init__(self, in_use: Callable[[str], bool]) -> None:
        self._in_use = in_use
        self._found: dict[str, StoredFile] = {}
        self._folder: OwnedFolder | None = None
        self._arriving = 0  # bytes that uploads under way may still store

    def create(self, name: str, purpose: str) -> StoredFile:
        """Returns a new empty file, to be written at its path.

        Raises:
            CallError: RESOURCE_EXHAUSTED if there are too many.
        """
        self.make_room(files=1)
        if self._folder is None:
            self._folder = OwnedFolder("lyncean-batch-")
        file = StoredFile(Path(self._folder.path, f"file-{uuid.uuid4().hex}"), printable(name[:200]), purpose)
        file.path.touch()
        self._found[file.path.name] = file
        return file

    def make_room(self, more: int = 0, files: int = 0) -> None:
        """Deletes files that are too old, and the oldest ones until `more` bytes and `files` fit.

        Raises:
            CallError: RESOURCE_EXHAUSTED if they still do not fit: files in use, and those of the last hour, stay.
        """
        stored = sum(one.size for one in self._found.values()) + self._arriving + more
        for file in list(self._found.values()):
            full = stored > MAX_STORED_BYTES or len(self._found) + files > MAX_STORED
            if time.time() - file.created > (SPARED if full else KEPT) and not self._in_use(file.path.name):
                stored -= file.size
                self._drop(file)
        if stored > MAX_STORED_BYTES or len(self._found) + files > MAX_STORED:
            refused = f"{MAX_STORED} files, or {MAX_STORED_BYTES:,} bytes, are stored: delete some"
            raise refuse("storage_full", refused, grpc.StatusCode.RESOURCE_EXHAUSTED)

    def get(self, name: str) -> StoredFile:
        """Returns the file of an id.

        Raises:
            CallError: NOT_FOUND.
        """
        if name not in self._found:
            raise refuse("file_not_found", "no such file; a restart forgets them", grpc.StatusCode.NOT_FOUND)
        return self._found[name]

    async def upload(self, request: Request) -> Response:
        """`POST /v1/files`."""
        most = MAX_FILE_BYTES + _FORM
        stated = request.headers.get("content-length", "")
        room = max(0, (min(most, int(stated[:20])) if stated.isdecimal() else most) - _FORM)
        self.make_room(room, 1)  # before a byte of it reaches the disk
        self._arriving += room
        try:
            return await self._upload(request, most, room)
        finally:
            self._arriving -= room

    async def _upload(self, request: Request, most: int, room: int) -> Response:
        try:
            form = await MultiPartParser(request.headers, chunks(request, most), max_files=1, max_fields=8).parse()
        except (MultiPartException, KeyError) as error:
            raise refuse("bad_form", f"the body is not a form with a file: {error}") from None
        try:
            upload = form.get("file")
            if not isinstance(upload, UploadFile) or form.get("purpose") != "batch":
                raise refuse("bad_field", "send a file, and purpose=batch")
            if others := set(form) - {"file", "purpose"}:
                refused = f"{min(others)[:60]!r} is not a field that this server can obey; leave it out"
                raise refuse("field_unsupported", refused, grpc.StatusCode.UNIMPLEMENTED)
            self.make_room((upload.size or 0) - room)
            file = self.create(upload.filename or "", "batch")
            file.size = upload.size or 0
            try:
                await asyncio.to_thread(_copy, upload, file.path)
            except BaseException:
                self._drop(file)
                raise
            return JSONResponse(file.as_json())
        finally:
            await form.close()

    async def retrieve(self, request: Request) -> Response:
        """`GET /v1/files/{id}`."""
        return JSONResponse(self.get(request.path_params["id"]).as_json())

    async def content(self, request: Request) -> Response:
        """`GET /v1/files/{id}/content`."""
        return FileResponse(self.get(request.path_params["id"]).path, media_type="application/octet-stream")

    async def delete(self, request: Request) -> Response:
        """`DELETE /v1/files/{id}`."""
        file = self.get(request.path_params["id"])
        if self._in_use(file.path.name):
            raise refuse("file_in_use", "a batch that has not ended reads this file: cancel it first")
        self._drop(file)
        return JSONResponse({"id": file.path.name, "object": "file", "deleted": True})

    def _drop(self, file: StoredFile) -> None:
        self._found.pop(file.path.name, None)
        file.path.unlink(missing_ok=True)


def _copy(upload: UploadFile, path: Path) -> None:
    with path.open("wb") as target:
        upload.file.seek(0)
        shutil.copyfileobj(upload.file, target)
