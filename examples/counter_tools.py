"""Tools of a conversation: `tool-server serve counter_tools.py`."""

from PIL import Image, ImageOps

from tool_server.kit import ToolError, Tools


class Counter(Tools):
    total = 0

    def add(self, number: int) -> str:
        """Add a number to the total of this conversation."""
        if self.total + number < 0:
            raise ToolError("The total cannot be below 0.")
        self.total += number
        return f"The total is {self.total}."

    def mirror(self, image: Image.Image) -> Image.Image:
        """Show an image as a mirror does."""
        return ImageOps.mirror(image)
