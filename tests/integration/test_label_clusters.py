# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Playbook label_clusters gives Clusters and Secrets the labels of their owners, on a real API server: once, and over no other label."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab.tools import ToolUnavailable
from tests.testing.management_plane import GROUP, VERSION, ManagementPlane
from tests.testing.playbooks import PlaybookRun, run_playbook, run_warm

A, B = "1a2b3c4d5e6f7a8b", "9z8y7x6w5v4u3t2s"
WORKSPACE, NAME, NAMESPACE = (f"edge-connect.eu/source-{part}" for part in ("workspace", "name", "namespace"))
CANARY = "c4n4ry-of-a-kubeconfig"
CLUSTERS = f"/apis/{GROUP}/{VERSION}"
CAPI = "cluster.x-k8s.io"


@pytest.fixture(scope="module")
def plane(servers: None) -> Iterator[ManagementPlane]:
    pytest.importorskip("ansible_collections.kubernetes.core.plugins.modules.k8s", reason="the collection kubernetes.core is not installed")
    try:
        with ManagementPlane() as found:
            found.install()
            yield found
    except ToolUnavailable as error:
        pytest.skip(f"no API server: {error}")


@pytest.fixture
def place(plane: ManagementPlane, request: pytest.FixtureRequest) -> str:
    """An empty namespace of its own."""
    name = re.sub("[^a-z0-9]+", "-", request.node.name)[-40:].strip("-")
    plane.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


def cluster(plane: ManagementPlane, place: str, name: str, secret: str = "", *, version: str = f"{GROUP}/{VERSION}", **labels: str) -> None:
    """A Cluster; where it names a Secret, that is made too unless it is there."""
    keys = {"workspace": WORKSPACE, "name": NAME, "namespace": NAMESPACE}
    marks = {keys[key]: value for key, value in labels.items()}
    metadata: dict[str, Any] = {"name": name, "namespace": place, "labels": marks}
    plane.api.create({"apiVersion": version, "kind": "Cluster", "metadata": metadata})
    if secret:
        path = f"/apis/{version}/namespaces/{place}/clusters/{name}/status"
        plane.api.patch(path, {"status": {"kubeconfigSecretRef": {"name": secret, "key": "kubeconfig"}}})
    made = secret or f"{name}-kubeconfig" * version.startswith(CAPI)
    if made and plane.api.get(f"/api/v1/namespaces/{place}/secrets/{made}") is None:
        annotations = {"kubectl.kubernetes.io/last-applied-configuration": CANARY}
        head = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": made, "namespace": place, "annotations": annotations}}
        plane.api.create({**head, "data": {"kubeconfig": base64.b64encode(CANARY.encode()).decode()}})


def label(plane: ManagementPlane, place: str, *arguments: str, own_process: bool = False, **variables: Any) -> PlaybookRun:
    """Run the playbook. Nothing out of a Secret is ever shown, also with all that -vvv shows."""
    run = run_playbook if own_process else run_warm
    given = {"kubeconfig": str(plane.kubeconfig), "namespace": place, **variables}
    found = run(
        "label_clusters",
        inventory={"all": {"hosts": {}}},
        variables={f"label_clusters_{name}": value for name, value in given.items()},
        arguments=(*arguments, "-vvv"),
    )
    shown = "".join([found.output, *found.events])
    assert CANARY not in shown and base64.b64encode(CANARY.encode()).decode() not in shown
    return found


def labels(plane: ManagementPlane, place: str, *, api: str = CLUSTERS) -> dict[str, dict[str, str]]:
    """The labels of all Clusters and Secrets."""
    found: dict[str, dict[str, str]] = {}
    for kind, path in (("Cluster", f"{api}/namespaces/{place}/clusters"), ("Secret", f"/api/v1/namespaces/{place}/secrets")):
        found |= {f"{kind}/{obj['metadata']['name']}": obj["metadata"].get("labels") or {} for obj in plane.api.list(path)}
    return found


