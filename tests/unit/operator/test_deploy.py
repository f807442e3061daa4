# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Chart, manifests and image say of the operator what the operator says of itself, and give it no more than it needs."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from http.client import HTTPConnection
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.yaml_reader import load_yaml, loader
from mesh_operator import __version__
from mesh_operator.base.kinds import BY_KIND, FLEET_GROUP, FLEET_ROWS, GROUP, METRICS, ROWS, UNITS
from mesh_operator.base.serve import Metrics, serve
from mesh_operator.base.settings import FLEET_NAMESPACE, PROFILES, Settings, parse_settings
from mesh_operator.crds import FLEET, crds
from mesh_operator.credentials.tenant_addresses import NETWORKS
from mesh_operator.replica import LEASES
from tests.collection_path import CHECKOUT
from tests.lab.tools import HELM
from tests.lab.tools.provide import at_hand
from tests.testing.json_schema import validator
from tests.testing.rows import in_one_test
from tests.testing.waiting import PATIENT

DEPLOY = CHECKOUT / "operator" / "deploy"
CHART = DEPLOY / "chart"
IN_A_POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1"}
DEFAULTS = Settings(
    kcp_kubeconfig="/etc/mesh-operator/kcp/kubeconfig",
    mgmt_kubeconfig="",
    node_id="mesh-operator-0",
    namespace="mesh-operator",
    metrics_addr=":8082",  # in a pod they have a port of their own, which the NetworkPolicy closes
)
FOLDERS = ("manifests", "kubernetes")
"""With kcp, and with namespaces as tenants."""
READS = frozenset({"get", "list", "watch"})
NEEDED = ("--set", "mgmt.namespace=default")
ONLY_READ = ["get", "list", "watch"]
NEEDS_HELM = pytest.mark.slow  # the gate builds no Helm; there the manifests are compared with the chart by digest


def read(path: Path) -> Any:
    return load_yaml(path.read_text(encoding="utf-8"))


def by_kind_and_name(text: str) -> dict[tuple[str, str], dict[str, Any]]:
    return {(obj["kind"], obj["metadata"]["name"]): obj for obj in yaml.load_all(text, loader()) if obj}


def manifests(folder: str = "manifests") -> dict[tuple[str, str], dict[str, Any]]:
    return by_kind_and_name("\n---\n".join(path.read_text(encoding="utf-8") for path in sorted((DEPLOY / folder).glob("*.yaml"))))


def pod_of(objects: dict[tuple[str, str], dict[str, Any]], name: str = "mesh-operator") -> dict[str, Any]:
    found: dict[str, Any] = objects["Deployment", name]["spec"]["template"]["spec"]
    return found


