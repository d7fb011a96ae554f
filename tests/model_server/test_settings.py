"""Checks of a model's name before heavy imports."""

from __future__ import annotations

from pathlib import Path

import pytest

from model_server.backend import LoadError
from model_server.hf.settings import Settings
from model_server.openai_api.client import Settings as OpenAISettings, look


@pytest.mark.parametrize("name", ["./nowhere", "/nowhere/at/all", "~/nowhere", "checkpoints/a/b"])
def test_a_path_that_is_not_there(name: str) -> None:
    with pytest.raises(LoadError, match="there is no folder"):
        Settings(model=name).check()


def test_what_is_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match=r"holds no config\.json"):
        Settings(model=str(tmp_path)).check()
    file = tmp_path / "model.safetensors"
    file.touch()
    with pytest.raises(LoadError, match="is a file"):
        Settings(model=str(file)).check()


def test_a_hub_id_is_left_to_the_hub() -> None:
    Settings(model="owner/name").check()
    Settings(model="gpt2").check()


def test_an_endpoint_is_a_url() -> None:
    with pytest.raises(LoadError, match="is not a URL"):
        look(OpenAISettings(model="m", base_url="localhost:8000"))
