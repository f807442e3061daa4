# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""certgen as the lab plays it: it goes by its pod and by the CA that is there."""

from __future__ import annotations

from base64 import b64decode
from typing import Any, cast

import pytest
from cryptography import x509

from tests.lab.api import LabApi, path_of
from tests.lab.certgen import CertgenError, run_certgen
from tests.lab.podstatus import ContainerState, pod_status
from tests.lab.profiles import ProfileOptions, build
from tests.lab.profiles.pki import make_ca
from tests.lab.profiles.reissue import with_key


class Objects:
    """An API server's objects by path, without its rules."""

    def __init__(self, manifests: list[dict[str, Any]]) -> None:
        self.found = {path_of(manifest): manifest for manifest in manifests}

    def get(self, path: str) -> dict[str, Any] | None:
        return self.found.get(path)

    def create(self, obj: dict[str, Any], *, field_manager: str = "") -> None:
        self.found[path_of(obj)] = obj

    def patch(self, path: str, body: dict[str, Any], *, field_manager: str = "") -> None:
        self.found[path] = {**self.found[path], **body}


def installed(version: str) -> tuple[Objects, dict[str, Any]]:
    """Everything of a chart with certgen, and the pod that its CronJob would make."""
    manifests = build(ProfileOptions(cluster_name="c1", cluster_id=1, version=version, tls_method="cronJob", key_type="ec"))
    (cron,) = (item for item in manifests if item["kind"] == "CronJob")
    return Objects(manifests), cron["spec"]["jobTemplate"]["spec"]["template"]


def secret_path(name: str) -> str:
    return f"/api/v1/namespaces/kube-system/secrets/{name}"


def test_every_leaf_is_made_anew_with_the_names_that_it_had() -> None:
    objects, pod = installed("1.20")
    before = dict(objects.found)
    written = run_certgen(cast("LabApi", objects), pod)
    assert sorted(written) == [f"clustermesh-apiserver-{name}-cert" for name in ("admin", "local", "remote", "server")]
    for name in written:
        old, new = (
            x509.load_pem_x509_certificate(b64decode(found[secret_path(name)]["data"]["tls.crt"])) for found in (before, objects.found)
        )
        assert old.serial_number != new.serial_number
        assert old.subject == new.subject
        for kind in (x509.ExtendedKeyUsage, x509.SubjectAlternativeName):
            extensions = [[e.value for e in cert.extensions if isinstance(e.value, kind)] for cert in (old, new)]
            assert extensions[0] == extensions[1]


def test_of_several_certificates_in_the_ca_the_first_signs_and_the_last_is_the_root_or_older_ones_refuse() -> None:
    objects, pod = installed("1.20")
    ca = objects.found[secret_path("cilium-ca")]
    own, other = b64decode(ca["data"]["ca.crt"]).decode(), make_ca("Other", key_type="ec").cert_pem
    objects.found[secret_path("cilium-ca")] = with_key(ca, "ca.crt", own + other)
    run_certgen(cast("LabApi", objects), pod)
    made = objects.found[secret_path("clustermesh-apiserver-server-cert")]["data"]
    assert b64decode(made["ca.crt"]).decode() == other
    x509.load_pem_x509_certificate(b64decode(made["tls.crt"])).verify_directly_issued_by(x509.load_pem_x509_certificate(own.encode()))
    pod["spec"]["containers"][0]["image"] = "quay.io/cilium/certgen:v0.1.19"
    with pytest.raises(CertgenError, match="only one object"):
        run_certgen(cast("LabApi", objects), pod)


@pytest.mark.parametrize(
    ("policy", "code", "phase"),
    [("OnFailure", 0, "Succeeded"), ("Never", 1, "Failed"), ("OnFailure", 1, "Pending"), ("Always", 0, "Pending")],
)
def test_a_pod_is_over_when_its_containers_have_ended_for_good(policy: str, code: int, phase: str) -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"restartPolicy": policy}, "status": {}}
    state = ContainerState("certgen", "i")
    state.started()
    state.ended_with(code)
    assert pod_status(pod, [], [state], host_ip="h", pod_ip="10.1.0.11", network=True)["phase"] == phase