def rules_of(objects: dict[tuple[str, str], dict[str, Any]], *kinds: str) -> dict[tuple[str, str, str], list[str]]:
    """Verbs by namespace, group and resource; a resource that is limited to names has them behind it."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for (kind, _), obj in objects.items():
        for rule in obj["rules"] if kind in kinds else ():
            names = " ".join(["", *rule.get("resourceNames", ())])
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    found.setdefault((obj["metadata"].get("namespace", ""), group, resource + names), []).extend(rule["verbs"])
    return found


def with_profile(profile: str) -> str:
    """Values of the chart for a profile, and what it needs."""
    return f"profile={profile}" if profile == "mesh" else f"profile={profile},karmada.kubeconfigSecret.name=karmada"


def settings_of(pod: dict[str, Any], environment: dict[str, str]) -> Settings:
    arguments = [str(text).replace("$(POD_NAME)", "mesh-operator-0") for text in pod["containers"][0]["args"]]
    return parse_settings(arguments, environment)


def helm(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    found = at_hand([HELM], print).get(HELM)
    if found is None:
        pytest.skip(
            "helm is not at hand (python -m tests.lab.tools build helm builds it), so the chart cannot be rendered; the manifests are "
            "compared with it by digest"
        )
    needed = () if "--values" in arguments else NEEDED  # a --set goes before a file
    command = [str(found.path), "template", "mesh-operator", str(CHART), "--namespace", "mesh-operator", *needed, *arguments]
    return subprocess.run(command, check=check, capture_output=True, text=True)


# The chart and the plain manifests


def test_the_manifests_start_the_operator_with_its_own_defaults() -> None:
    assert settings_of(pod_of(manifests()), IN_A_POD) == DEFAULTS


def test_the_manifests_without_kcp_start_the_operator_with_its_own_defaults_too_and_mount_no_kubeconfig() -> None:
    pod = pod_of(manifests("kubernetes"))
    wanted = replace(DEFAULTS, source="kubernetes", kcp_kubeconfig="", mgmt_namespace="mesh-operator")
    assert settings_of(pod, IN_A_POD) == wanted
    assert {volume["name"] for volume in pod["volumes"]} == {"shm", "tmp"} and pod["automountServiceAccountToken"] is True


def test_the_manifests_of_fleets_start_the_operator_for_them_in_a_namespace_of_its_own() -> None:
    objects = manifests("fleet")
    wanted = replace(
        DEFAULTS,
        profile="fleet",
        namespace=FLEET_NAMESPACE,
        api_export_name=Settings.fleet_export_name,
        karmada_kubeconfig="/etc/mesh-operator/karmada/kubeconfig",
    )
    pod = pod_of(objects, "fleet-mesh-operator")
    assert settings_of(pod, IN_A_POD) == wanted
    assert {obj["metadata"].get("namespace", name) for (_, name), obj in objects.items()} == {FLEET_NAMESPACE, "default"}
    shared = {(kind, name) for kind, name in objects if objects[kind, name]["metadata"].get("namespace") == "default"} & manifests().keys()
    assert not shared, "an operator for meshes beside it would lose these to it"
    [ports] = [rule["ports"] for rule in objects["NetworkPolicy", "fleet-mesh-operator"]["spec"]["egress"] if "to" in rule]
    assert {"port": 5443, "protocol": "TCP"} in ports, "the port of Karmada's API server"


@NEEDS_HELM
def test_with_namespaces_as_tenants_the_chart_brings_the_kinds_and_reads_the_secrets_of_the_named_namespaces_alone() -> None:
    made = helm("--set", "source=kubernetes", "--set", "tenants.namespaces={team-a,team-b}").stdout
    objects = list(filter(None, yaml.safe_load_all(made)))
    kinds = [obj for obj in objects if obj["kind"] == "CustomResourceDefinition"]
    assert {obj["spec"]["names"]["kind"] for obj in kinds} == {crd["spec"]["names"]["kind"] for crd in crds()}
    assert {obj["metadata"]["annotations"]["helm.sh/resource-policy"] for obj in kinds} == {"keep"}, "with them all resources would go"
    roles = [obj for obj in objects if obj["kind"] in ("Role", "ClusterRole")]
    readers = {obj["metadata"].get("namespace") for obj in roles for rule in obj["rules"] if "secrets" in rule["resources"]}
    assert readers == {"default", "team-a", "team-b"}
    tenants = next(obj for obj in roles if obj["metadata"]["name"] == "mesh-operator-tenants")
    named = {resource.partition("/")[0] for rule in tenants["rules"] if rule["apiGroups"] == [GROUP] for resource in rule["resources"]}
    assert named == {crd["spec"]["names"]["plural"] for crd in crds()}
    assert "CustomResourceDefinition" not in {obj["kind"] for obj in filter(None, yaml.safe_load_all(helm().stdout))}


def test_the_chart_can_give_every_flag_of_the_operator_and_gives_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_settings(["--help"], {})
    known = set(re.findall(r"^ +(--[a-z-]+)", capsys.readouterr().out, re.MULTILINE)) - {"--version"}
    used = re.findall(r"^ *- (--[a-z-]+)", (CHART / "templates" / "deployment.yaml").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(used) == known


@NEEDS_HELM
def test_the_chart_brings_the_kinds_of_fleets_and_the_roles_of_their_tenants_where_that_is_asked() -> None:
    def names(*settings: str) -> set[str]:
        made = filter(None, yaml.safe_load_all(helm("--set", "source=kubernetes", *settings).stdout))
        return {f"{obj['kind']} {obj['metadata']['name']}" for obj in made}

    more = names("--set", "fleet.crds=true") - names()
    roles = {"ClusterRole edge-fleet-view", "ClusterRole edge-fleet-edit"}
    assert more == {f"CustomResourceDefinition {crd['metadata']['name']}" for crd in crds(FLEET)} | roles
    assert names("--set", with_profile("all")) == names("--set", "fleet.crds=true"), "the kinds come with the profile"
    alone = names("--set", with_profile("fleet"))
    brought = {name for name in alone if name.startswith("CustomResourceDefinition")}
    assert brought == {f"CustomResourceDefinition {crd['metadata']['name']}" for crd in crds(FLEET)}
    assert roles <= alone and not any("cilium-mesh" in name for name in alone)
    with_kcp = yaml.safe_load_all(helm("--set", "fleet.crds=true").stdout)
    assert "CustomResourceDefinition" not in {obj["kind"] for obj in filter(None, with_kcp)}


def test_the_manifests_are_those_of_this_chart() -> None:
    files = [Path(folder, name) for folder, _, names in os.walk(CHART, followlinks=True) for name in names]
    paths = sorted(path.relative_to(CHART).as_posix() for path in files)
    sums = "".join(f"{hashlib.sha256((CHART / path).read_bytes()).hexdigest()}  ./{path}\n" for path in paths)
    digest = hashlib.sha256(sums.encode()).hexdigest()
    for name in (f"{folder}/{part}.yaml" for folder in ("manifests", "kubernetes", "fleet") for part in ("2-rbac", "3-operator")):
        text = (DEPLOY / name).read_text(encoding="utf-8")
        assert f"sha256 {digest}." in text, f"The chart has changed since {name} was made: run operator/deploy/manifests/make (needs helm)."


def test_chart_manifests_and_package_have_the_version_of_the_collection() -> None:
    chart = read(CHART / "Chart.yaml")
    image = pod_of(manifests())["containers"][0]["image"]
    assert read(CHECKOUT / "galaxy.yml")["version"] == chart["version"] == chart["appVersion"] == __version__
    assert image == f"mesh-operator:{__version__}"


def test_the_pod_is_allowed_where_pods_are_restricted() -> None:
    # Pod Security Standards, profile restricted, and a root file system that cannot be written.
    pod = pod_of(manifests())
    [container] = pod["containers"]
    assert manifests()["Namespace", "mesh-operator"]["metadata"]["labels"] == {"pod-security.kubernetes.io/enforce": "restricted"}
    assert pod["securityContext"]["runAsNonRoot"] is True and pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC", "initContainers"} & set(pod)


def test_all_that_can_be_written_is_memory_of_limited_size() -> None:
    pod = pod_of(manifests())
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    writable = {m["mountPath"]: volumes[m["name"]]["emptyDir"] for m in pod["containers"][0]["volumeMounts"] if not m.get("readOnly")}
    assert set(writable) == {"/dev/shm", "/tmp"}
    assert all(volume["medium"] == "Memory" and volume["sizeLimit"] for volume in writable.values())
    assert volumes["kcp"]["secret"]["defaultMode"] & 0o337 == 0, "the user and the group of the pod read it, and no other user"


def test_probes_metrics_and_service_meet_the_server_of_the_operator() -> None:
    objects = manifests()
    [container] = pod_of(objects)["containers"]
    health, figures = container["ports"]
    [exposed] = objects["Service", "mesh-operator"]["spec"]["ports"]
    assert Settings.health_addr == f":{health['containerPort']}" and health["name"] == "http"
    assert DEFAULTS.metrics_addr == f":{figures['containerPort']}" == f":{exposed['port']}"
    assert exposed["targetPort"] == figures["name"] == "metrics"


def test_probes_restart_what_is_dead_and_nothing_that_waits() -> None:
    [container] = pod_of(manifests())["containers"]
    probes = {name: container[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert {probe["port"] for probe in probes.values()} == {"http"}
    state = {"alive": True, "ready": True}
    [server] = serve("127.0.0.1:0", Metrics(), alive=lambda: (state["alive"], ["x"]), ready=lambda: (state["ready"], ["x"]))

    def failing() -> set[str]:
        """The probes that fail: a kubelet takes 200 to 399 as success (Kubernetes, "Configure Liveness, Readiness and Startup Probes")."""
        found = set()
        for name, probe in probes.items():
            with closing(HTTPConnection("127.0.0.1", server.server_address[1], timeout=PATIENT)) as connection:
                connection.request("GET", probe["path"])
                if not 200 <= connection.getresponse().status < 400:
                    found.add(name)
        return found

    try:
        assert failing() == set()
        # While kcp is away no replica is restarted: that would end the plays that run, and repair nothing.
        state["ready"] = False
        assert failing() == {"readinessProbe"}
        state.update(alive=False, ready=True)
        assert failing() == {"startupProbe", "livenessProbe"}
    finally:
        server.shutdown()
        server.server_close()


def blocks(policy: dict[str, Any]) -> list[tuple[str, set[str]]]:
    """(open range, ranges within it that are closed) of each rule with addresses."""
    found = [peer["ipBlock"] for rule in policy["spec"]["egress"] for peer in rule.get("to", ())]
    return [(block["cidr"], set(block.get("except", ()))) for block in found]


def test_the_network_policy_keeps_the_pod_from_metadata_services_and_denied_ranges() -> None:
    policy = manifests()["NetworkPolicy", "mesh-operator"]
    assert policy["spec"]["podSelector"] == manifests()["Deployment", "mesh-operator"]["spec"]["selector"]
    assert set(policy["spec"]["policyTypes"]) == {"Ingress", "Egress"}
    for cidr, closed in blocks(policy):
        wide: Any = ip_network(cidr)
        networks: list[Any] = [ip_network(text) for text in closed]
        assert all(network.subnet_of(wide) for network in networks), "an API server refuses a range that is not within the open one"
        ours = [network for network in map(ip_network, NETWORKS) if network.version == wide.version]
        assert len(ours) > 5 and all(any(network.subnet_of(other) for other in networks) for network in ours)
    assert sorted(cidr for cidr, _ in blocks(policy)) == ["0.0.0.0/0", "::/0"]
    # DNS over both transports (RFC 1035, 4.2), HTTPS, the port of a kube-apiserver by default, and that of etcd's clients.
    open_ports = {(port["port"], port["protocol"]) for rule in policy["spec"]["egress"] for port in rule["ports"]}
    assert open_ports == {(53, "UDP"), (53, "TCP"), (443, "TCP"), (6443, "TCP"), (2379, "TCP")}
    assert [port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]] == ["http"], (
        "without metrics.from no peer may scrape"
    )


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_node_can_be_drained_and_one_replica_always_stays(folder: str) -> None:
    objects = manifests(folder)
    replicas, away = objects["Deployment", "mesh-operator"]["spec"]["replicas"], objects["PodDisruptionBudget", "mesh-operator"]["spec"]
    assert 0 < away["maxUnavailable"] < replicas
    labels = objects["Deployment", "mesh-operator"]["spec"]["template"]["metadata"]["labels"]
    for selector in (away["selector"], objects["Deployment", "mesh-operator"]["spec"]["selector"]):
        assert selector["matchLabels"] and selector["matchLabels"].items() <= labels.items(), "what selects no pod bounds nothing"


def rights(objects: dict[tuple[str, str], dict[str, Any]]) -> set[tuple[str, str, str]]:
    """(namespace, resource with its group, verb) of what is bound to the operator's account; cluster-wide rights have the namespace *."""
    account = {"kind": "ServiceAccount", "name": "mesh-operator", "namespace": "mesh-operator"}
    found = set()
    for (kind, _), binding in objects.items():
        if kind.endswith("Binding") and account in binding["subjects"]:
            role = objects[binding["roleRef"]["kind"], binding["roleRef"]["name"]]
            namespace = binding["metadata"].get("namespace", "*")
            assert role["metadata"].get("namespace", "*") in ("*", namespace), "a binding refers to roles of its own namespace"
            for rule in role["rules"]:
                names = itertools.product(rule["apiGroups"], rule["resources"], rule["verbs"])
                found |= {(namespace, f"{resource}.{group}".rstrip("."), verb) for group, resource, verb in names}
    return found


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_operator_reads_clusters_and_secrets_and_writes_nothing_but_its_own(folder: str) -> None:
    """That these rights are enough is shown where the operator has them alone: tests/integration/test_operator_namespaces.py."""
    found = rights(manifests(folder))
    read = {resource for _, resource, verb in found if verb in READS}
    assert {"secrets", "clusters.platform.edge-portal.eu", "leases.coordination.k8s.io", "configmaps"} <= read
    assert not [right for right in found if "*" in right[1] + right[2]], "a wildcard grows with the cluster"
    written = {(namespace, resource) for namespace, resource, verb in found if verb not in READS}
    elsewhere = {resource for namespace, resource in written if namespace != "mesh-operator"}
    assert {resource for namespace, resource in written if namespace == "mesh-operator"} == {"leases.coordination.k8s.io", "configmaps"}
    own = {f"{crd['spec']['names']['plural']}{part}.{GROUP}" for crd in crds() for part in ("", "/status")}
    assert elsewhere == (set() if folder == "manifests" else own | {"events"})
    assert {verb for namespace, resource, verb in found if resource in own} <= {*READS, "patch"}, "tenants alone create and delete these"


