# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""One measurement of peers.py in a process of its own: the controller reads the heartbeat of every peer, and prints what it cost."""

from __future__ import annotations

import json
import resource
import sys
import time
from base64 import b64encode
from dataclasses import replace
from pathlib import Path

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.sealed import SecretStore
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.etcd.heartbeat import ProofVerdict
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.endpoints.etcd_config import DIRECTORY
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.heartbeats import read_heartbeats
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.peers import peer_secret_facts
from tests.testing.facts_builders import cluster_facts

FILES = {"ca.crt": "ca.crt", "tls.crt": "remote.crt", "tls.key": "remote.key"}


def main() -> None:
    asked = json.load(sys.stdin)
    common = f"{DIRECTORY}/common-etcd-client"
    text = f"endpoints:\n- {asked['endpoint']}\ntrusted-ca-file: {common}-ca.crt\ncert-file: {common}.crt\nkey-file: {common}.key\n"
    data = dict.fromkeys(asked["names"], b64encode(text.encode()).decode())
    secret = peer_secret_facts({"metadata": {"name": "cilium-kvstoremesh"}, "data": data}, "cilium-kvstoremesh")
    facts = replace(cluster_facts("c1", version="1.20.2"), kvstoremesh=secret, endpoint_networks=("127.0.0.0/8",))
    store = SecretStore()
    for key, file in FILES.items():
        store.put("c1", "clustermesh-apiserver-remote-cert", key, (Path(asked["folder"]) / file).read_bytes())
    links = [("c1", name) for name in asked["names"]]
    began, before = time.monotonic(), time.process_time()
    found = read_heartbeats(links, {link: link[1] for link in links}, {"c1": facts}, store)
    wall, cpu = time.monotonic() - began, time.process_time() - before
    unproven = {proof.note for proof in found.values() if proof.verdict is not ProofVerdict.PROVEN or proof.heartbeat is None}
    if unproven or len(found) != len(links):
        raise SystemExit(f"{len(found)} of {len(links)} links were read; not proven: {sorted(unproven)[:3]}")
    print(json.dumps({"wall": wall, "cpu": cpu, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


if __name__ == "__main__":
    main()
