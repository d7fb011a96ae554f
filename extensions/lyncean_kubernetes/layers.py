"""Layers of kustomize: folders over an overlay, with components."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from lyncean_kubernetes.kubectl import SubmitError, kubectl


def deploy_folder() -> Path:
    """Returns the folder of the manifests: in the wheel, or beside the package in a working tree.

    Raises:
        SubmitError: If neither folder exists.
    """
    packaged = Path(__file__).parent / "deploy"
    for folder in (packaged, Path(__file__).parents[2] / "deploy"):
        if (folder / "base" / "kustomization.yaml").exists():
            return folder
    raise SubmitError(f"no manifests at {packaged}: install lyncean again")


def folder_of(parent: Path, name: str) -> Path:
    """Returns an overlay or a component by name, or by path.

    Raises:
        SubmitError: If it does not exist, or is a copy of one of ours whose references are broken.
    """
    folder = Path(name) if "/" in name else parent / name
    if not (folder / "kustomization.yaml").exists():
        names = ", ".join(sorted(path.name for path in parent.iterdir()))
        raise SubmitError(f"no {parent.name.rstrip('s')} {name!r}: there are {names}; or give the path of a folder")
    content = yaml.safe_load((folder / "kustomization.yaml").read_text()) or {}
    for reference in (*content.get("resources", ()), *content.get("components", ())):
        if str(reference).startswith("../") and not (folder / reference).exists():
            raise SubmitError(
                f"{folder} refers to {reference}, which is not there: "
                "`orchestrator submit --overlay NAME --eject FOLDER` writes an overlay that stands alone"
            )
    return folder.resolve()


def without_present(components: Sequence[Path], overlay: Path) -> list[Path]:
    """Returns the components without those whose objects the overlay has: kustomize refuses duplicates."""
    brought = {one: _brought(one) for one in components}
    if not any(brought.values()):
        return list(components)
    rendered = yaml.safe_load_all(kubectl("kustomize", str(overlay)))
    present = {(one["kind"], one["metadata"]["name"]) for one in rendered}
    return [one for one in components if not brought[one] or not brought[one] <= present]


def _brought(component: Path) -> set[tuple[str, str]]:
    """Returns kind and name of the objects that a component adds by files of its own."""
    named = yaml.safe_load((component / "kustomization.yaml").read_text()).get("resources", ())
    files = [component / name for name in named if (component / name).is_file()]
    objects = [one for file in files for one in yaml.safe_load_all(file.read_text()) if one]
    return {(one["kind"], one["metadata"]["name"]) for one in objects}


def write_layer(folder: Path, content: dict[str, Any], resource: Path, components: Sequence[Path] = ()) -> None:
    """Writes a layer over a folder; components come before its own patches, and after its generators."""
    folder.mkdir()
    paths = {"resources": [os.path.relpath(resource, folder)]}
    if components:
        paths["components"] = [os.path.relpath(path, folder) for path in components]
    (folder / "kustomization.yaml").write_text(yaml.safe_dump({**paths, **content}))


def patch_of(kind: str, name: str, *operations: dict[str, Any]) -> dict[str, Any]:
    """Returns a patch of an object from JSON Patch operations."""
    return {"target": {"kind": kind, "name": name}, "patch": json.dumps(operations)}


def rename(name: str, to: str) -> dict[str, Any]:
    """Returns a patch that gives a Job another name."""
    patch = patch_of("Job", name, {"op": "replace", "path": "/metadata/name", "value": to})
    return {**patch, "options": {"allowNameChange": True}}


def merged_map(name: str, values: dict[str, str]) -> dict[str, Any]:
    """Returns a generator that changes values of a ConfigMap."""
    literals = [f"{key}={value}" for key, value in values.items()]
    return {"name": name, "namespace": "lyncean", "behavior": "merge", "literals": literals}


def values_of(manifests: str, name: str) -> dict[str, str]:
    """Returns the data of a ConfigMap in rendered manifests, {} if it is missing; kustomize ends its name in a hash."""
    for manifest in yaml.safe_load_all(manifests):
        if manifest["kind"] == "ConfigMap" and re.fullmatch(rf"{name}(-[0-9a-z]{{10}})?", manifest["metadata"]["name"]):
            return dict(manifest["data"])
    return {}