@NEEDS_HELM
def test_only_an_operator_for_fleets_may_make_clusters_and_only_where_the_engine_does() -> None:
    makes = [*ONLY_READ, "create", "patch", "delete"]
    rules = rules_of(manifests("fleet"), "Role")
    assert rules["default", FLEET_GROUP, "clusters"] == makes and rules["default", "", "secrets"] == ONLY_READ
    for profile in PROFILES:
        rendered = rules_of(by_kind_and_name(helm("--set", with_profile(profile)).stdout), "Role")
        assert rendered["default", FLEET_GROUP, "clusters"] == (ONLY_READ if profile == "mesh" else makes), profile
        others = {key: verbs for key, verbs in rendered.items() if key[2] not in ("clusters", f"leases {' '.join(LEASES[profile])}")}
        assert others == {
            ("default", "", "secrets"): ONLY_READ,
            ("mesh-operator", "coordination.k8s.io", "leases"): ["create"],
            ("mesh-operator", "", "configmaps"): ["get", "list", "create", "patch", "delete"],
        }
        for elsewhere in ("source=kubernetes", "mgmt.clusterResource=clusters.v1beta2.cluster.x-k8s.io"):
            read = rules_of(by_kind_and_name(helm("--set", f"{with_profile(profile)},{elsewhere}").stdout), "Role")
            assert {tuple(verbs) for (_, _, resource), verbs in read.items() if resource == "clusters"} == {tuple(ONLY_READ)}, elsewhere


