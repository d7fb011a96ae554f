"""A self-contained overlay, made of one of ours, its components and the flags of model servers."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path

import yaml

from lyncean_kubernetes.changes import images_of, model_of
from lyncean_kubernetes.kubectl import SubmitError, kubectl
from lyncean_kubernetes.layers import write_layer
from lyncean_kubernetes.objects import Manifest
from lyncean_kubernetes.render import as_yaml, layers_of
from lyncean_kubernetes.server import Server
from lyncean_kubernetes.submission import Submission

_OBJECTS = "objects.yaml"
_HASH = re.compile(r"-[0-9a-z]{10}$")
"""The end of a generated ConfigMap's name, which changes with its values."""


def eject(submission: Submission, folder: Path) -> None:
    """Writes a self-contained overlay for `--overlay FOLDER` and `kubectl apply -k FOLDER`.

    Args:
        submission: The overlay, components, model and changes of servers; a run's own flags are left out.
        folder: Folder of the overlay; created.

    Raises:
        SubmitError: If the folder is not empty, or the overlay does not render.
    """
    if folder.exists() and any(folder.iterdir()):
        raise SubmitError(f"--eject {folder}: the folder is not empty: name another one")
    overlay, components = layers_of(submission, runs_code=False)
    with tempfile.TemporaryDirectory(prefix="lyncean-") as temporary:
        here = Path(temporary).resolve()
        write_layer(here / "with", {"namespace": "lyncean"}, overlay, components)
        before = kubectl("kustomize", str(here / "with"))
        changed = submission.model is not None or submission.weights is not None
        content = {
            "configMapGenerator": model_of(submission, before) if changed else [],
            "patches": submission.server.patches(before) if submission.server != Server() else [],
            "images": images_of(submission),
        }
        write_layer(here / "all", content, here / "with")
        objects = list(yaml.safe_load_all(kubectl("kustomize", str(here / "all"))))
    maps = [one for one in objects if _is_generated(one, objects)]
    text = as_yaml([one for one in objects if one not in maps])
    for one in maps:
        text = re.sub(rf"\b{re.escape(one['metadata']['name'])}\b", _HASH.sub("", one["metadata"]["name"]), text)
    generators = [
        {
            "name": _HASH.sub("", one["metadata"]["name"]),
            "namespace": "lyncean",
            "literals": [f"{key}={value}" for key, value in one["data"].items()],
            "options": {"labels": one["metadata"].get("labels", {})},
        }
        for one in maps
    ]
    head = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "namespace": "lyncean"}
    written = {**head, "resources": [_OBJECTS], "configMapGenerator": generators}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _OBJECTS).write_text(text, encoding="utf-8")
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(written, sort_keys=False), encoding="utf-8")


def _is_generated(one: Manifest, objects: list[Manifest]) -> bool:
    """Returns True if an object is a generated ConfigMap: its name ends in a hash, and pods refer to it."""
    name = one["metadata"]["name"]
    return one["kind"] == "ConfigMap" and bool(_HASH.search(name)) and json.dumps(objects).count(json.dumps(name)) > 1
