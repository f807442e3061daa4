# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Karmada's objects lead to the lab's webhook, and the lab's status names each part."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.lab import report
from tests.lab.karmada import PACES, PROGRAMS
from tests.lab.options import KARMADA_PACES, LabOptions, OptionError
from tests.lab.tools import cache
from tests.lab.tools.karmada_objects import MODULE, karmada_crds, karmada_webhooks

WEBHOOK = "https://127.20.250.4:8443"
CONFIGURATION = """
kind: MutatingWebhookConfiguration
webhooks:
- clientConfig: {url: "https://karmada-webhook.karmada-system.svc:443/mutate-work", caBundle: {{caBundle}}}
---
kind: ValidatingWebhookConfiguration
webhooks: []
"""


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache, as it is after the module was read once."""
    monkeypatch.setattr(cache, "cache_root", lambda: tmp_path)
    crds = [
        {"kind": "CustomResourceDefinition", "metadata": {"name": name}, "spec": {"group": "work.karmada.io", "description": "text"}}
        for name in ("resourcebindings.work.karmada.io", "works.work.karmada.io")
    ]
    (tmp_path / MODULE.stored).write_text(json.dumps(crds), encoding="utf-8")
    (tmp_path / f"webhooks-karmada-{MODULE.version}.yaml").write_text(CONFIGURATION, encoding="utf-8")
    return tmp_path


@pytest.mark.usefixtures("stored")
def test_bindings_are_converted_by_the_webhook_of_the_lab_and_other_kinds_by_none() -> None:
    binding, work = karmada_crds(WEBHOOK, "Q0E=")
    client = binding["spec"]["conversion"]["webhook"]["clientConfig"]
    assert client == {"url": f"{WEBHOOK}/convert", "caBundle": "Q0E="}
    assert "conversion" not in work["spec"] and "description" not in work["spec"]


@pytest.mark.usefixtures("stored")
def test_every_webhook_leads_to_the_lab_with_its_authority() -> None:
    mutating, validating = karmada_webhooks(WEBHOOK, "Q0E=")
    assert mutating["webhooks"][0]["clientConfig"] == {"url": f"{WEBHOOK}/mutate-work", "caBundle": "Q0E="}
    assert validating["kind"] == "ValidatingWebhookConfiguration"
    assert "karmada-webhook" not in yaml.safe_dump_all([mutating, validating])


def test_a_lab_has_no_karmada_unless_asked_and_the_option_reaches_its_supervisor() -> None:
    assert not LabOptions().karmada
    assert LabOptions.from_json(LabOptions(karmada=True).to_json()).karmada


def test_every_pace_of_karmada_has_its_flags_and_reaches_the_supervisor() -> None:
    assert set(PACES) == set(KARMADA_PACES) and LabOptions().karmada_pace == "quick"
    for pace in KARMADA_PACES:
        assert LabOptions.from_json(LabOptions(karmada_pace=pace).to_json()).karmada_pace == pace
        assert set(PACES[pace]) <= set(PROGRAMS)
    with pytest.raises(OptionError, match="quick, default, wide"):
        LabOptions(karmada_pace="slow")


def test_the_status_names_each_part_with_its_state() -> None:
    parts = {"servers": {"webhook": 7, "scheduler": 8}, "dead": ["aggregated-apiserver"], "frozen": ["scheduler"]}
    karmada = {"server": "https://127.20.250.1:6443", "kubeconfig": "karmada.yaml", **parts}
    found = {"name": "l", "state": "ready", "network": "n", "pid": 1, "kubeconfig": "k", "clusters": [], "faults": [], "troubles": []}
    lines = report.text({**found, "karmada": karmada}).splitlines()
    assert "karmada 127.20.250.1:6443: webhook runs, scheduler frozen, aggregated-apiserver dead" in lines
    assert not any("karmada" in line for line in report.text({**found, "karmada": None}).splitlines())
