# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter in a template gives what the engine writes, and says what is wrong with its arguments."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleFilterError

from ansible_collections.edge_portal.cilium_mesh.plugins.doc_fragments._mesh import ModuleDocFragment
from ansible_collections.edge_portal.cilium_mesh.plugins.filter.peer_config import DOCUMENTATION, RETURN, FilterModule
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.trust_mode import one_of_modes
from tests.testing.rows import one_test

peer_config = FilterModule().filters()["peer_config"]


def test_the_documented_sample_is_what_the_filter_returns() -> None:
    assert peer_config("ber-2", version="1.20.1", ips=["192.0.2.12"]) == yaml.safe_load(RETURN)["_value"]["sample"]


def test_before_1_20_the_addresses_are_left_out() -> None:
    text = peer_config("ber-2", version="v1.19.5", ips=["192.0.2.12"])
    assert "cilium-host-aliases" not in yaml.safe_load(text)


def test_a_peer_with_its_own_ca_uses_its_own_files_and_a_dns_name_is_kept() -> None:
    text = peer_config("ber-2", version="1.20.1", hostname="mesh.example.com", port=32379, trust="minted", trust_sha256="ab" * 32)
    config = yaml.safe_load(text)
    assert config["endpoints"] == ["https://mesh.example.com:32379"]
    assert config["cert-file"] == "/var/lib/cilium/clustermesh/ber-2.etcd-client.crt"
    assert f"# trust-sha256: {'ab' * 32}\n" in text


@one_test(
    "name arguments message",
    ("Ber_2", {}, "is not a cluster name"),
    (7, {}, "not the name of a cluster"),
    ("ber-2", {"ips": "192.0.2.1"}, "not a list of IP addresses"),
    ("ber-2", {"ips": ["mesh.example.com"]}, "not a list of IP addresses"),
    ("ber-2", {"version": 1.20}, "Write it as a string"),
    ("ber-2", {"version": "latest"}, "Write it as a string"),
    ("ber-2", {"trust": "any"}, f"Use {one_of_modes()}"),
    ("ber-2", {"port": "many"}, "Use a number"),
    ("ber-2", {"port": 0}, "is not a port"),
    ("ber-2", {"hostname": "a: b\n"}, "is not a host name"),
    ("ber-2", {"trust_sha256": "x\n- https://evil"}, "64 lower-case hex digits"),
)
def test_wrong_arguments_are_named(name: Any, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(AnsibleFilterError, match=message):
        peer_config(name, **{"version": "1.20.1", **arguments})


def test_every_argument_is_documented() -> None:
    shared = yaml.safe_load(ModuleDocFragment.TRUST_MODE)["options"]
    options = {*yaml.safe_load(DOCUMENTATION)["options"], *shared} - {"_input"}
    code = peer_config.__code__
    assert options == set(code.co_varnames[1 : code.co_argcount])