@NEEDS_HELM
def test_the_rights_on_leases_name_those_of_the_profile() -> None:
    for profile in PROFILES:
        rules = rules_of(by_kind_and_name(helm("--set", with_profile(profile)).stdout), "Role")
        assert rules["mesh-operator", "coordination.k8s.io", f"leases {' '.join(LEASES[profile])}"] == ["get", "patch"]


@NEEDS_HELM
@pytest.mark.parametrize("profile", PROFILES)
def test_with_namespaces_as_tenants_the_rights_are_those_on_the_kinds_of_the_profile(profile: str) -> None:
    objects = by_kind_and_name(helm("--set", f"source=kubernetes,{with_profile(profile)}").stdout)
    rules = rules_of({("ClusterRole", "tenants"): objects["ClusterRole", "mesh-operator-tenants"]}, "ClusterRole")
    found = {(group, resource): set(verbs) for (_, group, resource), verbs in rules.items() if group in (GROUP, FLEET_GROUP)}
    wanted: dict[tuple[str, str], set[str]] = {}
    if profile != "fleet":
        for row in ROWS:
            if row.group == GROUP:  # a finalizer is a patch of the object
                wanted[GROUP, row.plural], wanted[GROUP, f"{row.plural}/status"] = {*ONLY_READ, "patch"}, {"patch"}
    for row in FLEET_ROWS if profile != "mesh" else ():
        is_answer = not row.units
        wanted[FLEET_GROUP, row.plural] = {*ONLY_READ, *(("create", "delete") if is_answer else ("patch",) if row.kind in UNITS else ())}
        if not is_answer or row.kind == METRICS:
            wanted[FLEET_GROUP, f"{row.plural}/status"] = {"patch"}
    if profile == "mesh":
        wanted[FLEET_GROUP, BY_KIND["KubernetesCluster"].plural] = set(ONLY_READ)
    if profile == "all":  # service.global of a FleetWorkload
        wanted[GROUP, "globalservices"] |= {"create", "delete"}
    assert found == wanted


# Values


def leaves(tree: Any, place: str = "") -> Iterator[str]:
    if isinstance(tree, dict) and tree:
        for key, value in tree.items():
            yield from leaves(value, f"{place}.{key}")
    else:
        yield place


