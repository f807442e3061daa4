# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What each action accepts. Made from the documentation of the modules by ``python -m tests.testing.options --write``; change that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .option_words import Spec, names_of, options_of, variables_of

_SHARED: Final[Spec] = {
    "accept": {"type": "list", "elements": "str", "default": []},
    "accept_incomplete": {"type": "list", "elements": "str", "default": []},
    "approve_refused": {"type": "list", "elements": "str", "default": []},
    "binding_status": {"type": "dict"},
    "certificate_days": {"type": "int", "default": 365, "minimum": 1, "maximum": 3650, "above": "renew_before_days"},
    "clusters": {"type": "list", "elements": "str", "default": []},
    "expected": {"type": "str", "choices": ["Connected", "any"], "default": "any"},
    "fail_on_changes": {"type": "bool", "default": False},
    "fleet": {"type": "dict", "required": True},
    "former": {"type": "list", "elements": "str", "default": []},
    "hash": {"type": "str", "default": ""},
    "items": {"type": "list", "elements": "str", "default": []},
    "json": {"type": "path"},
    "links": {"type": "list", "elements": "str", "default": []},
    "lock_duration": {"type": "int", "minimum": 5, "maximum": 3600},
    "lock_holder": {"type": "str"},
    "lock_timeout": {"type": "int", "minimum": 0, "maximum": 86400},
    "max_failures": {"type": "int", "minimum": 0, "maximum": 511},
    "mesh": {"type": "dict"},
    "more": {"type": "list", "elements": "str", "default": []},
    "names": {"type": "dict", "default": {}},
    "node_addresses": {"type": "str", "choices": ["InternalIP", "ExternalIP"], "default": "InternalIP"},
    "parallel": {"type": "int", "default": 10, "minimum": 1, "maximum": 511},
    "previous_status": {"type": "dict"},
    "probe_image": {"type": "str", "default": ""},
    "proof": {"type": "str", "choices": ["auto", "readers", "none"], "default": "auto"},
    "purpose": {"type": "str", "choices": ["connect", "disconnect"], "default": "connect"},
    "quarantine_hours": {"type": "float", "default": 24.0, "minimum": 0.0, "maximum": 8760.0},
    "renew_before_days": {"type": "int", "default": 30, "minimum": 0, "maximum": 3650},
    "repair": {"type": "bool", "default": False},
    "report": {"type": "bool", "default": True},
    "require_connected": {"type": "bool", "default": True},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "take_back": {"type": "list", "elements": "str", "default": []},
    "trust": {"type": "str", "choices": ["auto", "same_ca", "minted", "copied"], "default": "auto"},
    "wait": {"type": "bool", "default": True},
    "wait_timeout": {"type": "int", "default": 300, "minimum": 0, "maximum": 86400},
}
_ACTIONS: Final[Mapping[str, tuple[str, Spec]]] = {
    "fleet_info": ("fail_on_changes fleet report", {}),
    "fleet_rollout": (
        "fail_on_changes fleet parallel report wait",
        {
            "cluster": {"type": "str", "default": ""},
            "id": {"type": "str", "default": ""},
            "operation": {
                "type": "str",
                "choices": ["pause", "resume", "restart", "rollback", "evict", "return", "advance"],
                "default": "advance",
            },
            "to_revision": {"type": "int", "minimum": 1, "maximum": 999999999},
            "wait_timeout": {"type": "int", "default": 600, "minimum": 0, "maximum": 86400},
            "workload": {"type": "str", "required": True},
        },
    ),
    "fleet_workload": (
        "fail_on_changes fleet hash parallel report state wait",
        {
            "previous_status": {"type": "dict", "default": {}},
            "wait_timeout": {"type": "int", "default": 600, "minimum": 0, "maximum": 86400},
        },
    ),
    "karmada_cluster": (
        "clusters fail_on_changes fleet parallel report state wait wait_timeout",
        {
            "abandon": {"type": "list", "elements": "str", "default": []},
            "deadline": {"type": "int", "default": 3600, "minimum": 0, "maximum": 2592000},
            "renew_before_hours": {"type": "int", "default": 720, "minimum": 0, "maximum": 8759},
            "token_hours": {"type": "int", "default": 8760, "minimum": 1, "maximum": 8760, "above": "renew_before_hours"},
        },
    ),
    "mesh_adopt": (
        "fail_on_changes lock_duration lock_holder lock_timeout mesh parallel report",
        {
            "handed_over": {"type": "bool", "default": False},
            "state": {"type": "str", "choices": ["adopted", "handed_back"], "default": "adopted"},
        },
    ),
    "mesh_apply": (
        "accept certificate_days clusters fail_on_changes hash lock_duration lock_holder lock_timeout max_failures mesh node_addresses "
        "parallel previous_status proof purpose renew_before_days repair report take_back trust wait wait_timeout",
        {"plan": {"type": "raw"}},
    ),
    "mesh_ca": (
        "accept certificate_days clusters fail_on_changes lock_duration lock_holder lock_timeout max_failures mesh node_addresses "
        "parallel renew_before_days report trust wait_timeout",
        {
            "ca_days": {"type": "int", "default": 1095, "minimum": 2, "maximum": 7300, "above": "renew_before_days"},
            "confirm": {"type": "str", "default": ""},
            "source": {"type": "str", "default": ""},
            "stage": {"type": "str", "choices": ["prepare", "trust", "clients", "leaves", "drop"], "default": "drop"},
            "state": {"type": "str", "choices": ["reported", "renewed", "rolled", "shared"], "default": "reported"},
        },
    ),
    "mesh_connect": (
        "accept certificate_days clusters fail_on_changes lock_duration lock_holder lock_timeout max_failures mesh node_addresses "
        "parallel previous_status proof renew_before_days repair report state take_back trust wait wait_timeout",
        {},
    ),
    "mesh_end": ("items links more", {"approvable": {"type": "bool", "default": False}, "published": {"type": "str", "default": ""}}),
    "mesh_envelope": ("mesh report", {"fail_at": {"type": "int", "minimum": 1, "maximum": 100}, "one_more": {"type": "dict"}}),
    "mesh_explain": (
        "mesh proof report",
        {
            "expected": {"type": "str", "choices": ["not_broken", "any"], "default": "any"},
            "port": {"type": "str", "required": True},
            "protocol": {"type": "str", "choices": ["TCP", "UDP", "SCTP"], "default": "TCP"},
            "source": {"type": "dict", "required": True},
            "target": {"type": "dict", "required": True},
        },
    ),
    "mesh_exposure": (
        "accept_incomplete approve_refused binding_status fail_on_changes former hash lock_duration lock_holder lock_timeout max_failures "
        "mesh parallel previous_status probe_image report require_connected state",
        {},
    ),
    "mesh_fabric": (
        "expected parallel proof report",
        {"fabric": {"type": "dict", "required": True}, "statuses": {"type": "dict", "default": {}}},
    ),
    "mesh_gather": (
        "mesh proof report",
        {
            "max_mebibytes": {"type": "int", "default": 64, "minimum": 1, "maximum": 1024},
            "operator_log": {"type": "str"},
            "path": {"type": "str"},
            "pseudonym_file": {"type": "str"},
            "pseudonyms": {"type": "bool", "default": False},
            "results": {"type": "list", "elements": "str", "default": []},
        },
    ),
    "mesh_identity": (
        "fail_on_changes lock_duration lock_holder lock_timeout max_failures mesh names quarantine_hours report wait",
        {
            "identity_policy": {"type": "str", "choices": ["verify", "assign"], "default": "verify"},
            "wait_timeout": {"type": "int", "default": 600, "minimum": 0, "maximum": 86400},
        },
    ),
    "mesh_info": ("mesh", {}),
    "mesh_items": (
        "accept_incomplete approve_refused binding_status fail_on_changes former hash lock_duration lock_holder lock_timeout max_failures "
        "mesh parallel previous_status probe_image report require_connected state",
        {},
    ),
    "mesh_plan": (
        "accept certificate_days clusters fail_on_changes max_failures mesh node_addresses parallel purpose renew_before_days repair "
        "report take_back trust",
        {
            "plan_json": {"type": "str", "default": ""},
            "plan_markdown": {"type": "str", "default": ""},
            "plan_text": {"type": "str", "default": ""},
        },
    ),
    "mesh_policy": (
        "accept_incomplete approve_refused binding_status fail_on_changes former hash lock_duration lock_holder lock_timeout max_failures "
        "mesh parallel previous_status probe_image report require_connected state",
        {},
    ),
    "mesh_policy_replace": (
        "binding_status fail_on_changes lock_duration lock_holder lock_timeout mesh parallel report",
        {
            "managers": {"type": "list", "elements": "str", "default": ["kcp-cilium-mesh-provider"]},
            "policies": {"type": "list", "elements": "dict", "required": True},
        },
    ),
    "mesh_publish": (
        "fail_on_changes items links more",
        {
            "check_places": {"type": "bool", "default": False},
            "ended": {"type": "bool", "default": True},
            "fabric": {"type": "bool", "default": False},
            "junit_file": {"type": "path"},
            "keys": {"type": "list", "elements": "str", "default": []},
            "metrics_file": {"type": "path"},
            "metrics_mesh": {"type": "str", "default": ""},
            "metrics_run": {"type": "str", "default": ""},
            "metrics_state": {"type": "str", "choices": ["measured", "present", "absent"], "default": "measured"},
            "playbook": {"type": "str", "default": ""},
            "result_file": {"type": "path"},
            "tasks": {"type": "list", "elements": "str", "default": []},
            "whole": {"type": "bool", "default": False},
        },
    ),
    "mesh_rbac": (
        "mesh report",
        {
            "account": {"type": "dict"},
            "folder": {"type": "str"},
            "functions": {
                "type": "list",
                "elements": "str",
                "choices": ["verify", "status", "connect", "identity", "items", "explain", "ca", "all"],
                "default": ["all"],
            },
            "item_namespaces": {"type": "list", "elements": "str", "default": []},
            "name": {"type": "str"},
            "state": {"type": "str", "choices": ["printed", "present", "absent"], "default": "printed"},
        },
    ),
    "mesh_reach": (
        "json mesh report",
        {
            "destination": {"type": "dict"},
            "fail_on": {"type": "list", "elements": "str", "choices": ["world", "allowed", "unknown", "gained", "lost"], "default": []},
            "flows_csv": {"type": "path"},
            "grain": {"type": "str", "choices": ["namespace", "workload"], "default": "namespace"},
            "matrix_csv": {"type": "path"},
            "source": {"type": "dict"},
        },
    ),
    "mesh_reconcile": (
        "accept accept_incomplete approve_refused binding_status certificate_days clusters fail_on_changes former hash lock_duration "
        "lock_holder lock_timeout max_failures mesh names node_addresses parallel previous_status probe_image proof quarantine_hours "
        "renew_before_days repair report state take_back trust wait wait_timeout",
        {
            "assign_identities": {"type": "bool", "default": False},
            "rollout_timeout": {"type": "int", "default": 600, "minimum": 0, "maximum": 86400},
        },
    ),
    "mesh_rehearse": (
        "mesh proof report",
        {
            "each": {"type": "list", "elements": "str", "choices": ["members", "links", "networks"]},
            "fail_on": {"type": "list", "elements": "str", "default": []},
            "losses": {"type": "list", "elements": "dict"},
        },
    ),
    "mesh_service": (
        "accept_incomplete approve_refused binding_status fail_on_changes former hash lock_duration lock_holder lock_timeout max_failures "
        "mesh parallel previous_status probe_image report require_connected state",
        {},
    ),
    "mesh_status": ("expected mesh previous_status proof report", {}),
    "mesh_upgrade_check": (
        "json mesh report",
        {
            "fail_on": {"type": "list", "elements": "str", "choices": ["prepare", "lost", "gained"], "default": []},
            "target": {"type": "str"},
            "values": {"type": "dict"},
        },
    ),
    "mesh_verify": (
        "accept json max_failures mesh node_addresses report trust",
        {
            "claims": {"type": "bool", "default": False},
            "fail_on": {"type": "str", "choices": ["blocking", "never"], "default": "blocking"},
            "junit": {"type": "path"},
            "probe": {"type": "bool", "default": True},
            "probe_timeout": {"type": "float", "default": 3.0, "minimum": 0.1, "maximum": 60.0},
            "purpose": {"type": "str", "choices": ["connect", "disconnect", "cluster"], "default": "connect"},
        },
    ),
}
ARGUMENTS: Final = options_of(_SHARED, _ACTIONS)

