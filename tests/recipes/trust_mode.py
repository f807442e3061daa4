# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A trust mode: ``bundled``, in which a cluster shows its own remote certificate, and has the peer's CA beside the configuration.

It helps where the peer accepts the cluster's CA, and the cluster does not accept the peer's.
"""

from __future__ import annotations

from typing import Final

from tests.recipes.recipe import Edit, Recipe

_TRUST: Final = """

def _bundled(local: TrustSide, peer: TrustSide) -> Trust | str:
    server_ca, client_ca, own = peer.server_ca, local.client_ca, local.cluster.remote_cert.certificate
    if local.rolling or peer.rolling:
        return f"a CA roll is under way in {peer.host if peer.rolling else local.host}"
    if server_ca is None or peer.unshareable:
        return peer.unshareable or f"the CA of {peer.host}'s server certificate is not in its ca.crt"
    if client_ca is None or own is None or _key(client_ca) not in peer.accepts_clients_of:
        return f"{peer.host} does not trust the CA that signed {local.host}'s remote certificate"
    if local.unusable:
        return f"{local.host}'s remote certificate {local.unusable}"
    if own.common_name != PLAIN_USER:
        return f"{local.host}'s remote certificate is not for {PLAIN_USER}"
    digest = _digest(peer.cluster.server_cert.digests.get("ca.crt", server_ca.fingerprint), own.common_name)
    reason = f"{peer.host} accepts {local.host}'s own remote certificate, and its CA is written beside the configuration"
    return Trust(mode=TrustMode.BUNDLED, reason=reason, common_name=own.common_name, digest=digest)
"""
_TESTS: Final = '''

def test_a_cluster_whose_ca_the_peer_accepts_may_show_its_own_certificate() -> None:
    """The bundle of the peer's server has the CA of the cluster too."""
    local, peer = cluster_facts("c1"), cluster_facts("c2")
    both = replace(peer, server_cert=replace(peer.server_cert, ca=(*peer.server_cert.ca, *local.remote_cert.ca)))
    assert _trust(local, both, forced="bundled").mode is TrustMode.BUNDLED
    refused = trust_between(TrustSide(local, NOW), TrustSide(peer, NOW), forced="bundled")
    assert isinstance(refused, TrustProblem) and "does not trust the CA" in refused.evidence
'''

RECIPE: Final = Recipe(
    heading="A trust mode",
    edits=(
        Edit(
            path="plugins/module_utils/mesh/binding/trust_mode.py",
            at='    COPIED = "copied"  # peer\'s own remote certificate\n',
            text='    BUNDLED = "bundled"  # the peer\'s CA; the cluster shows its own remote certificate\n',
        ),
        Edit(
            path="plugins/module_utils/mesh/binding/trust_mode.py",
            at="own_files=True, outdated_by_peer=True),\n",
            text='    TrustMode.BUNDLED: _Traits(spelled="Bundled", client=ClientCertificate.OWN_REMOTE, own_files=True),\n',
        ),
        Edit(
            path="plugins/module_utils/mesh/trust/link_trust.py",
            at=(
                '"\n        "renewal there needs another run here",\n'
                "        common_name=common_name,\n"
                '        digest=_digest(peer.cluster.server_cert.digests.get("ca.crt", server_ca.fingerprint), common_name),\n'
                "    )\n"
            ),
            text=_TRUST,
        ),
        Edit(
            path="plugins/module_utils/mesh/trust/link_trust.py",
            at="    TrustMode.COPIED: _copied,\n",
            text="    TrustMode.BUNDLED: _bundled,\n",
        ),
        Edit(
            path="plugins/module_utils/links/peer_keys.py",
            at='        keys[key] = _from_tls_secret(peer, peer.remote_cert, "tls.key")\n',
            text=(
                "    elif trust.mode.client is ClientCertificate.OWN_REMOTE:\n"
                '        keys[certificate] = _from_tls_secret(link.local, link.local.remote_cert, "tls.crt")\n'
                '        keys[key] = _from_tls_secret(link.local, link.local.remote_cert, "tls.key")\n'
            ),
        ),
        Edit(
            path="plugins/doc_fragments/_mesh.py",
            at="It ends when the peer renews it.\n",
            text="      - V(bundled) shows the cluster's own remote certificate, and writes the peer's CA beside the configuration.\n",
        ),
        Edit(path="plugins/doc_fragments/_mesh.py", at="    choices: [auto, same_ca, minted, copied", text=", bundled"),
        Edit(path="plugins/doc_fragments/_mesh.py", at="    choices: [same_ca, minted, copied", text=", bundled"),
        Edit(path="operator/deploy/crds/clustermeshbindings.yaml", at="                  enum: [SameCA, Minted, Copied", text=", Bundled"),
        Edit(
            path="docs/glossary.md",
            at="| The peer's own client certificate was copied. | | |\n",
            text='| <a id="bundled"></a>&nbsp;&nbsp;`bundled` | Its own certificate, and the CA of the peer. | | |\n',
        ),
        Edit(
            path="tests/unit/mesh/test_trust.py",
            at='    assert trust.mode is TrustMode.SAME_CA and trust.common_name == "remote" and "shared" in trust.reason\n',
            text=_TESTS,
        ),
    ),
    generators=(("-m", "tests.testing.options", "--write"), ("-m", "tests.testing.kind_schemas", "--write")),
    tests=("tests/unit/mesh/test_trust.py", "tests/unit/project/test_options.py", "tests/unit/project/test_kind_schemas.py"),
    around=("tests/unit/project", "tests/unit/mesh", "tests/unit/links", "tests/unit/ca", "tests/unit/plugins", "tests/unit/operator"),
)
