"""The container that runs the model in a model server's pod, and its arguments for several GPUs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lyncean.errors import UserError

NAME = "model-server"
OVERLAYS = {"transformers": "gpu", "vllm": "vllm", "sglang": "sglang"}
"""Overlays by the value of --engine."""
_PARALLEL = {"vllm": "--tensor-parallel-size", "sglang": "--tp-size"}
"""Options that spread each layer over GPUs, by a part of the engine's image name."""
_GROUP = {
    "vllm": ("--nnodes=$(LWS_GROUP_SIZE)", "--node-rank=$(LWS_WORKER_INDEX)", "--master-addr=$(LWS_LEADER_ADDRESS)"),
    "sglang": (
        "--nnodes=$(LWS_GROUP_SIZE)",
        "--node-rank=$(LWS_WORKER_INDEX)",
        "--dist-init-addr=$(LWS_LEADER_ADDRESS):20000",
    ),
}
"""Arguments by which an engine's processes on several nodes find each other; the variables are LeaderWorkerSet's."""
_FOLLOWS = {"vllm": ("--headless",), "sglang": ()}
"""Further arguments of an engine on the nodes that serve no API."""
_DIVIDED = re.compile(r"-{1,2}(tensor-parallel|pipeline-parallel|data-parallel|tp|pp|dp|ep)(-size)?$")
"""Options of engines by which a user divides a model by hand."""
_LATEST = "nvidia.com/gpu"
_PAGE = "docs/kubernetes.md, A model over several GPUs"


@dataclass(frozen=True, slots=True)
class Computing:
    """The container that runs the model.

    Attributes:
        path: Its JSON Pointer in a Deployment.
        container: The container as rendered.
        engine: Name of its engine, "" for an unknown one; "transformers" for our model server.
        options: Options of our `model-server serve`; {} for another program.
    """

    path: str
    container: Mapping[str, Any]
    engine: str
    options: Mapping[str, str]

    @property
    def name(self) -> str:
        """The container's name."""
        return str(self.container["name"])

    @property
    def is_beside(self) -> bool:
        """True if the model server only proxies this container."""
        return self.name != NAME

    def extended(self, arguments: Sequence[str], gpus: int | None, nodes: int | None = None) -> list[str]:
        """Returns its arguments, then those that put it on its GPUs, then the user's.

        Args:
            arguments: The user's arguments.
            gpus: GPUs of the container; None leaves what the overlay has.
            nodes: Nodes that it runs on, each with such a container; None for one.

        Raises:
            UserError: If it would have GPUs that it does not use, or does not run on several nodes.
        """
        before = list(self.container.get("args") or ())
        if nodes is not None:
            return [*before, *self._grouped(arguments, gpus, nodes), *arguments]
        if self.is_beside:
            return [*before, *self._divided(arguments, gpus), *arguments]
        if self.options:
            after = _options([*before, *arguments])
            if gpus is not None and after.get("backend") == "transformers" and after.get("device") == "cuda":
                before = [self._device(word, gpus) for word in before]
            _check_used(_options([*before, *arguments]), gpus)
        return [*before, *arguments]

    def _divided(self, arguments: Sequence[str], gpus: int | None) -> list[str]:
        divided_by_user = any(_DIVIDED.match(word.partition("=")[0]) for word in arguments)
        if gpus is None or divided_by_user:
            return []
        if not gpus:
            raise UserError(f"--gpus 0: container {self.name} runs the model on GPUs: leave it out")
        if self.engine:
            return [f"{_PARALLEL[self.engine]}={gpus}"] if gpus > 1 or self._is_divided() else []
        if gpus == 1:
            return []
        raise UserError(
            f"--gpus {gpus}: container {self.name} runs an engine that is not known here "
            f"({self.container.get('image')}): give its option of tensor parallelism after `--` ({_PAGE})"
        )

    def _grouped(self, arguments: Sequence[str], gpus: int | None, nodes: int) -> list[str]:
        """Returns the arguments of one node's process: layers are spread over a node's GPUs, or over all GPUs."""
        if not self.is_beside:
            raise UserError(
                f"--nodes {nodes}: container {self.name} runs the model, and on one node alone: give --engine vllm or "
                "sglang"
            )
        if not self.engine:
            raise UserError(
                f"--nodes {nodes}: container {self.name} runs an engine that is not known here "
                f"({self.container.get('image')}): serve it yourself and give --endpoint"
            )
        gpus_per_node = self._devices() if gpus is None else gpus
        if not gpus_per_node:
            raise UserError(
                f"--nodes {nodes}: container {self.name} runs the model on GPUs: give --gpus N of each node"
            )
        divided = {
            "vllm": [f"{_PARALLEL['vllm']}={gpus_per_node}", f"--pipeline-parallel-size={nodes}"],
            "sglang": [f"{_PARALLEL['sglang']}={gpus_per_node * nodes}"],
        }[self.engine]
        divided_by_user = any(_DIVIDED.match(word.partition("=")[0]) for word in arguments)
        return [*([] if divided_by_user else divided), *_GROUP[self.engine]]

    def _devices(self) -> int:
        limits = self.container.get("resources", {}).get("limits", {})
        return next((int(number) for name, number in limits.items() if name.endswith("/gpu")), 0)

    def following(self) -> list[str]:
        """Returns its arguments on the nodes of a group that serve no API."""
        return [*(self.container.get("args") or ()), *_FOLLOWS[self.engine]]

    def _is_divided(self) -> bool:
        return any(_DIVIDED.match(word.partition("=")[0]) for word in self.container.get("args") or ())

    @staticmethod
    def _device(word: str, gpus: int) -> str:
        """Returns an argument of our server, with the device that suits the number of its GPUs."""
        if word != "--device=cuda":
            return word
        return "--device=auto" if gpus > 1 else "--device=cpu" if not gpus else word

    def resources(self, gpus: int | None, memory: str | None) -> dict[str, Any] | None:
        """Returns its resources with other GPUs and memory, None if nothing changes."""
        if gpus is None and memory is None:
            return None
        declared = self.container.get("resources", {})
        limits, requests = dict(declared.get("limits", {})), dict(declared.get("requests", {}))
        if gpus is not None:
            device = next((name for name in limits if name.endswith("/gpu")), _LATEST)
            requests.pop(device, None)
            limits.pop(device, None)
            limits |= {device: str(gpus)} if gpus else {}
        if memory is not None:
            limits["memory"] = requests["memory"] = memory
        return {"limits": limits, "requests": requests}