def declared(schema: dict[str, Any], place: str = "") -> Iterator[str]:
    if properties := schema.get("properties"):
        assert schema.get("additionalProperties") is False, f"{place or 'the top'} takes keys that mean nothing"
        for key, value in properties.items():
            yield from declared(value, f"{place}.{key}")
    else:
        yield place


def test_the_schema_knows_every_value_and_no_other() -> None:
    schema, values = read(CHART / "values.schema.json"), read(CHART / "values.yaml")
    validator.Draft7Validator.check_schema(schema)
    validator.validate(values, schema)
    # `global` is Helm's. Resources are Kubernetes' own.
    assert set(declared(schema)) - {".global", ".resources"} == {place for place in leaves(values) if not place.startswith(".resources")}


@in_one_test
@pytest.mark.parametrize(
    "wrong",
    [
        {"replica": 1},
        {"replicas": 2, "leaderElect": False},
        {"meshCheckInterval": "5 minutes"},
        {"jobTimeout": ""},
        {"maxRuns": 0},
        {"image": {"repository": "x", "digest": "sha256:0"}},
        {"image": {"repository": "x", "digest": "0" * 64}},
        {"image": {"repository": "x", "digest": f"sha256:{'A' * 64}"}},
        {"image": {"repository": "x", "tag": f"sha256:{'0' * 64}"}},
        {"image": {"repository": "x", "tag": f"1@sha256:{'0' * 64}"}},
        {"image": {"repository": "x:1"}},
        {"image": {"repository": f"x@sha256:{'0' * 64}"}},
        {"image": {"repository": ""}},
        {"kcp": {"kubeconfigSecret": {"name": "", "key": "kubeconfig"}}},
        {"kcp": {"kubeconfigSecret": {"name": "x", "key": "../../etc/passwd"}}},
        {"kcp": {"externalUrl": "kcp.example.com"}},
        {"mgmt": {"clusterResource": "clusters.platform.edge-portal.eu"}},
        {"allowAddresses": ["10.0.0.1"]},
        {"networkPolicy": {"ports": []}},
        {"networkPolicy": {"ports": [{"port": 70000}]}},
        {"serviceCidrs": ["10.0.0.1"]},
        {"metrics": {"from": [{}]}},
        {"hostUsers": "no"},
        {"tmpSizeLimit": "lots"},
        {"profile": "fleets"},
        {"profile": "fleet"},
        {"profile": "all"},
        {"profile": "all", "karmada": {"kubeconfigSecret": {"name": "", "key": "kubeconfig"}}},
        {"profile": "all", "karmada": {"kubeconfigSecret": {"name": "x", "key": "../x"}}},
        {"kcp": {"fleetKubeconfigSecret": {"name": "x", "key": "kubeconfig"}}},
    ],
    ids=json.dumps,
)
def test_values_that_cannot_be_meant_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(validator.ValidationError):
        validator.validate({**read(CHART / "values.yaml"), **wrong}, read(CHART / "values.schema.json"))


REPOSITORY = "registry.example.com:5000/edge/mesh-operator"
DIGEST = f"sha256:{'0123456789abcdef' * 4}"


@NEEDS_HELM
@pytest.mark.parametrize(
    ("image", "named"),
    [
        ({"repository": REPOSITORY}, f"{REPOSITORY}:{__version__}"),
        ({"repository": REPOSITORY, "tag": "1.2.3-rc.1"}, f"{REPOSITORY}:1.2.3-rc.1"),
        ({"repository": REPOSITORY, "digest": DIGEST}, f"{REPOSITORY}@{DIGEST}"),
        ({"repository": REPOSITORY, "tag": "1.2.3", "digest": DIGEST}, f"{REPOSITORY}@{DIGEST}"),
        ({"digest": DIGEST}, f"mesh-operator@{DIGEST}"),
    ],
)
def test_one_value_names_the_image_by_its_digest_which_goes_before_any_tag(image: dict[str, str], named: str) -> None:
    settings = [part for name, value in image.items() for part in ("--set-string", f"image.{name}={value}")]
    [container] = pod_of(by_kind_and_name(helm(*settings).stdout))["containers"]
    assert container["image"] == named


@NEEDS_HELM
@pytest.mark.parametrize("digest", ["sha256:0", DIGEST.removeprefix("sha256:"), DIGEST.upper(), f"sha512:{DIGEST[7:]}"])
def test_helm_refuses_a_digest_that_is_none_and_names_the_value(digest: str) -> None:
    refused = helm("--set-string", f"image.digest={digest}", check=False)
    assert refused.returncode != 0 and refused.stdout == ""
    assert re.search(r"image[./]digest", refused.stderr) and "sha256:[0-9a-f]{64}" in refused.stderr


