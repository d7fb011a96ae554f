"""A second server of tools, with another state: notes that are read again."""

from __future__ import annotations

from tool_server.kit import Tools


class Diary(Tools):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> str:
        """Writes a note down."""
        self.notes.append(text)
        return " / ".join(self.notes)
