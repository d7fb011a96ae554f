"""Rules of iptables that a network plugin and kube-proxy write into a pod's namespace, from policies and Services.

Only new connections are checked, as plugins do: established ones continue. A refused one gets a reset, so that a test
needs not wait for a timeout. Each pod's own namespace holds its rules: ingress in INPUT, egress in OUTPUT, and a
Service's virtual address is replaced by a ready pod's before the policies see it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Manifest = dict[str, Any]
NODE = "10.244.0.1"
DNS = "10.244.0.10"


@dataclass(frozen=True, slots=True)
class Peer:
    """A pod as policies see it."""

    address: str
    namespace: str
    labels: Mapping[str, str]
    ports: Mapping[str, int]


NAMES = Peer(DNS, "kube-system", {"k8s-app": "kube-dns"}, {"dns": 53, "dns-tcp": 53})
"""The pod that answers for cluster DNS."""


def selects(selector: Manifest, labels: Mapping[str, str]) -> bool:
    """Returns True if a label selector matches labels; {} matches all."""
    assert selector.keys() <= {"matchLabels", "matchExpressions"}, selector
    tests = {
        "In": lambda has, values: has in values,
        "NotIn": lambda has, values: has not in values,
        "Exists": lambda has, _: has is not None,
        "DoesNotExist": lambda has, _: has is None,
    }
    return selector.get("matchLabels", {}).items() <= labels.items() and all(
        tests[rule["operator"]](labels.get(rule["key"]), rule.get("values"))
        for rule in selector.get("matchExpressions", ())
    )


def rules(pod: Peer, pods: Sequence[Peer], policies: Sequence[Manifest], services: Sequence[Manifest]) -> str:
    """Returns what iptables-restore reads for one pod.

    Args:
        pod: The pod.
        pods: All pods of the cluster.
        policies: NetworkPolicies of all namespaces.
        services: Services with a virtual address: `address`, `port`, and `ends`, its backends' addresses with port.
    """
    lines = ["*filter", ":INPUT ACCEPT", ":FORWARD ACCEPT", ":OUTPUT ACCEPT"]
    for chain, way in (("INPUT", "-i"), ("OUTPUT", "-o")):
        lines += [f"-A {chain} {way} lo -j ACCEPT", f"-A {chain} -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT"]
    lines += [
        f"-A OUTPUT -p tcp -d {one['address']} --dport {one['port']} -j REJECT --reject-with tcp-reset"
        for one in services
        if not one["ends"]
    ]
    lines.append(f"-A INPUT -s {NODE} -j ACCEPT")  # the kubelet's probes, which no policy holds back
    chosen = [
        policy["spec"]
        for policy in policies
        if policy["metadata"]["namespace"] == pod.namespace and selects(policy["spec"]["podSelector"], pod.labels)
    ]
    for chain, kind, side in (("INPUT", "ingress", "from"), ("OUTPUT", "egress", "to")):
        held = [spec for spec in chosen if kind in [one.lower() for one in _types(spec)]]
        if not held:
            continue
        for spec in held:
            for rule in spec.get(kind, ()):
                lines += [f"-A {chain} {match} -j ACCEPT" for match in _opened(rule, side, pod, [*pods, NAMES])]
        lines += [f"-A {chain} -p tcp -j REJECT --reject-with tcp-reset", f"-A {chain} -j REJECT"]
    lines += ["COMMIT", "*nat", ":PREROUTING ACCEPT", ":INPUT ACCEPT", ":OUTPUT ACCEPT", ":POSTROUTING ACCEPT"]
    for one in services:
        for index, end in enumerate(one["ends"]):
            chance = f"-m statistic --mode random --probability {1 / (len(one['ends']) - index):.6f}"
            lines.append(f"-A OUTPUT -p tcp -d {one['address']} --dport {one['port']} {chance} -j DNAT --to {end}")
    return "\n".join([*lines, "COMMIT", ""])


def _types(spec: Manifest) -> list[str]:
    """The directions that a policy is about; unset, it is ingress, and egress where it has rules for it."""
    types: list[str] = spec.get("policyTypes") or ["Ingress", *(["Egress"] if "egress" in spec else [])]
    return types


def _opened(rule: Manifest, side: str, pod: Peer, pods: Sequence[Peer]) -> Iterator[str]:
    """The matches of one rule: each peer with each port; a name of a port is that of whoever is connected to."""
    ports = rule.get("ports") or [None]
    if not rule.get(side):
        for port in ports:
            assert port is None or side == "from" or isinstance(port["port"], int), "a name of anybody's port"
            yield _port(port, pod)
        return
    for peer in rule[side]:
        assert not peer.keys() - {"podSelector", "namespaceSelector"}, f"{peer} is not enforced here"
        for other in pods:
            if not _is(peer, other, pod.namespace):
                continue
            for port in ports:
                match = _port(port, other if side == "to" else pod)
                if match is not None:
                    yield f"-{'s' if side == 'from' else 'd'} {other.address} {match}"


def _is(peer: Manifest, other: Peer, namespace: str) -> bool:
    if "namespaceSelector" in peer:
        if not selects(peer["namespaceSelector"], {"kubernetes.io/metadata.name": other.namespace}):
            return False
    elif other.namespace != namespace:
        return False
    return selects(peer.get("podSelector", {}), other.labels)


def _port(port: Manifest | None, target: Peer) -> str | None:
    """The match of a port; None where the target has none of that name."""
    if port is None:
        return ""
    number = port["port"] if isinstance(port["port"], int) else target.ports.get(port["port"])
    return None if number is None else f"-p {port.get('protocol', 'TCP').lower()} --dport {number}"
