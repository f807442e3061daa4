# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Kubeconfigs that a host's variables name in a Secret of a management cluster, read when they are needed and kept in memory alone.

The inventory has the name of the Secret and nothing of its content, so that no listing, cache or log of it holds credentials.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from ..module_utils.base.errors import ClusterError, CredentialsInvalid, Forbidden, InvalidInput, Unreachable
from ..module_utils.base.redact import one_line
from ..module_utils.kube.client import Cluster, open_cluster
from ..module_utils.kubeconfig.invalid import KubeconfigInvalid
from ..module_utils.kubeconfig.secret import kubeconfig_of_secret
from .host_credentials import CONTEXT, KUBECONFIG, KUBECONFIG_FROM
from .play import Play, accesses

_NAME: Final = re.compile(r"(?=.{1,253}$)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")  # IsDNS1123Subdomain
_KEY: Final = re.compile(r"[-._a-zA-Z0-9]{1,253}")
_TEXTS: Final = ("kubeconfig", "namespace", "secret")


@dataclass(frozen=True, kw_only=True)
class SecretReference:
    """Where the kubeconfig of a cluster is. It holds no credentials.

    :param kubeconfig: path of the kubeconfig of the management cluster, or several joined by ``:``.
    :param context: in it; "" for its current context.
    :param key: of the Secret; "" for ``kubeconfig`` or ``value``, or what a Secret of Argo CD describes.
    :param exec: whether the kubeconfig of the Secret may name a program that is run here.
    """

    kubeconfig: str
    namespace: str
    secret: str
    context: str = ""
    key: str = ""
    exec: bool = False

    @property
    def path(self) -> str:
        """Path of the Secret in the API."""
        return f"/api/v1/namespaces/{self.namespace}/secrets/{self.secret}"

    def to_variable(self) -> dict[str, Any]:
        """Return the value of the host variable, without what is not set."""
        return {key: value for key, value in asdict(self).items() if value not in ("", False)}


def reference_of(value: Any) -> SecretReference:
    """Parse the value of the host variable.

    :raises ValueError: when it is none; the message is a clause that follows the name of the variable.
    """
    if not isinstance(value, Mapping):
        raise ValueError("must be a mapping with kubeconfig, namespace and secret")
    known = {*_TEXTS, "context", "key", "exec"}
    if unknown := sorted(one_line(str(key), 40) for key in value if key not in known):
        raise ValueError(f"has {', '.join(unknown)}, and may have {', '.join(sorted(known))}")
    for key in (*_TEXTS, "context", "key"):
        if not isinstance(value.get(key, ""), str) or (key in _TEXTS and not value.get(key)):
            raise ValueError(f"needs a text as {key}" if key in _TEXTS else f"must have a text as {key}")
    if not isinstance(value.get("exec", False), bool):
        raise ValueError("must have true or false as exec")
    for key in ("namespace", "secret"):  # they become parts of a path
        if not _NAME.fullmatch(value[key]):
            raise ValueError(f"has a {key} that is no name of Kubernetes")
    if value.get("key") and not _KEY.fullmatch(value["key"]):
        raise ValueError("has a key that no Secret can have")
    return SecretReference(**value)


def management_cluster(name: str, kubeconfig: str, context: str, folder: str, decrypted: Callable[[str], str]) -> Cluster:
    """Open a management cluster, in the way of a host of the inventory. It is not contacted yet.

    :param name: what messages call it.
    :param kubeconfig: path, or several joined by ``:``; a relative one starts at ``folder``.
    :param context: in it; "" for its current context.
    :param decrypted: as in ``Play``.
    :raises InvalidInput: when its kubeconfig is encrypted and cannot be decrypted.
    :raises CredentialsInvalid: when its kubeconfig cannot be used.
    """
    variables = {KUBECONFIG: kubeconfig, CONTEXT: context, "inventory_dir": folder}
    play = Play(hosts=(name,), inventory=(name,), limit="", hostvars={name: variables}, decrypted=decrypted)
    try:
        return open_cluster(accesses(play, (name,))[0])
    except CredentialsInvalid as error:  # its remedy names the variables of a host, which this is not
        remedy = "Correct kubeconfig or context of the management cluster." if KUBECONFIG in error.remedy else error.remedy
        raise CredentialsInvalid(error.message, remedy=remedy) from None


def kubeconfig_from(cluster: Cluster, reference: SecretReference) -> dict[str, Any]:
    """Return the kubeconfig of a Secret.

    :raises ClusterError: when it cannot be had.
    """
    secret = cluster.get(reference.path)
    if secret is None:
        raise CredentialsInvalid("There is no such Secret.")
    return kubeconfig_of_found(secret, reference)


def kubeconfig_of_found(secret: Mapping[str, Any], reference: SecretReference) -> dict[str, Any]:
    """Return the kubeconfig of a Secret that was read.

    :raises CredentialsInvalid: when it has none, or one that cannot be used.
    """
    try:
        return kubeconfig_of_secret(secret, reference.key, programs=reference.exec)
    except KubeconfigInvalid as invalid:
        raise CredentialsInvalid(f"{invalid.message}.", remedy=invalid.remedy) from None


def reason_of(error: ClusterError, reference: SecretReference) -> str:
    """Return why a cluster is not available, whose kubeconfig could not be had: sentences on one line."""
    remedy = "" if isinstance(error, Forbidden) else error.remedy  # its remedy is a whole role, one right on each line
    what = f"Secret {reference.namespace}/{reference.secret} of the management cluster gives no kubeconfig: {error.clause}."
    return one_line(f"{what} {remedy}", 400)


class SecretKubeconfigs:
    """Kubeconfigs of Secrets during one task. Each Secret is read once, and a management cluster that does not answer is asked once.

    :param decrypted: as in ``Play``.
    """

    def __init__(self, decrypted: Callable[[str], str]) -> None:
        self._decrypted = decrypted
        self._clusters: dict[tuple[str, str, str], Cluster | ClusterError] = {}
        self._read: dict[tuple[str, SecretReference], dict[str, Any] | str] = {}

    def __call__(self, host: str, value: Any, folder: str) -> Mapping[str, Any] | str:
        """Return the kubeconfig that the variable of a host names, or the reason why it cannot be had now, as a text.

        :param folder: of the inventory, where a relative path of the management cluster's kubeconfig starts.
        :raises InvalidInput: when the variable is wrong.
        """
        try:
            reference = reference_of(value)
        except ValueError as problem:
            raise InvalidInput(f"{host}: {KUBECONFIG_FROM} {problem}") from None
        key = (folder, reference)
        if key not in self._read:
            self._read[key] = self._found(host, reference, folder)
        return self._read[key]

    def _found(self, host: str, reference: SecretReference, folder: str) -> dict[str, Any] | str:
        place = (reference.kubeconfig, reference.context, folder)
        try:
            if place not in self._clusters:
                self._clusters[place] = management_cluster(f"{host}, its management cluster", *place, self._decrypted)
            cluster = self._clusters[place]
            if isinstance(cluster, ClusterError):
                return reason_of(cluster, reference)
            return kubeconfig_from(cluster, reference)
        except ClusterError as error:
            if place not in self._clusters or isinstance(error, Unreachable):
                self._clusters[place] = error
            return reason_of(error, reference)
