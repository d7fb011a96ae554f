"""A cluster's worth of Kubernetes for tests: rendered manifests run as processes in network namespaces.

Each pod is a network namespace with an address of its own on a bridge, each container a process with the manifest's
very command, environment, volumes, user and probes. Service names resolve as cluster DNS would: a headless one to the
address of every ready pod, another to one of them (a virtual address would lead to one as well). Deployments keep
their replicas, Jobs follow their pod failure policy, and init containers that restart run beside the others until these
have ended. What is not here: scheduling, resource limits, network policies,
images (the working tree's programs run).
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from helpers.manifests import (
    REPOSITORY,
    Manifest,
    entrypoint,
    environment,
    image_variables,
    of_kind,
    words,
)

HERE = Path(__file__).parent
CODE = sorted({str(REPOSITORY), sys.prefix, sys.base_prefix})
RETRY = 0.5
"""Seconds before a failed pod's replacement; Kubernetes begins with ten."""


def missing() -> str:
    """Why pods cannot be run here; empty if they can."""
    if os.geteuid() != 0:
        return "not root: network namespaces need it"
    for program in ("ip", "setpriv", "kubectl"):
        if shutil.which(program) is None:
            return f"no {program}: install it (iproute2, util-linux, kubectl)"
    name = f"lyn-{secrets.token_hex(3)}"
    tried = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if tried.returncode:
        return f"no network namespaces here: {tried.stderr.strip()}"
    mount = ["ip", "netns", "exec", name, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    tried = subprocess.run(mount, capture_output=True, text=True, check=False)
    _ip("netns", "del", name)
    return f"no mounts here: {tried.stderr.strip()}" if tried.returncode else ""


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@dataclass(eq=False)
class Pod:
    """One pod: its namespace, its processes, whether it is ready."""

    name: str
    namespace: str
    address: str
    owner: Manifest
    index: int | None = None
    ready: bool = False
    stopping: bool = False
    drained: bool = False
    exit_code: int | None = None
    ended_by: str = ""
    restarts: int = 0
    processes: dict[str, asyncio.subprocess.Process] = field(default_factory=dict)
    task: asyncio.Task[None] | None = None

    @property
    def spec(self) -> Manifest:
        """Its pod spec."""
        spec: Manifest = self.owner["spec"]["template"]["spec"]
        return spec

    @property
    def sidecars(self) -> list[str]:
        """The names of the init containers that run until the others have ended."""
        return [one["name"] for one in self.spec.get("initContainers", ()) if one.get("restartPolicy") == "Always"]

    @property
    def labels(self) -> dict[str, str]:
        """Its labels."""
        labels: dict[str, str] = self.owner["spec"]["template"]["metadata"]["labels"]
        return labels


class Cluster:
    """One node's worth of a cluster; an async context manager.

    Args:
        folder: Where volumes, logs and roots are.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pods: list[Pod] = []
        self.past: list[Pod] = []
        self.probes: Counter[tuple[str, str, bool]] = Counter()
        self._manifests: list[Manifest] = []
        self._id = secrets.token_hex(2)
        self._node = f"lyn-{self._id}-node"
        self._numbers = itertools.count(2)
        self._tasks: list[asyncio.Task[None]] = []
        self._jobs: dict[str, asyncio.Task[str]] = {}
        self._asked: dict[int, asyncio.Future[bool]] = {}
        self._prober: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Cluster:
        _ip("netns", "add", self._node)
        _ip("-n", self._node, "link", "add", "br0", "type", "bridge")
        _ip("-n", self._node, "addr", "add", "10.244.0.1/16", "dev", "br0")
        _ip("-n", self._node, "link", "set", "br0", "up")
        _ip("-n", self._node, "link", "set", "lo", "up")
        self._prober = await asyncio.create_subprocess_exec(
            *("ip", "netns", "exec", self._node, sys.executable, str(HERE / "pod_prober.py")),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"PATH": os.environ["PATH"]},
        )
        self._tasks.append(asyncio.create_task(self._answers()))
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks = [*self._tasks, *self._jobs.values(), *(pod.task for pod in self.pods if pod.task)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert self._prober is not None
        processes = [self._prober, *(process for pod in self.pods for process in pod.processes.values())]
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        await asyncio.gather(*(process.wait() for process in processes))
        for pod in self.pods:
            self._remove_namespace(pod)
        _ip("netns", "del", self._node)

    # What a test does.

    def claim(self, name: str) -> Path:
        """The folder behind a PersistentVolumeClaim."""
        return self.folder / "claims" / name

    @property
    def outside(self) -> list[str]:
        """What comes before a command to run it beside the pods, which reach it as 10.244.0.1."""
        return ["ip", "netns", "exec", self._node]

    def secret(self, name: str, files: dict[str, bytes]) -> None:
        """Makes a Secret that pods may mount, as another controller would."""
        folder = _volume(self.folder / "secrets" / name, 65532)
        for file, data in files.items():
            (folder / file).write_bytes(data)
            os.chown(folder / file, 0, 65532)
            (folder / file).chmod(0o640)

    def apply(self, manifests: list[Manifest]) -> None:
        """Takes manifests in, as `kubectl apply` does, and starts what they describe.

        What is there already stays as it is; a change of it would be one object of two owners, and is refused.
        """
        there = {(one["kind"], one["metadata"]["name"]): one for one in self._manifests}
        for one in manifests:
            name = one["kind"], one["metadata"]["name"]
            assert there.get(name, one) == one, f"{name} is there, and it is another one"
        manifests = [one for one in manifests if one not in self._manifests]
        self._manifests = [*self._manifests, *manifests]
        for found in of_kind(manifests, "PersistentVolumeClaim"):
            _volume(self.claim(found["metadata"]["name"]), 65532)
        for found in of_kind(manifests, "Deployment"):
            self._tasks.append(asyncio.create_task(self._deployment(found)))
        for found in of_kind(manifests, "Job"):
            self._jobs[found["metadata"]["name"]] = asyncio.create_task(self._job(found))

    def again(self, name: str) -> None:
        """Deletes a Job that has ended and creates it as it was applied."""
        assert self._jobs[name].done()
        (manifest,) = (one for one in of_kind(self._manifests, "Job") if one["metadata"]["name"] == name)
        self._jobs[name] = asyncio.create_task(self._job(manifest))

    async def job(self, name: str) -> str:
        """Waits for a Job: "Complete", or "Failed" with the reason."""
        return await self._jobs[name]

    def of(self, app: str) -> list[Pod]:
        """The live pods of one application."""
        return [pod for pod in self.pods if pod.labels["app.kubernetes.io/name"] == app]

    async def drain(self, pod: Pod, grace: float | None = None) -> None:
        """Ends a pod as a node drain does: out of DNS and SIGTERM, SIGKILL after its grace."""
        pod.drained = pod.stopping = True
        pod.ready = False
        self._publish()
        seconds = pod.spec.get("terminationGracePeriodSeconds", 30) if grace is None else grace
        # Sidecars are asked to end once the others have ended, which `_run` does.
        first = {name: process for name, process in pod.processes.items() if name not in pod.sidecars or not seconds}
        for process in first.values():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM if seconds else signal.SIGKILL)
        assert pod.task is not None
        done, _ = await asyncio.wait([pod.task], timeout=seconds)
        if not done:
            for process in list(pod.processes.values()):
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
            await pod.task

    def log(self, pod: Pod, container: str) -> str:
        """What a container has written."""
        return (self.folder / "logs" / f"{pod.name}.{container}").read_text()

    # Controllers.

    async def _deployment(self, manifest: Manifest) -> None:
        while True:
            here = [pod for pod in self.pods if pod.owner is manifest and not pod.stopping]
            for _ in range(manifest["spec"].get("replicas", 1) - len(here)):
                self._start(manifest)
            await asyncio.sleep(0.1)

    async def _job(self, manifest: Manifest) -> str:
        spec = manifest["spec"]
        indexed = spec.get("completionMode") == "Indexed"
        indexes = range(spec["completions"]) if indexed else [None]
        free = asyncio.Semaphore(spec.get("parallelism", 1))

        async def one(index: int | None) -> str:
            failures = 0
            limit = spec["backoffLimitPerIndex"] if indexed else spec.get("backoffLimit", 6)
            async with free:
                while True:
                    pod = self._start(manifest, index)
                    assert pod.task is not None
                    await pod.task
                    if pod.exit_code == 0:
                        return "Complete"
                    action = _policy(spec.get("podFailurePolicy", {}).get("rules", ()), pod)
                    if action in ("FailJob", "FailIndex"):
                        return f"Failed: {pod.name} exited with {pod.exit_code}"
                    failures += action == "Count"
                    if failures > limit:
                        return f"Failed: {failures} pods of index {index}"
                    await asyncio.sleep(RETRY)

        ends = await asyncio.gather(*(one(index) for index in indexes))
        return next((end for end in ends if end != "Complete"), "Complete")

    # The kubelet.

    def _start(self, owner: Manifest, index: int | None = None) -> Pod:
        number = next(self._numbers)
        name = "-".join([owner["metadata"]["name"], *([] if index is None else [str(index)]), f"p{number}"])
        pod = Pod(name, f"lyn-{self._id}-p{number}", f"10.244.{number >> 8}.{number & 255}", owner, index)
        inside, outside = f"e{self._id}{number}", f"v{self._id}{number}"
        _ip("netns", "add", pod.namespace)
        _ip("link", "add", outside, "netns", self._node, "type", "veth", "peer", "name", inside, "netns", pod.namespace)
        _ip("-n", self._node, "link", "set", outside, "master", "br0", "up")
        _ip("-n", pod.namespace, "link", "set", inside, "name", "eth0")
        _ip("-n", pod.namespace, "addr", "add", f"{pod.address}/16", "dev", "eth0")
        _ip("-n", pod.namespace, "link", "set", "eth0", "up")
        _ip("-n", pod.namespace, "link", "set", "lo", "up")
        etc = Path("/etc/netns") / pod.namespace
        etc.mkdir(parents=True)
        (etc / "nsswitch.conf").write_text("hosts: files\npasswd: files\ngroup: files\n")
        (etc / "resolv.conf").write_text("nameserver 127.0.0.1\n")
        (etc / "hosts").touch()
        self.pods.append(pod)
        self._publish()
        pod.task = asyncio.create_task(self._run(pod))
        return pod

    async def _run(self, pod: Pod) -> None:
        sidecars: list[asyncio.Task[None]] = []
        try:
            for container in pod.spec.get("initContainers", ()):
                if container.get("restartPolicy") == "Always":
                    started = asyncio.Event()
                    sidecars.append(asyncio.create_task(self._sidecar(pod, container, started)))
                    await started.wait()
                    continue
                while not pod.stopping and (code := await (await self._process(pod, container)).wait()):
                    if pod.spec.get("restartPolicy") == "Never":
                        pod.exit_code, pod.ended_by = code, container["name"]
                        return
                    await asyncio.sleep(RETRY)
            (container,) = pod.spec["containers"]
            while not pod.stopping:
                process = await self._process(pod, container)
                probing = asyncio.create_task(self._probe(pod, container, process))
                code = await process.wait()
                probing.cancel()
                await asyncio.gather(probing, return_exceptions=True)
                if pod.spec.get("restartPolicy") == "Never":
                    pod.exit_code, pod.ended_by = code if code >= 0 else 128 - code, container["name"]
                    return
                pod.restarts += not pod.stopping
                await asyncio.sleep(RETRY)
        finally:
            await self._end_sidecars(pod, sidecars)
            if asyncio.current_task() and not asyncio.current_task().cancelling():  # type: ignore[union-attr]
                pod.ready = False
                pod.stopping = True
                self.pods.remove(pod)
                self.past.append(pod)
                self._remove_namespace(pod)
                self._publish()

    async def _sidecar(self, pod: Pod, container: Manifest, started: asyncio.Event) -> None:
        """Runs a container again and again; it has started once its startup probe says so, without one at once."""
        while True:
            process = await self._process(pod, container)
            if "startupProbe" not in container:
                started.set()
            probing = asyncio.create_task(self._probe(pod, container, process, started))
            await process.wait()
            probing.cancel()
            await asyncio.gather(probing, return_exceptions=True)
            pod.restarts += not pod.stopping
            await asyncio.sleep(RETRY)

    async def _end_sidecars(self, pod: Pod, tasks: list[asyncio.Task[None]]) -> None:
        """Ends sidecars in the reverse order of their start, each with SIGTERM, then SIGKILL after the pod's grace."""
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for name in reversed(pod.sidecars):
            process = pod.processes.get(name)
            if process is None or process.returncode is not None:
                continue
            process.send_signal(signal.SIGTERM)
            try:
                await asyncio.wait_for(process.wait(), pod.spec.get("terminationGracePeriodSeconds", 30))
            except TimeoutError:
                process.kill()
                await process.wait()

    async def _process(self, pod: Pod, container: Manifest) -> asyncio.subprocess.Process:
        image = container["image"]
        index = {} if pod.index is None else {"JOB_COMPLETION_INDEX": str(pod.index)}
        variables = {**image_variables(image), **environment(container, self._manifests, index)}
        command, arguments = words(container, variables)
        variables["PATH"] = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/usr/sbin:/bin"
        context = {**pod.spec["securityContext"], **container["securityContext"]}
        mounts = []
        for mount in container.get("volumeMounts", ()):
            (volume,) = (volume for volume in pod.spec["volumes"] if volume["name"] == mount["name"])
            mounts.append(f"{'ro' if mount.get('readOnly') else 'rw'}={self._host(pod, volume)}:{mount['mountPath']}")
        mounts.sort(key=lambda word: word.rpartition(":")[2])
        root = self.folder / "roots" / f"{pod.name}.{container['name']}"
        root.mkdir(parents=True, exist_ok=True)
        log = self.folder / "logs" / f"{pod.name}.{container['name']}"
        log.parent.mkdir(exist_ok=True)
        user, group = str(context["runAsUser"]), str(context["runAsGroup"])
        script = [str(HERE / "container.sh"), str(root), container.get("workingDir", "/tmp"), user, group]
        with log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                *("ip", "netns", "exec", pod.namespace, "/bin/sh", *script),
                "yes" if context.get("readOnlyRootFilesystem") else "no",
                *(*mounts, *(f"ro={path}:{path}" for path in CODE), "--"),
                *(command or entrypoint(image)),
                *arguments,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=variables,
                start_new_session=True,
            )
        pod.processes[container["name"]] = process
        return process

    def _host(self, pod: Pod, volume: Manifest) -> Path:
        if "persistentVolumeClaim" in volume:
            return self.claim(volume["persistentVolumeClaim"]["claimName"])
        if "secret" in volume:
            return self.folder / "secrets" / volume["secret"]["secretName"]
        assert "emptyDir" in volume, f"{volume} is not run here"
        return _volume(self.folder / "empty" / pod.name / volume["name"], pod.spec["securityContext"]["fsGroup"])

    async def _probe(
        self, pod: Pod, container: Manifest, process: asyncio.subprocess.Process, started: asyncio.Event | None = None
    ) -> None:
        """Startup until it succeeds; then readiness and liveness side by side."""
        startup = container.get("startupProbe")
        if startup and not await self._until(pod, startup, "startup", True):
            process.kill()
            return
        if started is not None:
            started.set()

        async def readiness(probe: Manifest) -> None:
            while True:
                await self._until(pod, probe, "readiness", not pod.ready)
                pod.ready = not pod.ready and not pod.stopping
                self._publish()

        async def liveness(probe: Manifest) -> None:
            await asyncio.sleep(probe.get("initialDelaySeconds", 0))
            if await self._until(pod, probe, "liveness", False):
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(signal.SIGTERM)

        if not container.get("readinessProbe"):
            pod.ready = True
            self._publish()
        await asyncio.gather(
            *(readiness(probe) for probe in [container.get("readinessProbe")] if probe),
            *(liveness(probe) for probe in [container.get("livenessProbe")] if probe),
        )

    async def _until(self, pod: Pod, probe: Manifest, kind: str, wanted: bool) -> bool:
        """Probes until the answer was `wanted` often enough in a row; False if a startup probe fails too often."""
        threshold = probe.get("successThreshold", 1) if wanted else probe.get("failureThreshold", 3)
        row, failures = 0, 0
        while True:
            well = await self._ask(pod, probe["grpc"], probe.get("timeoutSeconds", 1))
            self.probes[pod.labels["app.kubernetes.io/name"], kind, well] += 1
            row = row + 1 if well == wanted else 0
            if row >= threshold:
                return True
            failures += not well
            if kind == "startup" and failures >= probe.get("failureThreshold", 3):
                return False
            await asyncio.sleep(probe.get("periodSeconds", 10))

    async def _ask(self, pod: Pod, probe: Manifest, timeout: float) -> bool:
        assert self._prober is not None
        assert self._prober.stdin is not None
        number = next(self._numbers_asked)
        answer = self._asked[number] = asyncio.get_running_loop().create_future()
        asked = {"address": f"{pod.address}:{probe['port']}", "service": probe.get("service", ""), "timeout": timeout}
        self._prober.stdin.write(json.dumps({"id": number, **asked}).encode() + b"\n")
        return await answer

    _numbers_asked = itertools.count()

    async def _answers(self) -> None:
        assert self._prober is not None
        assert self._prober.stdout is not None
        async for line in self._prober.stdout:
            answer = json.loads(line)
            future = self._asked.pop(answer["id"])
            if not future.cancelled():
                future.set_result(answer["well"])

    # Names.

    def _publish(self) -> None:
        """Writes what cluster DNS would answer into every pod's hosts file, in place, since it is mounted."""
        lines = ["127.0.0.1 localhost"]
        for service in of_kind(self._manifests, "Service"):
            chosen = [
                pod for pod in self.pods if pod.ready and service["spec"]["selector"].items() <= pod.labels.items()
            ]
            name, namespace = service["metadata"]["name"], service["metadata"]["namespace"]
            names = f"{name} {name}.{namespace} {name}.{namespace}.svc {name}.{namespace}.svc.cluster.local"
            headless = service["spec"].get("clusterIP") == "None"
            lines += [f"{pod.address} {names}" for pod in (chosen if headless else chosen[:1])]
        text = "\n".join([*lines, ""])
        for pod in self.pods:
            aliases = [" ".join([one["ip"], *one["hostnames"]]) + "\n" for one in pod.spec.get("hostAliases", ())]
            (Path("/etc/netns") / pod.namespace / "hosts").write_text(text + "".join(aliases))

    def _remove_namespace(self, pod: Pod) -> None:
        _ip("netns", "del", pod.namespace)
        shutil.rmtree(Path("/etc/netns") / pod.namespace)
        shutil.rmtree(self.folder / "empty" / pod.name, ignore_errors=True)


def _volume(path: Path, group: int) -> Path:
    if not path.exists():
        path.mkdir(parents=True)
        os.chown(path, 0, group)
        path.chmod(0o2775)
    return path


def _policy(rules: Any, pod: Pod) -> str:
    """What the first rule that fits says; "Count" if none does."""
    for rule in rules:
        if "onPodConditions" in rule and pod.drained:
            return str(rule["action"])
        codes = rule.get("onExitCodes")
        if codes and codes["containerName"] == pod.ended_by and pod.exit_code in codes["values"]:
            return str(rule["action"])
    return "Count"
