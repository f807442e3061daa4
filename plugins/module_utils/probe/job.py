# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Job that tries a connection: its object, and the meaning of its pod's end. Pure.

Its pod has the labels, the ServiceAccount's name and the namespace of a pod that the intent names as source, and so that pod's
identity, which peers know already. Cilium's default label filter ignores labels that begin with "annotation" (cilium:
pkg/labelsfilter/filter.go, defaultLabelPrefixCfg), so the one label by which the Job knows its pod does not change the identity; the
labels that the Job controller sets otherwise would ("job-name"), hence ``manualSelector``.

It must never get traffic: a readiness gate that is never set keeps it unready, and a Service that publishes unready addresses is a
reason not to start it. No ReplicaSet adopts it, since it has a controller.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import ip_address
from typing import Any, Final

from ..base.json_fields import items, mapping, number, text
from ..base.redact import one_line
from ..items.labels import matches
from ..items.models import PortRule
from ..items.owned import item_marks
from ..mesh.binding.item_kinds import ItemRef
from ..mesh.binding.model import MANAGER_DOMAIN, Binding
from .limits import Limits
from .pods import ProbedPod

PROBE_LABEL: Final = f"{MANAGER_DOMAIN}/probe"
"""Label of every Job of a probe."""
POD_LABEL: Final = f"annotation.{PROBE_LABEL}"
GATE: Final = f"{MANAGER_DOMAIN}/never-ready"

TRY_SECONDS: Final = 3  # of one connection
TRIES: Final = 4

_OF_CONTROLLERS: Final = (
    "pod-template-hash",
    "controller-revision-hash",
    "pod-template-generation",
    "statefulset.kubernetes.io/",
    "apps.kubernetes.io/pod-index",
    "batch.kubernetes.io/",
    "controller-uid",
    "job-name",
)
"""Labels (or their beginning) that controllers put on pods of theirs, and by which they and their Services find them."""

SCRIPT: Final = """\
try() {
  out=$(nc -v -z -w "$3" "$1" "$2" </dev/null 2>&1) && return 0
  case "$out" in *sage:*|*"invalid option"*|*"unrecognized option"*)
    out=$(nc -w "$3" "$1" "$2" -e true </dev/null 2>&1) && return 0 ;;
  esac
  return 1
}
n=0
while :; do
  n=$((n + 1))
  if try "$1" "$2" "$3"; then last=connected; out=; else
    case "$out" in *refused*) last=refused ;; *"timed out"*|*timeout*) last=timeout ;; *) last=other ;; esac
  fi
  [ "$last" = "$5" ] || [ "$last" = refused ] || [ "$n" -ge "$4" ] && break
  sleep 1
done
echo "$out" | tail -n 1
echo "$last after $n"
[ "$last" = connected ]
"""
"""``nc`` of BusyBox (with -z, or with -e) or of OpenBSD, in the POSIX shell. Arguments: address, port, seconds for one try, tries, and the
answer at which to stop at once. A new pod's address takes a moment to reach the peers, so one answer that contradicts is not enough."""


class ConnectionResult(StrEnum):
    """Result of a connection."""

    CONNECTED = "connected"
    REFUSED = "refused"
    TIMEOUT = "timeout"
    OTHER = "other"
    NOTHING = "nothing"  # it was not tried, or its result is unknown


@dataclass(frozen=True, kw_only=True)
class JobTarget:
    """Address to which one container of the pod connects."""

    cluster: str  # inventory name
    pod: str  # namespace/name
    address: str
    port: int

    @property
    def shown(self) -> str:
        """Address and port as text."""
        host = f"[{self.address}]" if ip_address(self.address).version == 6 else self.address
        return f"{host}:{self.port}"