@NEEDS_HELM
def test_the_plain_manifests_can_be_made_with_the_digest_of_an_image(tmp_path: Path) -> None:
    program = at_hand([HELM], print).get(HELM)
    if program is None:
        pytest.skip("helm is not at hand (python -m tests.lab.tools build helm builds it), so no manifests can be made")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "helm").symlink_to(program.path)
    shutil.copytree(DEPLOY, tmp_path / "deploy", symlinks=True)
    make, image = str(tmp_path / "deploy/manifests/make"), f"image.repository={REPOSITORY},image.digest={DIGEST}"
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    files = {path: path.read_bytes() for path in (tmp_path / "deploy").rglob("*") if path.is_file()}
    assert subprocess.run([make, image[:-1]], check=False, capture_output=True, env=environment).returncode != 0
    assert {path: path.read_bytes() for path in (tmp_path / "deploy").rglob("*") if path.is_file()} == files, "a wrong one changes nothing"
    subprocess.run([make, image], check=True, env=environment)
    for folder in ("manifests", "kubernetes", "fleet"):
        made = (tmp_path / "deploy" / folder / "3-operator.yaml").read_text(encoding="utf-8")
        assert re.findall(r"image: (\S+)", made) == [f'"{REPOSITORY}@{DIGEST}"']
        default = (DEPLOY / folder / "3-operator.yaml").read_text(encoding="utf-8")
        assert made == default.replace(f"mesh-operator:{__version__}", f"{REPOSITORY}@{DIGEST}"), "nothing else differs"


@NEEDS_HELM
@pytest.mark.parametrize("profile", ["fleet", "all"])
def test_a_profile_that_needs_karmada_is_refused_in_words_without_its_secret(profile: str) -> None:
    schema = read(CHART / "values.schema.json")
    values = {**read(CHART / "values.yaml"), "profile": profile}
    said = {
        rule["description"]
        for rule in schema["allOf"]
        if not validator.Draft7Validator({**rule, "definitions": schema["definitions"]}).is_valid(values)
    }
    assert said == {
        "The profiles fleet and all need a kubeconfig of Karmada's API server: name its Secret in karmada.kubeconfigSecret.name."
    }
    refused = helm("--set", f"profile={profile}", check=False)
    assert refused.returncode != 0 and re.search("karmada.kubeconfigSecret.name", refused.stderr.replace("/", "."))
    validator.validate(values | {"karmada": {"kubeconfigSecret": {"name": "x", "key": "kubeconfig"}}}, schema)


# With helm


@NEEDS_HELM
def test_the_manifests_are_what_helm_renders() -> None:
    rendered = by_kind_and_name(helm().stdout)
    assert rendered == {key: obj for key, obj in manifests().items() if key[0] != "Namespace"}


@NEEDS_HELM
def test_every_value_reaches_its_flag(tmp_path: Path) -> None:
    values = {
        "kcp": {"kubeconfigSecret": {"name": "k", "key": "k.yaml"}, "apiExportName": "other", "externalUrl": "https://kcp.example.com"},
        "mgmt": {
            "kubeconfigSecret": {"name": "m", "key": "m.yaml"},
            "namespace": "fleet",
            "clusterResource": "clusters.v1beta2.cluster.x-k8s.io",
            "operatorNamespace": "own",
            "allowUnlabelledSecrets": True,
            "match": "name=1a2b3c4d5e6f7a8b",
        },
        "reconcileInterval": "10s",
        "meshCheckInterval": 60,
        "maxRuns": 8,
        "maxRunsPerWorkspace": 2,
        "jobTimeout": "1h30m",
        "idleTimeout": "2m",
        "dryRunTimeout": "90s",
        "dryRunMemory": 512,
        "teardownDeadline": "2h",
        "orphanGrace": "3h",
        "takeOverRecords": "3f0a5a1e-7c1d-4c0e-9a6b-0d6a5d1b2c3d",
        "allowAddresses": ["127.0.0.0/8", "fd00::/8"],
        "leaderElect": False,
        "jobProbes": False,
        "permit": ["accept=CM-CIDR-02", "adopt"],
        "providerFinalizers": ["example.com/cleanup"],
        "probeImage": "registry.example.com/probe:1",
        "assignIdentities": True,
        "replicas": 1,
    }
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    pod = pod_of(by_kind_and_name(helm("--values", str(tmp_path / "values.yaml")).stdout))
    assert settings_of(pod, {}) == replace(
        DEFAULTS,
        kcp_kubeconfig="/etc/mesh-operator/kcp/k.yaml",
        mgmt_kubeconfig="/etc/mesh-operator/mgmt/m.yaml",
        mgmt_namespace="fleet",
        namespace="own",
        allow_unlabelled_secrets=True,
        mgmt_match="name=1a2b3c4d5e6f7a8b",
        mgmt_cluster_resource="clusters.v1beta2.cluster.x-k8s.io",
        api_export_name="other",
        kcp_external_url="https://kcp.example.com",
        reconcile_interval=10.0,
        mesh_check_interval=60.0,
        max_runs=8,
        max_runs_per_workspace=2,
        job_timeout=5400.0,
        idle_timeout=120.0,
        dry_run_timeout=90.0,
        dry_run_memory=512,
        teardown_deadline=7200.0,
        orphan_grace=10800.0,
        take_over_records="3f0a5a1e-7c1d-4c0e-9a6b-0d6a5d1b2c3d",
        allowed_addresses=("127.0.0.0/8", "fd00::/8"),
        leader_elect=False,
        job_probes=False,
        permitted=("accept=CM-CIDR-02", "adopt"),
        provider_finalizer=("example.com/cleanup",),
        probe_image="registry.example.com/probe:1",
        assign_identities=True,
    )


