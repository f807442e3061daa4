# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Runs: functions over ports that observe, judge, plan, write, wait and measure, and return a frozen outcome; and the dry run.

May import: adopt, apply, base, ca, checks, envelope, etcd, evidence, findings, fleet, gather, identity, items, kubeconfig, leases, links,
lock, members, mesh, observe, plan, probe, rbac, reach, reconcile, rehearse, report, services, status.
"""
