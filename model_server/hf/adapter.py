"""Adapters of PEFT, such as LoRA: additional trained weights, inserted into a model's layers.

They are not merged with the model's weights: each layer adds the adapter's part to its own result, as PEFT does, so
that answers are those of PEFT to the bit in every number format. In bfloat16 a sum of weights would be rounded anew.
"""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lyncean.rpc.addresses import shown_place
from model_server.backend import LoadError

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_INSTALL = "peft is not installed: pip install 'lyncean[adapters]'"
_KINDS = ("LORA", "ADALORA", "LOHA", "LOKR", "IA3", "OFT", "BOFT", "VERA", "LN_TUNING")
"""Kinds whose weights stand in the model's layers; others put tokens before a prompt, or choose by the request."""
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


def check(model: str, adapter: str) -> None:
    """Refuses unusable adapters before anything heavy is imported.

    Args:
        model: Folder or hub id of the model.
        adapter: Folder or hub id of the adapter; "" for none.

    Raises:
        LoadError: Two of base model, adapter and the package peft are mixed up, missing or do not belong together.
    """
    folder, local = Path(model), Path(adapter)
    if (folder / CONFIG).exists() and not (folder / "config.json").exists():
        base = _read(folder).get("base_model_name_or_path") or "BASE_MODEL"
        raise LoadError(f"{folder} is an adapter without its model: give --model {base} and --adapter {folder}")
    if not adapter:
        if (folder / CONFIG).exists() and find_spec("peft") is None:
            raise LoadError(f"{folder} holds a model with an adapter, and {_INSTALL}")
        return
    if find_spec("peft") is None:
        raise LoadError(f"--adapter: {_INSTALL}")
    if local.is_dir():
        _check_folder(local, model)
    elif local.exists() or not _HUB_ID.fullmatch(adapter):
        raise LoadError(f"--adapter: there is no folder {shown_place(adapter)}; a hub id has the form owner/name")


def check_config(config: Any, model: str) -> None:
    """Raises LoadError for a model that comes with an adapter, which the library leaves out where PEFT is missing."""
    if getattr(config, "has_lora_adapter", False) and find_spec("peft") is None:
        raise LoadError(f"{model} comes with an adapter, and {_INSTALL}")


def _check_folder(folder: Path, model: str) -> None:
    for name in (CONFIG, WEIGHTS):
        if not (folder / name).exists():
            raise LoadError(f"--adapter: {folder} holds no {name}: give the folder that PEFT's save_pretrained wrote")
    config = _read(folder)
    kind, base = config.get("peft_type"), config.get("base_model_name_or_path")
    if kind not in _KINDS or config.get("alora_invocation_tokens"):
        shown = "an activated LORA" if kind == "LORA" else f"of kind {kind!r}"
        raise LoadError(f"--adapter: {folder} is {shown}, which is not supported: it may be {', '.join(_KINDS)}")
    # Folders differ from machine to machine, so only hub ids can be compared.
    if base != model and all(isinstance(name, str) and _is_hub_id(name) for name in (base, model)):
        raise LoadError(
            f"--adapter: {folder} was trained on {base}, not on {model}: give --model {base}, or the folder "
            "of a model that has the same weights"
        )


def _is_hub_id(name: str) -> bool:
    return bool(_HUB_ID.fullmatch(name)) and not Path(name).exists()


def _read(folder: Path) -> dict[str, Any]:
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise LoadError(f"{folder / CONFIG} cannot be read as JSON: {error}") from error
    if not isinstance(config, dict):
        raise LoadError(f"{folder / CONFIG} is not a JSON object")
    return config


def find(model: str, adapter: str) -> Path | None:
    """Returns the folder of an adapter, downloaded from the hub if needed; None without an adapter.

    Args:
        model: Folder or hub id of the model.
        adapter: Folder or hub id of the adapter; "" for none.

    Raises:
        LoadError: It cannot be reached, lacks a file, or a file is damaged.
    """
    from model_server.hf.files import check_files

    if not adapter:
        return None
    folder = Path(adapter)
    if not folder.is_dir():
        from huggingface_hub import snapshot_download

        try:
            folder = Path(snapshot_download(adapter, allow_patterns=[CONFIG, WEIGHTS]))
        except (OSError, ValueError) as error:
            raise LoadError(
                f"--adapter {adapter}: there is no such folder, and no such adapter could be reached on the hub"
            ) from error
        _check_folder(folder, model)
    check_files([folder / WEIGHTS])
    return folder


def files(folder: Path) -> list[Path]:
    """Returns the files that identify an adapter."""
    return [folder / CONFIG, folder / WEIGHTS]


def put_into(model: Any, folder: Path) -> None:
    """Changes a model's layers to those with the adapter.

    Args:
        model: A model of `transformers`.
        folder: The adapter's folder, from `find`.

    Raises:
        LoadError: The adapter belongs to another model.
    """
    import peft

    try:
        config = peft.PeftConfig.from_pretrained(str(folder))
        config.inference_mode = True
        around = peft.PeftModel(model, config)
        loaded = around.load_adapter(str(folder), "default", torch_device=str(model.device))
    except (RuntimeError, ValueError, TypeError, KeyError, AttributeError, ImportError) as error:
        raise _of_another(model, folder, " ".join(str(error).split())[:200]) from error
    for names, problem in ((loaded.missing_keys, "lacks"), (loaded.unexpected_keys, "has a place for none of")):
        if names:
            subject = "it" if problem == "lacks" else "the model"
            raise _of_another(model, folder, f"{subject} {problem} {len(names)} weights, such as {sorted(names)[0]}")


def _of_another(model: Any, folder: Path, cause: str) -> LoadError:
    return LoadError(f"--adapter: {folder} does not fit {type(model).__name__} ({cause}): is it this model's adapter?")
