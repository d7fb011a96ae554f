"""A cluster's worth of Kubernetes for tests: rendered manifests run as processes in network namespaces.

Each pod is a network namespace with an address of its own on a bridge, each container a process with the manifest's
very command, environment, volumes, user and probes, and a control group with its memory limit where one can be made.
Names are asked of a DNS server, which learns of a headless Service's pods some time after they come and go. Services
with an address of their own, and network policies, are rules of iptables in each pod's namespace. What is not here:
scheduling and GPUs (every pod finds a node), limits of processors, the size of volumes, pulling images: the working
tree's programs run, and what a test names with `image`.
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
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from helpers import pod_controllers, pod_memory
from helpers.manifests import (
    INSTALL_KUBECTL,
    REPOSITORY,
    Manifest,
    command_line,
    data_of,
    entrypoint,
    environment,
    image_variables,
    of_kind,
)
from helpers.pod_network import DNS, NODE, Peer, rules

HERE = Path(__file__).parent
CODE = sorted({str(REPOSITORY), sys.prefix, sys.base_prefix})
RETRY = 0.5
"""Seconds before a failed container's next start; the kubelet begins with ten."""
_RULES = """*filter
-A INPUT -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT
-A INPUT -p tcp -j REJECT --reject-with tcp-reset
COMMIT
*nat
-A OUTPUT -p tcp -d 10.0.0.1 --dport 1 -m statistic --mode random --probability 0.5 -j DNAT --to 10.0.0.2:1
COMMIT
"""


_PROGRAMS = {
    "ip": "apt-get install iproute2",
    "iptables-restore": "apt-get install iptables",
    "setpriv": "apt-get install util-linux",
    "kubectl": INSTALL_KUBECTL,
}
"""Program -> how it is installed."""
_PRIVILEGED = "run pytest as root of the machine, or in a container started with `docker run --privileged`"


