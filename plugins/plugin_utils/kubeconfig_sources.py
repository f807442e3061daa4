# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Clusters of kubeconfigs in files: each context of one, or each file of a folder. Names and paths are taken of them, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from ..module_utils.base.errors import InvalidInput
from ..module_utils.base.input_problems import suggest
from ..module_utils.kubeconfig.document import Kubeconfig, parse_kubeconfig
from ..module_utils.kubeconfig.files import document_of, is_vaulted, read_kubeconfigs, split_paths
from ..module_utils.kubeconfig.invalid import KubeconfigInvalid, RefusedSubject
from .found_cluster import FoundCluster
from .host_credentials import CONTEXT, KUBECONFIG

ENDINGS: Final = (".kubeconfig", ".conf", ".config", ".yaml", ".yml", ".json")
"""Endings of the name of a file that is expected to be a kubeconfig."""


def clusters_of_contexts(file: str, wanted: Sequence[str], decrypted: Callable[[str], str]) -> Iterator[FoundCluster]:
    """Yield a cluster for each context of a kubeconfig, or for those that are wanted, in that order.

    :param file: absolute path, or several joined by ``:``.
    :param decrypted: as in ``Play``.
    :raises KubeconfigInvalid: when the kubeconfig cannot be used.
    :raises InvalidInput: when a context is not in it, or it is encrypted and cannot be decrypted.
    """
    contexts = _contexts(split_paths(file), decrypted)
    if missing := [name for name in wanted if name not in contexts]:
        raise InvalidInput(
            " ".join(_sentence(f"Kubeconfig {file} has no context {name}; {suggest(name, list(contexts), 'it has')}") for name in missing)
        )
    for name in wanted or contexts:
        yield FoundCluster(name=name, place=file, variables={KUBECONFIG: file, CONTEXT: name})


def clusters_of_folder(folder: str, is_wanted: Callable[[str], bool], left_out: Callable[[str], None]) -> Iterator[FoundCluster]:
    """Yield a cluster for each kubeconfig of a folder. The run decrypts one that is encrypted, and uses its current context.

    :param is_wanted: judges a name of a file without its ending; other files are not read.
    :param left_out: called with the path of a file that is no kubeconfig and does not look like one.
    :raises KubeconfigInvalid: when a file cannot be used.
    :raises InvalidInput: when the folder cannot be read.
    """
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise InvalidInput(f"The folder {folder} of kubeconfigs cannot be read: {error.strerror}.") from None
    for name in names:
        file = os.path.join(folder, name)
        stem = next((name.removesuffix(ending) for ending in ENDINGS if name.endswith(ending)), name)
        if name.startswith(".") or name.endswith("~") or not os.path.isfile(file) or not is_wanted(stem):
            continue
        expected = stem != name or "." not in name
        if expected and is_vaulted(file):
            yield FoundCluster(name=stem, place=file, variables={KUBECONFIG: file})
        elif found := _kubeconfig(file, expected=expected):
            yield FoundCluster(name=stem, place=file, variables={KUBECONFIG: file, CONTEXT: _only_context(file, found)})
        else:
            left_out(file)


def _contexts(paths: Sequence[str], decrypted: Callable[[str], str]) -> Mapping[str, Any]:
    """Return the contexts of a kubeconfig. One that ansible-vault encrypted is decrypted in memory, as the run does."""
    vaulted = [path for path in paths if is_vaulted(path)]
    if not vaulted:
        return read_kubeconfigs(paths).contexts
    if len(paths) > 1:
        raise InvalidInput(
            f"Kubeconfig {vaulted[0]} is encrypted, and stands in a list of files.", remedy="Join them in one kubeconfig and encrypt that."
        )
    try:
        text = decrypted(vaulted[0])
    except Exception:  # of a library of Ansible, which may quote what it read
        raise InvalidInput(
            f"Kubeconfig {vaulted[0]} is encrypted, and cannot be decrypted.", remedy="Give its password, as by --vault-password-file."
        ) from None
    try:
        return parse_kubeconfig(document_of(text), None).contexts
    except KubeconfigInvalid as invalid:
        raise KubeconfigInvalid(f"cannot be used: {invalid.message}", subject=_subject(vaulted[0])) from None


def _kubeconfig(file: str, *, expected: bool) -> Kubeconfig | None:
    """Return the kubeconfig in a file of a folder; None where none is expected and there is none."""
    try:
        found = read_kubeconfigs((file,))
    except KubeconfigInvalid:
        if expected:
            raise
        return None
    return found if found.contexts or expected else None


def _only_context(file: str, found: Kubeconfig) -> str:
    """Return the current context, or the only one.

    :raises KubeconfigInvalid: when there are several contexts and none is current.
    """
    if found.current_context in found.contexts:
        return found.current_context
    if len(found.contexts) == 1:
        return next(iter(found.contexts))
    raise KubeconfigInvalid(f"has {len(found.contexts)} contexts and none of them is its current-context", subject=_subject(file))


def _subject(file: str) -> RefusedSubject:
    return RefusedSubject(f"Kubeconfig {file}", "The kubeconfig")


def _sentence(message: str) -> str:
    return message if message.endswith("?") else f"{message}."
