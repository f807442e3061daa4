# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Kubeconfigs of the platform's own control planes, whole in themselves, for runs that may read no other file.

They are read anew for each run, so that tokens and certificates that are renewed in files count from then on.
"""

from __future__ import annotations

from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import CredentialsInvalid
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.chosen import check, find
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.files import read_kubeconfigs, split_paths
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.invalid import KubeconfigInvalid, KubeconfigUnreadable
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.pod import service_account
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.whole import whole_document

_RUNS: Final = ("exec", "auth-provider")  # a confined run starts no program of the platform


def whole_kubeconfig(path: str, flag: str) -> dict[str, Any]:
    """Return the current context of a kubeconfig, with the content of the files that it names in place of their names.

    :param path: of the file, or several joined by ":"; "" is the service account of the pod.
    :param flag: that names the file, for messages.
    :raises CredentialsInvalid: when it cannot be used, or runs a program; the message quotes no value.
    """
    try:
        chosen = find(read_kubeconfigs(split_paths(path))) if path else service_account()
        if chosen is None:
            raise KubeconfigInvalid("is that of a pod, and this process runs in none", remedy=f"Give {flag}.")
        for key in _RUNS:
            if key in chosen.user:
                what = f"has a user with {key}, and runs of the operator start no program"
                raise KubeconfigInvalid(what, remedy="Use a token, a token file or a client certificate.")
        check(chosen)
        return whole_document(chosen)
    except KubeconfigUnreadable as invalid:
        raise CredentialsInvalid(f"{flag}: {invalid.message}.", remedy=invalid.remedy or f"Correct {flag}.", cluster="") from None
    except KubeconfigInvalid as invalid:
        why = f"The kubeconfig of {flag} cannot be used: {invalid.message}."
        raise CredentialsInvalid(why, remedy=invalid.remedy or f"Correct {flag}.", cluster="") from None