_VARIABLES: Final[Mapping[str, str]] = {
    "cilium_mesh_": (
        "accept_incomplete approve_refused assign_identities binding_status each expected fabric fail_at fail_on fail_on_changes former "
        "from gather_max_mebibytes gather_operator_log gather_path gather_pseudonym_file gather_pseudonyms gather_results handed_over "
        "hash hosts junit_file lock_duration lock_holder lock_timeout losses metrics_file one_more other_variables plan plan_hash "
        "plan_json plan_markdown plan_text port previous_status probe_image proof protocol provider_managers provider_policies purpose "
        "rbac_account rbac_folder rbac_functions rbac_item_namespaces rbac_name rbac_state reach_by reach_csv reach_fail_on reach_from "
        "reach_json reach_matrix reach_to result_file state statuses to upgrade_fail_on upgrade_json upgrade_target upgrade_values"
    ),
    "kcp_setup_": "command context events export fleet_identity_hash kubeconfig manifests service_account wait",
    "label_clusters_": "context kubeconfig namespace owners resource",
    "ca_sync_": (
        "accept ca_days certificate_days clusters confirm fail_on_changes max_failures node_addresses parallel renew_before_days report "
        "source stage state trust wait_timeout"
    ),
    "cilium_verify_": "accept claims fail_on json junit max_failures node_addresses probe probe_timeout purpose report trust",
    "cluster_identity_": "fail_on_changes max_failures names policy quarantine_hours report wait wait_timeout",
    "exposed_service_": (
        "accept_incomplete approve_refused binding_status fail_on_changes former hash max_failures parallel previous_status report "
        "require_connected state"
    ),
    "fleet_cluster_": "abandon clusters deadline fail_on_changes parallel renew_before_hours report state token_hours wait wait_timeout",
    "fleet_workload_": (
        "cluster fail_on_changes hash name operation operation_id parallel previous_status report state to_revision wait wait_timeout"
    ),
    "global_service_": (
        "accept_incomplete approve_refused binding_status fail_on_changes former hash max_failures parallel previous_status report "
        "require_connected state"
    ),
    "mesh_connect_": (
        "accept certificate_days clusters fail_on_changes max_failures node_addresses parallel previous_status proof renew_before_days "
        "repair report state take_back trust wait wait_timeout"
    ),
    "network_policy_": (
        "accept_incomplete approve_refused binding_status fail_on_changes former hash max_failures parallel previous_status probe_image "
        "report require_connected state"
    ),
    "": "cilium_mesh fleet",
}
VARIABLES: Final = names_of(_VARIABLES)
"""Every variable of playbooks and roles (docs/variables.md). Those of a host are in plugin_utils/play.py."""