def test_the_first_run_adds_the_labels_and_the_second_changes_nothing(plane: ManagementPlane, place: str) -> None:
    for name in ("ffm", "ber", "muc"):
        cluster(plane, place, name, f"kind-{name}-kubeconfig")
    cluster(plane, place, "new")
    owners = [
        {"cluster": "ffm", "workspace": A},
        {"cluster": "ber", "workspace": B, "namespace": "default", "name": "cluster-ber-2"},
        {"cluster": "new", "workspace": A},
    ]
    before = labels(plane, place)
    looked = label(plane, place, "--check", "--diff", owners=owners)
    assert (looked.rc, looked.changed) == (0, 1), looked.output
    assert f'"{WORKSPACE}": "{A}"' in looked.output.replace("'", '"') and labels(plane, place) == before
    made = label(plane, place, own_process=True, owners=owners)
    assert (made.rc, made.changed) == (0, 1), made.output
    assert labels(plane, place) == {
        "Cluster/ffm": {WORKSPACE: A},
        "Secret/kind-ffm-kubeconfig": {WORKSPACE: A},
        "Cluster/ber": {WORKSPACE: B, NAMESPACE: "default", NAME: "cluster-ber-2"},
        "Secret/kind-ber-kubeconfig": {WORKSPACE: B},
        "Cluster/muc": {},
        "Secret/kind-muc-kubeconfig": {},
        "Cluster/new": {WORKSPACE: A},
    }
    assert "Cluster new names no Secret yet." in made.output
    for arguments in ((), ("--check",)):
        again = label(plane, place, *arguments, owners=owners)
        assert (again.rc, again.changed) == (0, 0), again.output


@pytest.mark.parametrize("at", ["cluster", "secret"])
def test_over_a_label_with_another_value_nothing_is_written(plane: ManagementPlane, place: str, at: str) -> None:
    names = (f"a-{at}", f"b-{at}")
    for name in names:
        cluster(plane, place, name, f"{name}-s")
    kind, wrong = ("Cluster", names[1]) if at == "cluster" else ("Secret", f"{names[1]}-s")
    path = f"{CLUSTERS}/namespaces/{place}/clusters/{wrong}" if at == "cluster" else f"/api/v1/namespaces/{place}/secrets/{wrong}"
    plane.api.patch(path, {"metadata": {"labels": {WORKSPACE: B}}})
    before = labels(plane, place)
    for arguments in (("--check",), ()):
        run = label(plane, place, *arguments, owners=[{"cluster": name, "workspace": A} for name in names])
        assert run.rc != 0 and run.changed == 0
        assert f"{kind} {wrong} has the label {WORKSPACE} with the value '{B}', and not '{A}'" in run.output.replace("\\", "")
        assert f" label {kind.lower()}" in run.output and f"{wrong} {WORKSPACE}-" in run.output
        assert labels(plane, place) == before


def test_without_owners_it_lists_the_clusters_that_lack_labels_in_the_form_of_the_variable(plane: ManagementPlane, place: str) -> None:
    cluster(plane, place, "ffm", "s")
    cluster(plane, place, "ber", "t", workspace=B)
    cluster(plane, place, "muc", workspace=A)
    before = labels(plane, place)
    run = label(plane, place)
    assert (run.rc, run.changed, labels(plane, place)) == (0, 0, before), run.output
    listed = [event for event in run.events if '"label_clusters_owners"' in event and "LOGICAL_CLUSTER" in event]
    assert listed and f'{{"cluster": "ber", "workspace": "{B}"}}' in listed[-1] and '"muc"' not in listed[-1]
    left = label(plane, place, owners=[{"cluster": "ffm", "workspace": "LOGICAL_CLUSTER"}])
    assert left.rc != 0 and "label_clusters_owners[0].workspace: must be the logical cluster of a workspace" in left.output


def test_clusters_of_cluster_api_and_their_secrets_are_labelled(plane: ManagementPlane, place: str) -> None:
    definition = plane.api.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/clusters.{GROUP}") or {}
    spec = {**definition["spec"], "group": CAPI, "versions": [{**definition["spec"]["versions"][0], "name": "v1beta2"}]}
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"clusters.{CAPI}"}}
    plane.api.create({**head, "spec": {key: spec[key] for key in ("group", "names", "scope", "versions")}})
    path = f"/apis/{CAPI}/v1beta2"
    plane.wait_served(f"{path}/clusters")
    cluster(plane, place, "ffm", version=f"{CAPI}/v1beta2")
    given: dict[str, Any] = {"owners": [{"cluster": "ffm", "workspace": A}], "resource": f"clusters.v1beta2.{CAPI}"}
    run = label(plane, place, **given)
    assert (run.rc, run.changed) == (0, 1), run.output
    assert labels(plane, place, api=path) == {"Cluster/ffm": {WORKSPACE: A}, "Secret/ffm-kubeconfig": {WORKSPACE: A}}
    assert label(plane, place, **given).changed == 0


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"resource": "clusters.v1.example.com"}, "The API server has no clusters.v1.example.com."),
        ({"resource": "clusters"}, "Use PLURAL.VERSION.GROUP"),
        ({"owner": []}, "label_clusters_owner: no such variable"),
        ({"owners": [{"cluster": "gone", "workspace": A}]}, "There is no Cluster gone."),
    ],
)
def test_what_cannot_be_is_reported_with_the_remedy(plane: ManagementPlane, variables: dict[str, Any], said: str) -> None:
    run = label(plane, "default", **variables)
    assert run.rc != 0 and run.changed == 0 and said in run.output, run.output