@NEEDS_HELM
@pytest.mark.parametrize("profile", ["fleet", "all"])
def test_kubeconfigs_of_fleets_are_mounted_read_only_and_reach_their_flags(profile: str, tmp_path: Path) -> None:
    second = {"fleetKubeconfigSecret": {"name": "f", "key": "f.yaml"}} if profile == "all" else {}
    values = {
        "profile": profile,
        "karmada": {"kubeconfigSecret": {"name": "k", "key": "k.yaml"}},
        "kcp": {"apiExportName": "meshes", "fleetExportName": "fleets", **second},
        "mgmt": {"namespace": "default"},
    }
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    pod = pod_of(by_kind_and_name(helm("--values", str(tmp_path / "values.yaml")).stdout))
    assert settings_of(pod, IN_A_POD) == replace(
        DEFAULTS,
        profile=profile,
        karmada_kubeconfig="/etc/mesh-operator/karmada/k.yaml",
        fleet_kcp_kubeconfig="/etc/mesh-operator/fleet-kcp/f.yaml" if second else "",
        api_export_name="meshes" if profile == "all" else "fleets",
        fleet_export_name="fleets",
    )
    mounted = {mount["name"]: mount for mount in pod["containers"][0]["volumeMounts"]}
    secrets = {volume["name"]: volume["secret"] for volume in pod["volumes"] if "secret" in volume}
    assert {name: secret["secretName"] for name, secret in secrets.items()} == {
        "kcp": "mesh-operator-kcp",
        "karmada": "k",
        **({"fleet-kcp": "f"} if second else {}),
    }
    for name, secret in secrets.items():
        assert mounted[name]["readOnly"] is True and secret["defaultMode"] == 0o440 and len(secret["items"]) == 1


@NEEDS_HELM
def test_with_a_management_plane_elsewhere_nothing_is_asked_of_the_cluster_of_the_pod() -> None:
    rendered = by_kind_and_name(helm("--set", "mgmt.kubeconfigSecret.name=m").stdout)
    pod = pod_of(rendered)
    assert {kind for kind, _ in rendered} == {"Deployment", "Service", "ServiceAccount", "PodDisruptionBudget", "NetworkPolicy"}
    assert pod["automountServiceAccountToken"] is False
    assert {"name": "mgmt", "mountPath": "/etc/mesh-operator/mgmt", "readOnly": True} in pod["containers"][0]["volumeMounts"]


@NEEDS_HELM
def test_rights_follow_the_resource_and_the_namespaces() -> None:
    chosen = "mgmt.namespace=fleet,mgmt.operatorNamespace=own,mgmt.clusterResource=clusters.v1beta2.cluster.x-k8s.io"
    rendered = by_kind_and_name(helm("--set", chosen).stdout)
    assert rendered["Role", "mesh-operator-clusters"]["metadata"]["namespace"] == "fleet"
    assert rendered["Role", "mesh-operator-clusters"]["rules"][0]["apiGroups"] == ["cluster.x-k8s.io"]
    assert rendered["Role", "mesh-operator"]["metadata"]["namespace"] == "own"


@NEEDS_HELM
def test_helm_itself_refuses_two_replicas_without_a_leader() -> None:
    refused = helm("--set", "leaderElect=false", check=False)
    assert refused.returncode != 0 and "replicas" in refused.stderr


@NEEDS_HELM
def test_helm_itself_refuses_what_the_operator_would_refuse_of_matching_by_name() -> None:
    for chosen in ("mgmt.match=name=root:org", "mgmt.match=name", "source=kubernetes,mgmt.match=name=ws1"):
        refused = helm("--set", chosen, check=False)
        assert refused.returncode != 0 and "match" in refused.stderr, chosen


@NEEDS_HELM
def test_a_service_monitor_is_made_where_it_is_asked_for() -> None:
    rendered = by_kind_and_name(helm("--set", "metrics.serviceMonitor.enabled=true,metrics.serviceMonitor.labels.release=prom").stdout)
    monitor = rendered["ServiceMonitor", "mesh-operator"]
    assert monitor["spec"]["endpoints"] == [{"port": "metrics", "path": "/metrics", "interval": "30s"}]
    assert monitor["metadata"]["labels"]["release"] == "prom"


@NEEDS_HELM
def test_a_platform_may_have_the_alerts_as_a_prometheus_rule() -> None:
    rendered = by_kind_and_name(helm("--set", "metrics.prometheusRule.enabled=true,metrics.prometheusRule.labels.release=prom").stdout)
    (rule,) = [obj for (kind, _), obj in rendered.items() if kind == "PrometheusRule"]
    assert rule["metadata"]["labels"]["release"] == "prom"
    assert rule["spec"] == read(CHART / "files" / "alerts.yaml")
    assert not any(kind == "PrometheusRule" for kind, _ in by_kind_and_name(helm().stdout))


@NEEDS_HELM
def test_the_namespace_of_the_credentials_has_to_be_named() -> None:
    refused = helm("--set", "mgmt.namespace=", check=False)
    assert refused.returncode != 0 and "mgmt.namespace is missing" in refused.stderr