def pod_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels of a pod without those that its controller sets."""
    return {key: value for key, value in labels.items() if not key.startswith(_OF_CONTROLLERS) and not key.startswith(PROBE_LABEL)}


def tcp_port(rules: Sequence[PortRule], declared: Sequence[int]) -> int:
    """Return the port to try; 0 when there is none.

    It is one that the pod declares and the intent is about, else the first that the intent names.
    """
    usable = [rule for rule in rules if rule.protocol in ("TCP", "ANY")]
    if not rules:
        return declared[0] if declared else 0
    inside = (p for rule in usable for p in declared if not rule.port or rule.port <= p <= max(rule.end_port, rule.port))
    named = (rule.port for rule in usable if rule.port)
    return next(inside, 0) or next(named, 0)


def job_body(
    binding: Binding,
    ref: ItemRef,
    name: str,
    like: ProbedPod,
    targets: Sequence[JobTarget],
    *,
    image: str,
    command: Sequence[str],
    expects: ConnectionResult,
    limits: Limits,
) -> dict[str, Any]:
    """Return the Job.

    :param like: the pod whose identity the probe takes; its namespace is the Job's.
    :param command: () is the built-in one.
    :param expects: the result at which the built-in command stops at once.
    """
    own = item_marks(binding, ref)
    containers = [_container(number, target, image, command, expects) for number, target in enumerate(targets)]
    pod: dict[str, Any] = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "dnsPolicy": "Default",
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "readinessGates": [{"conditionType": GATE}],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65534,
            "runAsGroup": 65534,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": containers,
    }
    if like.account:
        pod["serviceAccountName"] = like.account
    annotations = {**own["annotations"], "sidecar.istio.io/inject": "false", "linkerd.io/inject": "disabled"}
    selector = {POD_LABEL: name}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": like.namespace,
            "labels": {**own["labels"], PROBE_LABEL: "true"},
            "annotations": own["annotations"],
        },
        "spec": {
            "parallelism": 1,
            "completions": 1,
            "backoffLimit": 0,
            "activeDeadlineSeconds": limits.job_seconds,
            "ttlSecondsAfterFinished": limits.job_ttl,
            "manualSelector": True,
            "selector": {"matchLabels": selector},
            "template": {"metadata": {"labels": {**pod_labels(like.labels), **selector}, "annotations": annotations}, "spec": pod},
        },
    }


def _container(place: int, target: JobTarget, image: str, command: Sequence[str], expects: ConnectionResult) -> dict[str, Any]:
    built_in = ["/bin/sh", "-c", SCRIPT, "probe", target.address, str(target.port), str(TRY_SECONDS), str(TRIES), expects.value]
    return {
        "name": f"probe-{place}",
        "image": image,
        "command": list(command) or built_in,
        "env": [
            {"name": "PROBE_ADDRESS", "value": target.address},
            {"name": "PROBE_PORT", "value": str(target.port)},
            {"name": "PROBE_TARGET", "value": target.shown},
            {"name": "PROBE_EXPECTS", "value": expects.value},
        ],
        "resources": {
            "requests": {"cpu": "5m", "memory": "8Mi"},
            "limits": {"cpu": "100m", "memory": "32Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


@dataclass(frozen=True, kw_only=True)
class ContainerEnd:
    """End of one container. ``words`` are its own, at most a line."""

    tried: ConnectionResult
    words: str = ""


def container_ends(pod: Any, count: int) -> list[ContainerEnd | None]:
    """Return the end of each container in order; None while it has not ended."""
    statuses = {text(s, "name"): s for s in items(pod, "status", "containerStatuses")}
    return [_end(statuses.get(f"probe-{place}", {}), text(pod, "status", "phase")) for place in range(count)]


def connection_result(exit_code: int, message: str) -> ConnectionResult:
    """Return the result that a command reports.

    The contract with the command: exit code 0 is connected; else the last line of its output says "refused" or "timeout" (or "timed
    out").
    """
    if exit_code == 0:
        return ConnectionResult.CONNECTED
    last = next((line.lower() for line in reversed(message.splitlines()) if line.strip()), "")
    if "refused" in last:
        return ConnectionResult.REFUSED
    return ConnectionResult.TIMEOUT if "timeout" in last or "timed out" in last else ConnectionResult.OTHER


_HOPELESS: Final = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "CreateContainerConfigError", "CreateContainerError"})


def _end(status: Mapping[str, Any], phase: str) -> ContainerEnd | None:
    ended = mapping(status, "state", "terminated")
    if ended:
        if text(ended, "reason") in ("StartError", "ContainerCannotRun", "OOMKilled", "DeadlineExceeded"):
            return ContainerEnd(tried=ConnectionResult.NOTHING, words=f"its container did not run ({one_line(text(ended, 'reason'), 40)})")
        message = text(ended, "message")[-4096:]
        return ContainerEnd(tried=connection_result(number(ended, "exitCode"), message), words=one_line(" ".join(message.split()), 120))
    waits = text(status, "state", "waiting", "reason")
    if waits in _HOPELESS:
        return ContainerEnd(tried=ConnectionResult.NOTHING, words=f"its container does not start ({waits})")
    return ContainerEnd(tried=ConnectionResult.NOTHING, words="its pod was ended") if phase in ("Failed", "Succeeded") else None


def finished(job: Any) -> str:
    """Return the condition that ended a Job ("Complete", "Failed: DeadlineExceeded"), "" while it runs."""
    for entry in items(job, "status", "conditions"):
        if text(entry, "type") in ("Complete", "Failed") and text(entry, "status") == "True":
            reason = one_line(text(entry, "reason"), 60)
            return text(entry, "type") + (f": {reason}" if reason else "")
    return ""


def publishing_services(services: Iterable[Any], labels: Mapping[str, str]) -> list[str]:
    """Return the names of Services that would lead traffic to a pod with these labels although it is not ready."""
    found = []
    for service in services:
        selector = mapping(service, "spec", "selector")
        publishes = mapping(service, "spec").get("publishNotReadyAddresses") is True
        if publishes and selector and matches(selector, labels):
            found.append(text(service, "metadata", "name"))
    return found