def missing() -> str:
    """Why pods cannot be run here; empty if they can."""
    if os.geteuid() != 0:
        return "not root, which network namespaces need: run pytest as root"
    for program, install in _PROGRAMS.items():
        if shutil.which(program) is None:
            return f"no {program}: {install}"
    name = f"lyn-{secrets.token_hex(3)}"
    tried = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if tried.returncode:
        return f"no network namespaces here: {tried.stderr.strip()}: {_PRIVILEGED}"
    why = ""
    mount = ["mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    for subject, command in (("mounts", mount), ("rules of iptables", ["iptables-restore"])):
        inside = ["ip", "netns", "exec", name, *command]
        tried = subprocess.run(inside, input=_RULES, capture_output=True, text=True, check=False)
        if tried.returncode:
            why = why or f"no {subject} here: {tried.stderr.strip()}: {_PRIVILEGED}"
    _ip("netns", "del", name)
    return why


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


class _Stopped(Exception):
    """A pod is told to end before a container of it could start."""


@dataclass(eq=False)
class Pod:
    """One pod: its namespace, its processes, whether it is ready.

    Attributes:
        ended_by: The container that decided how it ended.
        waiting: Reason and message of each container that cannot start.
        terminated: Exit code and reason of each container's last end.
    """

    name: str
    netns: str
    address: str
    owner: Manifest
    template: Manifest
    index: int | None = None
    variables: dict[str, str] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    stopping: bool = False
    drained: bool = False
    exit_code: int | None = None
    ended_by: str = ""
    restarts: int = 0
    ready_containers: set[str] = field(default_factory=set)
    waiting: dict[str, tuple[str, str]] = field(default_factory=dict)
    terminated: dict[str, tuple[int, str]] = field(default_factory=dict)
    processes: dict[str, asyncio.subprocess.Process] = field(default_factory=dict)
    groups: dict[str, pod_memory.Group] = field(default_factory=dict)
    task: asyncio.Task[None] | None = None

    @property
    def spec(self) -> Manifest:
        """Its pod spec."""
        spec: Manifest = self.template["spec"]
        return spec

    @property
    def namespace(self) -> str:
        """Its namespace of Kubernetes."""
        return str(self.owner["metadata"]["namespace"])

    @property
    def sidecars(self) -> list[str]:
        """The names of the init containers that run until the others have ended."""
        return [one["name"] for one in self.spec.get("initContainers", ()) if one.get("restartPolicy") == "Always"]

    @property
    def ready(self) -> bool:
        """True if all of its containers are ready."""
        wanted = {*self.sidecars, *(one["name"] for one in self.spec["containers"])}
        return not self.stopping and wanted <= self.ready_containers

    @property
    def labels(self) -> dict[str, str]:
        """Its labels."""
        labels: dict[str, str] = self.template["metadata"]["labels"]
        return labels

    @property
    def ports(self) -> dict[str, int]:
        """The ports of its containers by name."""
        containers = [*self.spec["containers"], *self.spec.get("initContainers", ())]
        return {
            port["name"]: port["containerPort"] for one in containers for port in one.get("ports", ()) if "name" in port
        }


class Cluster:
    """One node's worth of a cluster; an async context manager.

    Args:
        folder: Where volumes, logs and roots are.
        lag: Seconds after which DNS knows of a headless Service's pod that came or went.
    """

    def __init__(self, folder: Path, lag: float = 1.0) -> None:
        self.folder = folder
        self.pods: list[Pod] = []
        self.past: list[Pod] = []
        self.probes: Counter[tuple[str, str, bool]] = Counter()
        self.peaks: dict[str, int] = {}
        """Most memory that containers of one name have held, in bytes."""
        self.manifests: list[Manifest] = []
        self.jobs: dict[str, asyncio.Task[str]] = {}
        self.statuses: dict[str, Manifest] = {}
        """The status of each Job."""
        self._lag = lag
        self._limited = not pod_memory.missing()
        self._images: dict[str, tuple[list[str], tuple[Path, ...]]] = {}
        self._id = secrets.token_hex(2)
        self._node = f"lyn-{self._id}-node"
        self._numbers = itertools.count(16)
        self._numbers_asked = itertools.count()
        self._addresses: dict[str, str] = {}
        self._applied: dict[str, str] = {}
        self._tasks: list[asyncio.Task[Any]] = []
        self._asked: dict[int, asyncio.Future[bool]] = {}
        self._prober: asyncio.subprocess.Process | None = None
        self._dns: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Cluster:
        _ip("netns", "add", self._node)
        _ip("-n", self._node, "link", "add", "br0", "type", "bridge")
        for address in (NODE, DNS):
            _ip("-n", self._node, "addr", "add", f"{address}/16", "dev", "br0")
        _ip("-n", self._node, "link", "set", "br0", "up")
        _ip("-n", self._node, "link", "set", "lo", "up")
        self._prober = await self._helper("pod_prober.py")
        self._dns = await self._helper("pod_dns.py", DNS)
        assert self._dns.stdout is not None
        assert await self._dns.stdout.readline() == b"ready\n"
        self._tasks.append(asyncio.create_task(self._answers()))
        return self

    async def _helper(self, *args: str) -> asyncio.subprocess.Process:
        script, *arguments = args
        return await asyncio.create_subprocess_exec(
            *(*self.outside, sys.executable, str(HERE / script), *arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"PATH": os.environ["PATH"]},
        )

    async def __aexit__(self, *_: object) -> None:
        tasks = [*self._tasks, *self.jobs.values(), *(pod.task for pod in self.pods if pod.task)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        helpers = [process for process in (self._prober, self._dns) if process is not None]
        processes = [*helpers, *(process for pod in self.pods for process in pod.processes.values())]
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        await asyncio.gather(*(process.wait() for process in processes))
        for pod in self.pods:
            self._remove_namespace(pod)
        _ip("netns", "del", self._node)

    # What a test does.

    def claim(self, name: str) -> Path:
        """Returns the folder of a PersistentVolumeClaim."""
        return self.folder / "claims" / name

    @property
    def outside(self) -> list[str]:
        """Returns the command prefix that runs a command beside the pods, which reach it as 10.244.0.1."""
        return ["ip", "netns", "exec", self._node]

    def image(self, name: str, command: Sequence[str], *folders: Path) -> None:
        """Makes an image that pods may ask for: its entry point, and folders of this machine that it holds."""
        self._images[name] = list(command), folders

    def secret(self, name: str, values: dict[str, bytes], namespace: str = "lyncean") -> None:
        """Makes a Secret that pods may mount or name, as another controller would."""
        metadata = {"name": name, "namespace": namespace}
        data = {key: value.decode() for key, value in values.items()}
        self.manifests.append({"kind": "Secret", "metadata": metadata, "stringData": data})

    def apply(self, manifests: list[Manifest]) -> None:
        """Takes manifests in, as `kubectl apply` does, and starts what they describe.

        What is there already stays as it is; a change of it would be one object of two owners, and is refused.
        """
        by_name = {(one["kind"], one["metadata"]["name"]): one for one in self.manifests}
        for one in manifests:
            name = one["kind"], one["metadata"]["name"]
            assert by_name.get(name, one) == one, f"{name} is there, and it is another one"
        manifests = [one for one in manifests if one not in self.manifests]
        self.manifests = [*self.manifests, *manifests]
        for manifest in of_kind(manifests, "PersistentVolumeClaim"):
            _volume(self.claim(manifest["metadata"]["name"]), 65532)
        for manifest in of_kind(manifests, "Deployment"):
            self._tasks.append(asyncio.create_task(pod_controllers.deployment(self, manifest)))
        for manifest in of_kind(manifests, "LeaderWorkerSet"):
            self._tasks.append(asyncio.create_task(pod_controllers.leader_worker_set(self, manifest)))
        for manifest in of_kind(manifests, "Job"):
            self._job(manifest)
        self.publish()

    def _job(self, manifest: Manifest) -> None:
        self.jobs[manifest["metadata"]["name"]] = asyncio.create_task(pod_controllers.job(self, manifest))

    def again(self, name: str) -> None:
        """Deletes a Job that has ended and creates it as it was applied."""
        assert self.jobs[name].done()
        (manifest,) = (one for one in of_kind(self.manifests, "Job") if one["metadata"]["name"] == name)
        self._job(manifest)

    def delete(self, kind: str, name: str) -> None:
        """Deletes an object, and begins to end the pods that it owns."""
        (manifest,) = (one for one in of_kind(self.manifests, kind) if one["metadata"]["name"] == name)
        self.manifests = [one for one in self.manifests if one is not manifest]
        if kind == "Job":
            self.jobs[name].cancel()
        for pod in [pod for pod in self.pods if pod.owner is manifest]:
            self._tasks.append(asyncio.create_task(self.end(pod)))
        self.publish()

    async def job(self, name: str) -> str:
        """Waits for a Job: "Complete", or "Failed" with the reason."""
        return await self.jobs[name]

    def of(self, app: str) -> list[Pod]:
        """The live pods of one application."""
        return [pod for pod in self.pods if pod.labels["app.kubernetes.io/name"] == app]

    async def drain(self, pod: Pod, grace: float | None = None) -> None:
        """Evicts a pod as a node drain does."""
        pod.drained = True
        await self.end(pod, grace)

    async def end(self, pod: Pod, grace: float | None = None) -> None:
        """Ends a pod: no longer ready, SIGTERM, SIGKILL after its grace."""
        pod.stopping = True
        self.publish()
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
        """Returns the output of a container."""
        file = self.folder / "logs" / f"{pod.name}.{container}"
        return file.read_text() if file.exists() else ""

    # The kubelet.

    def start(
        self,
        owner: Manifest,
        template: Manifest,
        name: str = "",
        index: int | None = None,
        variables: dict[str, str] | None = None,
        aliases: tuple[str, ...] = (),
    ) -> Pod:
        """Starts a pod.

        Args:
            owner: The object that owns it.
            template: Its labels and spec.
            name: Its name; empty makes one up.
            index: Its completion index.
            variables: What the owner's controller adds to each container's environment.
            aliases: Names that DNS has for this pod alone.
        """
        number = next(self._numbers)
        parts = [owner["metadata"]["name"], *([] if index is None else [str(index)]), f"p{number}"]
        environment = {**(variables or {}), **({} if index is None else {"JOB_COMPLETION_INDEX": str(index)})}
        netns, address = f"lyn-{self._id}-p{number}", f"10.244.{number >> 8}.{number & 255}"
        pod = Pod(name or "-".join(parts), netns, address, owner, template, index, environment, aliases)
        inside, outside = f"e{self._id}{number}", f"v{self._id}{number}"
        _ip("netns", "add", netns)
        _ip("link", "add", outside, "netns", self._node, "type", "veth", "peer", "name", inside, "netns", netns)
        _ip("-n", self._node, "link", "set", outside, "master", "br0", "up")
        _ip("-n", netns, "link", "set", inside, "name", "eth0")
        _ip("-n", netns, "addr", "add", f"{address}/16", "dev", "eth0")
        _ip("-n", netns, "link", "set", "eth0", "up")
        _ip("-n", netns, "link", "set", "lo", "up")
        _ip("-n", netns, "route", "add", "default", "via", NODE)
        etc = Path("/etc/netns") / netns
        etc.mkdir(parents=True)
        (etc / "nsswitch.conf").write_text("hosts: files dns\npasswd: files\ngroup: files\n")
        domains = f"{pod.namespace}.svc.cluster.local svc.cluster.local cluster.local"
        (etc / "resolv.conf").write_text(f"nameserver {DNS}\nsearch {domains}\noptions ndots:5 timeout:1\n")
        hosts = [f"{one['ip']} {' '.join(one['hostnames'])}\n" for one in pod.spec.get("hostAliases", ())]
        (etc / "hosts").write_text(f"127.0.0.1 localhost\n{address} {pod.name}\n" + "".join(hosts))
        self.pods.append(pod)
        self.publish()
        pod.task = asyncio.create_task(self._run(pod))
        return pod

    async def _run(self, pod: Pod) -> None:
        sidecars: list[asyncio.Task[None]] = []
        never = pod.spec.get("restartPolicy") == "Never"
        try:
            for container in pod.spec.get("initContainers", ()):
                if container.get("restartPolicy") == "Always":
                    started = asyncio.Event()
                    sidecars.append(asyncio.create_task(self._sidecar(pod, container, started)))
                    while not started.is_set():
                        self._go_on(pod)
                        await asyncio.sleep(0.02)
                    continue
                while code := await self._ended(pod, container, await self._process(pod, container)):
                    if never:
                        pod.exit_code, pod.ended_by = code, container["name"]
                        return
                    await self._again(pod, container)
            (container,) = pod.spec["containers"]
            while True:
                process = await self._process(pod, container)
                probing = asyncio.create_task(self._probe(pod, container, process))
                code = await self._ended(pod, container, process)
                probing.cancel()
                await asyncio.gather(probing, return_exceptions=True)
                self._set_ready(pod, container, False)
                if never:
                    pod.exit_code, pod.ended_by = code, container["name"]
                    return
                await self._again(pod, container)
        except _Stopped:
            pod.exit_code = 143 if pod.exit_code is None else pod.exit_code
        finally:
            await self._end_sidecars(pod, sidecars)
            if asyncio.current_task() and not asyncio.current_task().cancelling():  # type: ignore[union-attr]
                pod.stopping = True
                self.pods.remove(pod)
                self.past.append(pod)
                self._remove_namespace(pod)
                self.publish()

    def _go_on(self, pod: Pod) -> None:
        if pod.stopping:
            raise _Stopped

    async def _again(self, pod: Pod, container: Manifest) -> None:
        """Waits before a container's next start."""
        self._go_on(pod)
        pod.restarts += 1
        pod.waiting[container["name"]] = "CrashLoopBackOff", "back-off restarting failed container"
        await asyncio.sleep(RETRY)
        self._go_on(pod)

    async def _sidecar(self, pod: Pod, container: Manifest, started: asyncio.Event) -> None:
        """Runs a container until it is cancelled; what comes after it starts once its startup probe says so, without
        one at once."""
        with contextlib.suppress(_Stopped):
            while True:
                process = await self._process(pod, container)
                if "startupProbe" not in container:
                    started.set()
                probing = asyncio.create_task(self._probe(pod, container, process, started))
                try:
                    await self._ended(pod, container, process)
                finally:
                    probing.cancel()
                    await asyncio.gather(probing, return_exceptions=True)
                self._set_ready(pod, container, False)
                await self._again(pod, container)

    async def _end_sidecars(self, pod: Pod, tasks: list[asyncio.Task[None]]) -> None:
        """Ends sidecars in the reverse order of their start, each with SIGTERM, then SIGKILL after the pod's grace."""
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for container in reversed(pod.spec.get("initContainers", ())):
            process = pod.processes.get(container["name"])
            if process is None or process.returncode is not None:
                continue
            process.send_signal(signal.SIGTERM)
            try:
                await asyncio.wait_for(process.wait(), pod.spec.get("terminationGracePeriodSeconds", 30))
            except TimeoutError:
                process.kill()
            await self._ended(pod, container, process)

    async def _ended(self, pod: Pod, container: Manifest, process: asyncio.subprocess.Process) -> int:
        """Waits for a container's end and returns its exit code, 128 + N for one that signal N has ended."""
        code = await process.wait()
        code = code if code >= 0 else 128 - code
        reason = "Completed" if code == 0 else "Error"
        name = container["name"]
        if group := pod.groups.pop(name, None):
            reason = "OOMKilled" if group.out_of_memory and code == 137 else reason
            self.peaks[name] = max(self.peaks.get(name, 0), group.peak)
            group.remove()
        pod.terminated[name] = code, reason
        return code

    async def _process(self, pod: Pod, container: Manifest) -> asyncio.subprocess.Process:
        self._go_on(pod)
        while problem := self._not_created(pod, container):
            pod.waiting[container["name"]] = problem
            await asyncio.sleep(0.1)
            self._go_on(pod)
        pod.waiting.pop(container["name"], None)
        image = container["image"]
        command, folders = self._images.get(image, (entrypoint(image), ()))
        variables = self._variables(pod, container)
        program, arguments = command_line(container, variables)
        variables["PATH"] = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/usr/sbin:/bin"
        context = {**pod.spec["securityContext"], **container["securityContext"]}
        mounts = []
        for mount in container.get("volumeMounts", ()):
            (volume,) = (volume for volume in pod.spec["volumes"] if volume["name"] == mount["name"])
            read_only = mount.get("readOnly") or not volume.keys() & {"emptyDir", "persistentVolumeClaim"}
            mounts.append(f"{'ro' if read_only else 'rw'}={self._host(pod, volume)}:{mount['mountPath']}")
        mounts.sort(key=lambda word: word.rpartition(":")[2])
        root = self.folder / "roots" / f"{pod.name}.{container['name']}"
        root.mkdir(parents=True, exist_ok=True)
        log = self.folder / "logs" / f"{pod.name}.{container['name']}"
        log.parent.mkdir(exist_ok=True)
        user, group = str(context["runAsUser"]), str(context["runAsGroup"])
        script = [str(HERE / "container.sh"), str(root), container.get("workingDir", "/tmp"), user, group]
        with log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                *(*self._limit(pod, container), "ip", "netns", "exec", pod.netns, "/bin/sh", *script),
                "yes" if context.get("readOnlyRootFilesystem") else "no",
                *(*mounts, *(f"ro={path}:{path}" for path in (*CODE, *folders)), "--"),
                *(program or command),
                *arguments,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=variables,
                start_new_session=True,
            )
        pod.processes[container["name"]] = process
        return process

    def _not_created(self, pod: Pod, container: Manifest) -> tuple[str, str] | None:
        """Why a container cannot be created: reason and message as the kubelet writes them."""
        image = container["image"]
        if image not in self._images and not entrypoint(image):
            return "ErrImagePull", f"{image}: not found"
        for volume in pod.spec.get("volumes", ()):
            for key, kind, name in (("secret", "Secret", "secretName"), ("configMap", "ConfigMap", "name")):
                if key in volume and volume[key][name] not in data_of(self.manifests, kind):
                    return "ContainerCreating", f"{kind} {volume[key][name]} not found"
        try:
            self._variables(pod, container)
        except (AssertionError, KeyError) as error:
            return "CreateContainerConfigError", str(error)
        return None

    def _variables(self, pod: Pod, container: Manifest) -> dict[str, str]:
        built = {} if container["image"] in self._images else image_variables(container["image"])
        return {**built, **environment(container, self.manifests, pod.variables)}

    def _limit(self, pod: Pod, container: Manifest) -> list[str]:
        """Returns the command prefix that holds a container to its memory limit."""
        limit = container["resources"].get("limits", {}).get("memory")
        if limit is None or not self._limited:
            return []
        group = pod_memory.Group(f"{pod.netns}-{container['name']}-{next(self._numbers_asked)}", limit)
        pod.groups[container["name"]] = group
        return ["/bin/sh", "-c", 'echo $$ > "$0" && exec "$@"', str(group.processes)]

    def _host(self, pod: Pod, volume: Manifest) -> Path:
        if "persistentVolumeClaim" in volume:
            return self.claim(volume["persistentVolumeClaim"]["claimName"])
        group = pod.spec["securityContext"]["fsGroup"]
        folder = self.folder / "volumes" / pod.name / volume["name"]
        for key, kind, name in (("secret", "Secret", "secretName"), ("configMap", "ConfigMap", "name")):
            if key in volume and not folder.exists():
                _volume(folder, group)
                for file, text in data_of(self.manifests, kind)[volume[key][name]].items():
                    (folder / file).write_text(text)
                    os.chown(folder / file, 0, group)
                    (folder / file).chmod(0o640 if kind == "Secret" else 0o644)
        assert volume.keys() & {"emptyDir", "secret", "configMap"}, f"{volume} is not run here"
        return _volume(folder, group)

    def _set_ready(self, pod: Pod, container: Manifest, ready: bool) -> None:
        before = pod.ready
        (pod.ready_containers.add if ready else pod.ready_containers.discard)(container["name"])
        if pod.ready != before:
            self.publish()

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
            ready = False
            while True:
                await self._until(pod, probe, "readiness", not ready)
                ready = not ready
                self._set_ready(pod, container, ready)

        async def liveness(probe: Manifest) -> None:
            await asyncio.sleep(probe.get("initialDelaySeconds", 0))
            if await self._until(pod, probe, "liveness", False):
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(signal.SIGTERM)

        if not container.get("readinessProbe"):
            self._set_ready(pod, container, True)
        await asyncio.gather(
            *(readiness(probe) for probe in [container.get("readinessProbe")] if probe),
            *(liveness(probe) for probe in [container.get("livenessProbe")] if probe),
        )

    async def _until(self, pod: Pod, probe: Manifest, kind: str, wanted: bool) -> bool:
        """Probes until the answer was `wanted` often enough in a row; False if a startup probe fails too often."""
        threshold = probe.get("successThreshold", 1) if wanted else probe.get("failureThreshold", 3)
        row, failures = 0, 0
        while True:
            well = await self._ask(pod, probe)
            self.probes[pod.labels["app.kubernetes.io/name"], kind, well] += 1
            row = row + 1 if well == wanted else 0
            if row >= threshold:
                return True
            failures += not well
            if kind == "startup" and failures >= probe.get("failureThreshold", 3):
                return False
            await asyncio.sleep(probe.get("periodSeconds", 10))

    async def _ask(self, pod: Pod, probe: Manifest) -> bool:
        assert self._prober is not None
        assert self._prober.stdin is not None
        if "grpc" in probe:
            address = f"{pod.address}:{probe['grpc']['port']}"
            request: dict[str, Any] = {"address": address, "service": probe["grpc"].get("service", "")}
        else:
            port = probe["httpGet"]["port"]
            request = {"url": f"http://{pod.address}:{pod.ports.get(port, port)}{probe['httpGet'].get('path', '/')}"}
        number = next(self._numbers_asked)
        answer = self._asked[number] = asyncio.get_running_loop().create_future()
        request |= {"id": number, "timeout": probe.get("timeoutSeconds", 1)}
        self._prober.stdin.write(json.dumps(request).encode() + b"\n")
        return await answer

    async def _answers(self) -> None:
        assert self._prober is not None
        assert self._prober.stdout is not None
        async for line in self._prober.stdout:
            answer = json.loads(line)
            future = self._asked.pop(answer["id"])
            if not future.cancelled():
                future.set_result(answer["well"])

    # Names, addresses, policies.

    def publish(self) -> None:
        """Tells DNS, after its lag, and the rules of every pod, at once, what is there now."""
        table: dict[str, list[str]] = {}
        services = []
        for service in of_kind(self.manifests, "Service"):
            name, namespace = service["metadata"]["name"], service["metadata"]["namespace"]
            spec = service["spec"]
            chosen = [
                pod
                for pod in self.pods
                if pod.namespace == namespace
                and (pod.ready or spec.get("publishNotReadyAddresses"))
                and spec["selector"].items() <= pod.labels.items()
            ]
            name = f"{name}.{namespace}.svc.cluster.local"
            if spec.get("clusterIP") == "None":
                table[name] = [pod.address for pod in chosen]
                continue
            address = self._addresses.setdefault(name, f"10.245.0.{len(self._addresses) + 1}")
            table[name] = [address]
            for port in spec["ports"]:
                ends = [f"{pod.address}:{pod.ports.get(port['targetPort'], port['targetPort'])}" for pod in chosen]
                services.append({"address": address, "port": port["port"], "ends": ends})
        for pod in self.pods:
            table |= {f"{alias}.svc.cluster.local": [pod.address] for alias in pod.aliases}
        peers = {pod: Peer(pod.address, pod.namespace, pod.labels, pod.ports) for pod in self.pods}
        policies = of_kind(self.manifests, "NetworkPolicy")
        for pod, peer in peers.items():
            text = rules(peer, list(peers.values()), policies, services)
            if self._applied.get(pod.netns) != text:
                command = ["nsenter", f"--net=/run/netns/{pod.netns}", "iptables-restore"]
                subprocess.run(command, input=text, text=True, check=True, capture_output=True)
                self._applied[pod.netns] = text
        self._tasks.append(asyncio.create_task(self._resolve_later(table)))

    async def _resolve_later(self, table: dict[str, list[str]]) -> None:
        await asyncio.sleep(self._lag)
        assert self._dns is not None
        assert self._dns.stdin is not None
        self._dns.stdin.write(json.dumps(table).encode() + b"\n")

    def _remove_namespace(self, pod: Pod) -> None:
        _ip("netns", "del", pod.netns)
        shutil.rmtree(Path("/etc/netns") / pod.netns)
        shutil.rmtree(self.folder / "volumes" / pod.name, ignore_errors=True)
        self._applied.pop(pod.netns, None)
        for group in pod.groups.values():
            group.remove()


def _volume(path: Path, group: int) -> Path:
    if not path.exists():
        path.mkdir(parents=True)
        os.chown(path, 0, group)
        path.chmod(0o2775)
    return path