@NEEDS_HELM
def test_ranges_scrapers_and_user_namespaces_reach_the_objects(tmp_path: Path) -> None:
    values = {
        "mgmt": {"namespace": "default"},
        "podCidrs": ["10.244.0.0/16"],
        "serviceCidrs": ["10.96.0.0/12", "fd00:96::/112"],
        "denyAddresses": ["203.0.113.0/24"],
        "networkPolicy": {
            "allowedCidrs": ["10.96.0.1/32"],
            "ports": [{"port": 8443}, {"port": 30000, "endPort": 32767}],
        },
        "metrics": {"from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]},
        "hostUsers": False,
    }
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    rendered = by_kind_and_name(helm("--values", str(tmp_path / "values.yaml")).stdout)
    policy = rendered["NetworkPolicy", "mesh-operator"]
    found = dict(blocks(policy))
    assert {"10.244.0.0/16", "10.96.0.0/12", "203.0.113.0/24"} <= found["0.0.0.0/0"]
    assert "fd00:96::/112" in found["::/0"] and found["10.96.0.1/32"] == set()
    denied = [flag.partition("=")[2] for flag in pod_of(rendered)["containers"][0]["args"] if flag.startswith("--deny-address=")]
    assert denied == ["10.244.0.0/16", "10.96.0.0/12", "fd00:96::/112", "203.0.113.0/24"]
    assert [rule["ports"] for rule in policy["spec"]["egress"]][-1] == [
        {"port": 8443, "protocol": "TCP"},
        {"port": 30000, "endPort": 32767, "protocol": "TCP"},
    ]
    assert policy["spec"]["ingress"][1]["from"] == values["metrics"]["from"]  # type: ignore[index]  # values of the chart are nested mappings
    assert pod_of(rendered)["hostUsers"] is False and "hostUsers" not in pod_of(manifests())
    without = by_kind_and_name(helm("--set", "networkPolicy.enabled=false").stdout)
    assert "NetworkPolicy" not in {kind for kind, _ in without}


# The image


def instructions() -> list[tuple[str, str]]:
    text = (DEPLOY / "image" / "Containerfile").read_text(encoding="utf-8")
    lines = re.sub(r"\\\n", " ", re.sub(r"(?m)^#.*\n", "", text)).splitlines()
    return [(name, rest.strip()) for name, _, rest in (line.partition(" ") for line in lines if line.strip())]


def test_both_stages_of_the_image_start_from_one_image_by_tag_and_digest() -> None:
    [base] = [rest for name, rest in instructions() if name == "ARG"]
    name, _, image = base.partition("=")
    assert (name, [rest.split()[0] for what, rest in instructions() if what == "FROM"]) == ("BASE_IMAGE", ["${BASE_IMAGE}"] * 2)
    assert re.fullmatch(r"[^\s@:]+:\d+\.\d+\.\d+-\S+@sha256:[0-9a-f]{64}", image), "a digest, and a tag for people"
    execution_environment = read(DEPLOY / "image" / "execution-environment.yml")["images"]["base_image"]["name"]
    assert re.fullmatch(r"[^\s@:]+:\d+\.\d+\.\d+-\d+(@sha256:[0-9a-f]{64})?", execution_environment), "at least a tag that does not move"


def test_the_image_runs_the_operator_as_the_user_of_the_pod() -> None:
    last = dict(instructions())
    user = pod_of(manifests())["securityContext"]
    assert last["USER"] == f"{user['runAsUser']}:{user['runAsGroup']}"
    assert json.loads(last["ENTRYPOINT"])[-1] == "mesh-operator"
    options = read(DEPLOY / "image" / "execution-environment.yml")["options"]
    assert (options["user"], options["container_init"]["entrypoint"]) == (str(user["runAsUser"]), last["ENTRYPOINT"])


def test_nothing_is_installed_but_what_the_lock_names() -> None:
    steps = [rest for name, rest in instructions() if name == "RUN"]
    further = read(DEPLOY / "image" / "execution-environment.yml")["additional_build_steps"]["append_final"].splitlines()
    for source in (steps, further):
        installs = [step for step in source if re.search(r"\bpip (install|wheel|download)\b", step)]
        assert installs and all("--require-hashes" in step or "--no-index" in step for step in installs)
    steps += further
    # What ansible-builder installs by itself has no hash.
    definition = read(DEPLOY / "image" / "execution-environment.yml")
    assert not definition.get("dependencies") and "package_pip" not in definition["options"]["container_init"]
    assert not any(re.search(r"\b(curl|wget|dnf|apt|apt-get)\b", step) for step in steps)


def test_neither_pip_nor_a_shell_nor_another_program_is_left_in_the_image() -> None:
    steps = [rest for name, rest in instructions() if name == "RUN"]
    [last_install] = [place for place, step in enumerate(steps) if "--no-index --no-deps /mnt/wheel" in step]
    [stripped] = [place for place, step in enumerate(steps) if step.endswith("python3 /mnt/image/strip.py --root /")]
    assert stripped > last_install
    assert all(step.startswith('["') for step in steps[stripped + 1 :]), "these have no shell"


def test_the_build_sees_the_parts_of_the_wheel_and_nothing_else_of_the_checkout() -> None:
    lines = (CHECKOUT / ".containerignore").read_text(encoding="utf-8").splitlines()
    seen = {line[1:] for line in lines if line.startswith("!")}
    copied = {source.split("/")[0] for name, rest in instructions() if name == "COPY" for source in rest.split()[:-1]}
    assert "*" in lines and not any(name == "ADD" for name, _ in instructions())
    assert copied == seen
    assert all((CHECKOUT / name).exists() for name in seen)


def test_no_secret_is_part_of_the_image() -> None:
    words = re.compile(r"token|password|secret|kubeconfig", re.IGNORECASE)
    assert [rest for name, rest in instructions() if name in ("ARG", "ENV", "COPY", "LABEL") and words.search(rest)] == []
