# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Credentials of a host: the kubeconfig and the context that its variables say, or the environment in their place.

What a file holds that ansible-vault encrypted is never written anywhere.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from ..module_utils.base.errors import InvalidInput
from ..module_utils.base.redact import one_line
from ..module_utils.kubeconfig.chosen import find
from ..module_utils.kubeconfig.core_options import (
    AuthOptions,
    Given,
    OptionsInvalid,
    given_by,
    given_in,
    kubeconfig_with,
    read_options,
)
from ..module_utils.kubeconfig.document import parse_kubeconfig
from ..module_utils.kubeconfig.files import default_paths, document_of, is_vaulted, read_kubeconfigs, split_paths
from ..module_utils.kubeconfig.invalid import KubeconfigInvalid
from .structured_text import NotStructured, structured

KUBECONFIG: Final = "cilium_mesh_kubeconfig"
CONTEXT: Final = "cilium_mesh_context"
KUBECONFIG_FROM: Final = "cilium_mesh_kubeconfig_from"
AUTH: Final = "cilium_mesh_auth"
_ENVIRONMENT: Final = "the environment"
_NOTHING: Final[tuple[Any, ...]] = (None, "", {})
_NAMES_SHOWN: Final = 10

Reached: TypeAlias = tuple[str | Mapping[str, Any], str | None]
"""Kubeconfig, as paths or as a document, and the context in it; None is the current one."""