def computing(pod: Mapping[str, Any]) -> Computing:
    """Returns the container of a model server's pod that runs the model.

    It is the one beside the model server that has devices, or any one if the model server is the proxy of an API in its
    own pod; else the model server.
    """
    server: Computing | None = None
    beside: list[Computing] = []
    for kind in ("initContainers", "containers"):
        for index, one in enumerate(pod.get(kind, ())):
            path = f"/spec/template/spec/{kind}/{index}"
            if one["name"] == NAME:
                options = _options(one.get("args") or ())
                server = Computing(path, one, "transformers" if options else "", options)
            elif kind == "containers" or one.get("restartPolicy") == "Always":
                beside.append(Computing(path, one, _engine(one), {}))
    assert server is not None
    local = re.match(r"https?://(127\.|localhost\b|\[::1\])", server.options.get("base-url", ""))
    candidates = [one for one in beside if _has_devices(one.container)] or (beside if local else [])
    return candidates[0] if candidates else server


def _engine(container: Mapping[str, Any]) -> str:
    text = " ".join([str(container.get("image", "")), *container.get("command", ()), str(container["name"])])
    return next((name for name in _PARALLEL if name in text), "")


def _options(arguments: Sequence[str]) -> dict[str, str]:
    """Returns the options of `model-server serve` that have values, {} for the arguments of another program."""
    text = " ".join(arguments)
    return dict(re.findall(r"--([a-z-]+)[= ](?!--)(\S+)", text)) if text.startswith("serve ") else {}


def _has_devices(container: Mapping[str, Any]) -> bool:
    """Returns True if a container has resources of a device plugin, such as nvidia.com/gpu."""
    return any("/" in name for name in container.get("resources", {}).get("limits", {}))


def _check_used(options: Mapping[str, str], gpus: int | None) -> None:
    """Refuses more GPUs than our server uses.

    Raises:
        UserError: If it uses fewer.
    """
    backend, device = options.get("backend", ""), options.get("device", "auto")
    if backend != "transformers":
        used, most = f"--backend={backend}", 0 if backend in ("demo", "openai") else None
    else:
        used, most = f"--device={device}", 1 if device.startswith("cuda") else 0 if device == "cpu" else None
    if gpus is None or most is None or gpus <= most:
        return
    if not most:
        raise UserError(f"--gpus {gpus}: container {NAME} uses no GPU ({used}): leave it out")
    raise UserError(f"--gpus {gpus}: container {NAME} uses one GPU ({used}): leave out {used}, or --gpus")
