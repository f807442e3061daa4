# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a binding asks for in ``meshConfig``, and what a cluster runs with. Connect uses what runs, and installs nothing. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..binding.model import Binding
from ..facts.cluster import ClusterFacts
from .cilium_config import enabled

HUBBLE_UI: Final = "hubble-ui"


@dataclass(frozen=True, kw_only=True)
class ConfigRequest:
    """One value of ``meshConfig``, and that of one cluster."""

    name: str  # of the field
    wanted: str
    runs: str | None  # None: not known
    helm_values: tuple[str, ...]  # that would do it

    @property
    def differs(self) -> bool:
        """Return whether the cluster is known to run with another value."""
        return self.runs is not None and self.runs != self.wanted


def config_requests(binding: Binding, facts: ClusterFacts | None) -> tuple[ConfigRequest, ...]:
    """Return every value that the binding asks for.

    :param facts: of one cluster; None: it was not asked, or did not answer. Nothing is known of a cluster without clustermesh-apiserver.
    """
    answered = facts if facts is not None and facts.apiserver is not None and facts.config is not None else None
    runs: dict[str, str | bool | None] = {
        "serviceType": answered.service.type if answered and answered.service else None,
        "enableKvStoreMesh": answered.runs_kvstoremesh if answered else None,
        "hubble.enabled": enabled(answered, "enable-hubble") if answered else None,
        "hubble.ui": _runs_ui(answered) if answered else None,
    }
    wanted: dict[str, str | bool | None] = {
        "serviceType": binding.service_type,
        "enableKvStoreMesh": binding.enable_kvstoremesh,
        "hubble.enabled": binding.hubble_enabled,
        "hubble.ui": binding.hubble_ui,
    }
    texts = {name: _text(value) for name, value in wanted.items() if value is not None}
    return tuple(
        ConfigRequest(
            name=name, wanted=text, runs=None if (now := runs[name]) is None else _text(now), helm_values=_helm_values(name, text)
        )
        for name, text in texts.items()
    )


def _runs_ui(facts: ClusterFacts) -> bool | None:
    """Return whether Hubble UI runs; None if the Deployments may not be listed."""
    return None if any(entry.what == "parts" for entry in facts.unread) else HUBBLE_UI in facts.parts


def _text(value: str | bool) -> str:
    return value if isinstance(value, str) else str(value).lower()


def _helm_values(name: str, text: str) -> tuple[str, ...]:
    """Return the Helm values that set a field of ``meshConfig``.

    Hubble UI needs Hubble Relay, which the chart does not switch on with it.
    """
    if name == "hubble.ui":
        return ("hubble.relay.enabled=true", "hubble.ui.enabled=true") if text == "true" else ("hubble.ui.enabled=false",)
    return (
        {
            "serviceType": f"clustermesh.apiserver.service.type={text}",
            "enableKvStoreMesh": f"clustermesh.apiserver.kvstoremesh.enabled={text}",
            "hubble.enabled": f"hubble.enabled={text}",
        }[name],
    )