PREFIXES: Final = tuple(filter(None, _VARIABLES))
"""Beginnings of names that are the collection's."""

_OWN_NAMES: Final[Mapping[str, str]] = {
    "kcp_setup_": (
        "applied documents export_found exported missing name named own printed read schemas_found slice_found tries unknown urls"
    ),
    "label_clusters_": "found own patched place plan read secrets type unknown",
    "ca_sync_": "result",
    "cilium_verify_": "result",
    "cluster_identity_": "result",
    "exposed_service_": "result",
    "fleet_cluster_": "result",
    "fleet_workload_": "result",
    "global_service_": "result",
    "mesh_connect_": "result",
    "network_policy_": "result",
}
OWN_NAMES: Final = names_of(_OWN_NAMES)
"""Variables that the playbooks and roles set themselves: registered results and values on their way."""

_HANDED: Final[Mapping[str, Mapping[str, str]]] = {
    "fleet_rollout": {"fleet_workload_": "to_revision wait_timeout"},
    "fleet_workload": {"fleet_workload_": "parallel wait_timeout"},
    "karmada_cluster": {"fleet_cluster_": "deadline parallel renew_before_hours token_hours wait_timeout"},
    "mesh_adopt": {"cilium_mesh_": "lock_duration lock_timeout"},
    "mesh_apply": {
        "cilium_mesh_": "lock_duration lock_timeout",
        "mesh_connect_": "certificate_days max_failures parallel renew_before_days wait_timeout",
    },
    "mesh_ca": {
        "ca_sync_": "ca_days certificate_days max_failures parallel renew_before_days wait_timeout",
        "cilium_mesh_": "lock_duration lock_timeout",
    },
    "mesh_connect": {
        "cilium_mesh_": "lock_duration lock_timeout",
        "mesh_connect_": "certificate_days max_failures parallel renew_before_days wait_timeout",
    },
    "mesh_envelope": {"cilium_mesh_": "fail_at"},
    "mesh_exposure": {"cilium_mesh_": "lock_duration lock_timeout", "exposed_service_": "max_failures parallel"},
    "mesh_gather": {"cilium_mesh_gather_": "max_mebibytes"},
    "mesh_identity": {"cilium_mesh_": "lock_duration lock_timeout", "cluster_identity_": "max_failures quarantine_hours wait_timeout"},
    "mesh_items": {"cilium_mesh_": "lock_duration lock_timeout"},
    "mesh_plan": {"mesh_connect_": "certificate_days max_failures parallel renew_before_days"},
    "mesh_policy": {"cilium_mesh_": "lock_duration lock_timeout", "network_policy_": "max_failures parallel"},
    "mesh_policy_replace": {"cilium_mesh_": "lock_duration lock_timeout"},
    "mesh_reconcile": {
        "cilium_mesh_": "lock_duration lock_timeout",
        "cluster_identity_": "quarantine_hours rollout_timeout=wait_timeout",
        "mesh_connect_": "certificate_days max_failures parallel renew_before_days wait_timeout",
    },
    "mesh_service": {"cilium_mesh_": "lock_duration lock_timeout", "global_service_": "max_failures parallel"},
    "mesh_verify": {"cilium_verify_": "max_failures probe_timeout"},
}
HANDED: Final = {module: variables_of(words) for module, words in _HANDED.items()}
"""Module -> option that is a number -> the variables that roles and playbooks hand to it."""