@dataclass(frozen=True, kw_only=True)
class HostCredentials:
    """Variables of one host that say its credentials.

    :param get: returns the value of a variable, None without it; raises InvalidInput where its template cannot be rendered.
    :param decrypted: returns the text of a file that ansible-vault encrypted, by its path, and raises anything.
    """

    host: str
    get: Callable[[str], Any]
    decrypted: Callable[[str], str]

    @property
    def has_own(self) -> bool:
        """Whether variables of the host say how it is reached. One whose template cannot be rendered says so too, and wrongly."""
        try:
            return any(self.get(name) not in _NOTHING for name in (KUBECONFIG, KUBECONFIG_FROM, AUTH))
        except InvalidInput:
            return True

    def reached(self, environment: Mapping[str, str], others: Callable[[], Sequence[str]]) -> Reached:
        """Return how the cluster is reached.

        :param environment: in which K8S_AUTH_* may describe one cluster.
        :param others: returns every host without variables of its own; called only if they matter.
        :raises InvalidInput: when variables are missing, or cannot be used; the message repeats no value.
        """
        context, auth, kubeconfig = self._context(), self.get(AUTH), self.get(KUBECONFIG)
        if auth not in _NOTHING:
            if kubeconfig not in _NOTHING:
                raise self._wrong(
                    f"{AUTH} and {KUBECONFIG} exclude each other; write the kubeconfig into {AUTH}.kubeconfig, or set one to ''"
                )
            if isinstance(auth, str):
                auth = self._structured(AUTH, auth)
            if not isinstance(auth, Mapping):
                raise self._wrong(f"{AUTH} must be a mapping with options of kubernetes.core, such as host and api_key")
            return self._by_options(AUTH, given_in(auth, AUTH), self.folder, context)
        if kubeconfig not in _NOTHING:
            return self._kubeconfig(KUBECONFIG, kubeconfig, self.folder), context
        given = given_by(environment)
        if not given:
            raise self._wrong(
                f"the host has no {KUBECONFIG} (a path, or the kubeconfig as a text or a mapping) and no {AUTH} (the options of "
                "kubernetes.core, such as host and api_key), and the environment has no K8S_AUTH_* in their place"
            )
        if len(without := others()) > 1:
            more = f" and {len(without) - _NAMES_SHOWN} more" if len(without) > _NAMES_SHOWN else ""
            raise self._wrong(
                f"the host has no {KUBECONFIG} and no {AUTH}, and K8S_AUTH_* of the environment can describe one cluster only, of "
                f"{', '.join(without[:_NAMES_SHOWN])}{more}"
            )
        return self._by_options(_ENVIRONMENT, given, os.getcwd(), context)

    def _structured(self, name: str, text: str) -> Any:
        try:
            return structured(text, "dict")
        except NotStructured as error:
            raise self._wrong(f"{name} {error}") from None

    def _context(self) -> str | None:
        value = self.get(CONTEXT)
        if value is None or value == "":
            return None
        if not isinstance(value, str):
            raise self._wrong(f"{CONTEXT} must be a text")
        return value

    @property
    def secret(self) -> Any:
        """What names the Secret of a management cluster with the kubeconfig; None where nothing does, or another variable goes first.

        :raises InvalidInput: when it is a text that is no YAML.
        """
        reference = self.get(KUBECONFIG_FROM)
        others = any(self.get(name) not in _NOTHING for name in (KUBECONFIG, AUTH))
        if others or reference in _NOTHING:
            return None
        return self._structured(KUBECONFIG_FROM, reference) if isinstance(reference, str) else reference

    @property
    def folder(self) -> str:
        """Return the folder of the host's inventory, at which relative paths start, as those in a kubeconfig start at that file."""
        base = self.get("inventory_dir")
        return base if isinstance(base, str) else os.getcwd()

    def _by_options(self, source: str, given: Sequence[Given], folder: str, beside: str | None) -> Reached:
        try:
            if beside:
                raise OptionsInvalid(f"{CONTEXT} stands beside it; its own option context says the context")
            options = read_options(given)
            kubeconfig = None if options.kubeconfig is None else self._kubeconfig(f"kubeconfig of {source}", options.kubeconfig, folder)
            if not options.values:
                return os.pathsep.join(default_paths()) if kubeconfig is None else kubeconfig, options.context or None
            return self._changed(options, kubeconfig, folder), None
        except OptionsInvalid as invalid:
            raise self._wrong(f"{source} cannot be used: {invalid}") from None

    def _changed(self, options: AuthOptions, kubeconfig: str | Mapping[str, Any] | None, folder: str) -> Mapping[str, Any]:
        """Return the kubeconfig with what the other options say."""
        base = None
        if kubeconfig is not None or options.context:
            try:
                if isinstance(kubeconfig, Mapping):
                    entries = parse_kubeconfig(kubeconfig, None)
                else:
                    entries = read_kubeconfigs(default_paths() if kubeconfig is None else split_paths(kubeconfig))
                base = find(entries, options.context or None)
            except KubeconfigInvalid as invalid:
                raise OptionsInvalid(f"its kubeconfig: {invalid.message}") from None

        def placed(path: str) -> str | bytes:
            place = os.path.abspath(os.path.join(folder, os.path.expanduser(path)))
            return self._decrypted(place).encode() if is_vaulted(place) else place

        return kubeconfig_with(options, base, placed)

    def _kubeconfig(self, name: str, value: Any, folder: str) -> str | Mapping[str, Any]:
        if isinstance(value, Mapping) and value:
            return value
        if not isinstance(value, str):
            raise self._wrong(f"{name} must be a path, a text or a mapping")
        if "\n" in value:
            return self._document(f"the text of {name}", value)
        paths = [os.path.join(folder, os.path.expanduser(part)) for part in value.split(os.pathsep) if part]
        vaulted = [path for path in paths if is_vaulted(path)]
        if not vaulted:
            return os.pathsep.join(paths)
        if len(paths) > 1:
            where = one_line(vaulted[0], 200)
            raise self._wrong(f"{where} is encrypted, and stands in a list of files; join them in one kubeconfig and encrypt that")
        return self._document(one_line(vaulted[0], 200), self._decrypted(vaulted[0]))

    def _decrypted(self, path: str) -> str:
        try:
            return self.decrypted(path)
        except Exception:  # of a library of Ansible, which may quote what it read
            raise self._wrong(
                f"{one_line(path, 200)} is encrypted, and cannot be decrypted; give its password, as by --vault-password-file"
            ) from None

    def _document(self, what: str, text: str) -> Mapping[str, Any]:
        """Return the document of a kubeconfig that is given as text."""
        try:
            found = document_of(text)
        except KubeconfigInvalid as invalid:
            raise self._wrong(f"{what} cannot be used: {invalid.message}") from None
        if not isinstance(found, Mapping) or not found:
            raise self._wrong(f"{what} cannot be used: it is no mapping")
        return found

    def _wrong(self, why: str) -> InvalidInput:
        return InvalidInput(f"{self.host}: {why}")
