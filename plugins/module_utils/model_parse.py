# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The ``cilium_mesh`` variable -> ``Mesh``, or one error that lists everything that is wrong with it.

The shape is that of the custom resources (metadata name plus spec). Nothing that is written there is ever silently ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final

from .errors import InvalidInput
from .model import Binding, Mesh
from .topology import Mode, Topology

DEFAULT_NAME: Final = "cilium-mesh"
SERVICE_TYPES: Final = ("LoadBalancer", "NodePort")
LATER: Final = ("globalServices", "connectivityIntents", "exposedServices")
"""Parts of the shape that this release knows but does not act on."""

_SUBDOMAIN = re.compile(r"(?=.{1,253}$)[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)*")
_NAMES_SHOWN: Final = 20
_TEXT_SHOWN: Final = 80


def parse(raw: Any, inventory: Sequence[str], *, workspace: str = "", namespace: str = "") -> Mesh:
    """The mesh that ``raw`` describes.

    :param raw: the variable ``cilium_mesh``; None means a binding named ``cilium-mesh`` over the whole inventory.
    :param inventory: names of all hosts, in order.
    :param workspace: kcp logical cluster that the binding came from, "" outside kcp.
    :param namespace: namespace of the binding, "" outside kcp.
    :raises InvalidInput: listing every problem, each with its path.
    """
    problems = _Problems()
    hosts = tuple(str(host) for host in inventory)
    top = problems.mapping("", raw, ("binding", *LATER), optional=True)
    for key in LATER:
        _refuse_later(problems, key, top.get(key))
    binding = problems.mapping("binding", top.get("binding"), ("name", "clusterRefs", "topology", "meshConfig"), optional=True)
    name = _binding_name(problems, binding.get("name"))
    refs = _cluster_refs(problems, binding, hosts)
    topology = _topology(problems, binding.get("topology"), refs)
    config = _mesh_config(problems, binding.get("meshConfig"))
    problems.raise_any()
    return Mesh(
        binding=Binding(name=name, cluster_refs=refs, topology=topology, workspace=str(workspace), namespace=str(namespace), **config)
    )


@dataclass
class _Problems:
    """Collects what is wrong, so that the user sees all of it at once."""

    found: list[str] = field(default_factory=list)

    def add(self, path: str, text: str) -> None:
        self.found.append(f"{path or 'cilium_mesh'}: {text}")

    def mapping(self, path: str, value: Any, known: Sequence[str], *, optional: bool) -> Mapping[str, Any]:
        """``value`` as a mapping of known keys; {} when it is absent or wrong."""
        if value is None and optional:
            return {}
        if not isinstance(value, Mapping):
            self.add(path, f"must be a mapping with the keys {', '.join(known)}, not {_kind(value)}")
            return {}
        for key in value:
            if not isinstance(key, str) or str(key) not in known:
                self.add(_join(path, key), f"unknown key; {_suggest(str(key), known, 'the keys here are')}")
        return {str(key): item for key, item in value.items()}

    def typed(self, path: str, value: Any, wanted: type, words: str) -> Any:
        """``value`` when it has the type or is None; else a problem and None."""
        if value is None or isinstance(value, wanted):
            return value
        self.add(path, f"must be {words}, not {_kind(value)}")
        return None

    def raise_any(self) -> None:
        if self.found:
            count = "1 problem" if len(self.found) == 1 else f"{len(self.found)} problems"
            raise InvalidInput(
                f"cilium_mesh has {count}: " + "; ".join(self.found) + ".",
                remedy="Correct the variable cilium_mesh; nothing was asked of any cluster.",
            )


def _refuse_later(problems: _Problems, key: str, value: Any) -> None:
    if _empty(value):
        return
    problems.add(key, "this release does not handle it yet; remove it, or leave the list empty")


def _binding_name(problems: _Problems, value: Any) -> str:
    name = problems.typed("binding.name", value, str, "a text")
    if name is None:
        return DEFAULT_NAME
    if not _SUBDOMAIN.fullmatch(name):
        problems.add("binding.name", f"{_shown(name)} is not a DNS-1123 name (lower-case letters, digits, '-' and '.')")
    return str(name)


def _cluster_refs(problems: _Problems, binding: Mapping[str, Any], inventory: tuple[str, ...]) -> tuple[str, ...]:
    path = "binding.clusterRefs"
    value = binding.get("clusterRefs")
    if value is None:
        names = [(f"inventory host {host}", host) for host in inventory]
    elif isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        names = [pair for i, item in enumerate(value) if (pair := _cluster_ref(problems, f"{path}[{i}]", item)) is not None]
    else:
        problems.add(path, f"must be a list of {{name: HOST}}, not {_kind(value)}")
        return ()
    first: dict[str, str] = {}
    for where, name in names:
        if name in first:
            problems.add(where, f"{_shown(name)} is named twice; the first is {first[name]}")
            continue
        first[name] = where
        if name not in inventory:
            problems.add(where, f"{_shown(name)} is not in the inventory; {_suggest(name, inventory, 'it has')}")
        elif not _SUBDOMAIN.fullmatch(name):
            problems.add(where, f"{_shown(name)} is not a DNS-1123 name, as every KubernetesCluster's is; rename the inventory host")
    if len(first) < 2 and (value is None or len(names) == len(value)):
        where = path if value is not None else "the inventory"
        problems.add(where, f"a mesh needs at least two clusters, and there {'is one' if first else 'are none'}")
    return tuple(first)


def _cluster_ref(problems: _Problems, path: str, item: Any) -> tuple[str, str] | None:
    if isinstance(item, str):
        return path, str(item)
    if not isinstance(item, Mapping):
        problems.add(path, f"must be {{name: HOST}} or a text, not {_kind(item)}")
        return None
    entry = problems.mapping(path, item, ("name",), optional=False)
    if entry.get("name") is None:
        problems.add(f"{path}.name", "is missing")
        return None
    name = problems.typed(f"{path}.name", entry["name"], str, "a text")
    return None if name is None else (f"{path}.name", str(name))


def _topology(problems: _Problems, value: Any, members: tuple[str, ...]) -> Topology:
    path = "binding.topology"
    given = problems.mapping(path, value, ("mode", "hubs", "pairs"), optional=True)
    name = problems.typed(f"{path}.mode", given.get("mode"), str, "a text")
    if name is not None and name not in tuple(Mode):
        problems.add(f"{path}.mode", f"{_shown(name)} is not known; {_suggest(name, tuple(Mode), 'use one of')}")
        return Topology()
    mode = Mode(str(name)) if name is not None else Mode.FULL_MESH
    for key, wanted in (("hubs", Mode.HUB_AND_SPOKE), ("pairs", Mode.PAIRS)):
        if mode is wanted and _empty(given.get(key)):
            problems.add(f"{path}.{key}", f"is missing; mode {mode} needs it")
        elif mode is not wanted and given.get(key) is not None:
            problems.add(f"{path}.{key}", f"belongs to mode {wanted}, and the mode is {mode}; remove it, or change the mode")
    hubs = _hubs(problems, f"{path}.hubs", given.get("hubs"), members) if mode is Mode.HUB_AND_SPOKE else ()
    pairs = _pairs(problems, f"{path}.pairs", given.get("pairs"), members) if mode is Mode.PAIRS else ()
    return Topology(mode=mode, hubs=hubs, pairs=pairs)


def _hubs(problems: _Problems, path: str, value: Any, members: tuple[str, ...]) -> tuple[str, ...]:
    found: dict[str, str] = {}
    for where, item in _items(problems, path, value, "names of members"):
        hub = _member(problems, where, item, members)
        if hub in found:
            problems.add(where, f"{_shown(hub)} is named twice; the first is {found[hub]}")
        elif hub:
            found[hub] = where
    return tuple(found)


def _pairs(problems: _Problems, path: str, value: Any, members: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    found: dict[frozenset[str], str] = {}
    pairs: list[tuple[str, str]] = []
    for where, item in _items(problems, path, value, "pairs [ONE, OTHER]"):
        if not _is_list(item) or len(item) != 2:
            problems.add(where, f"must be a pair [ONE, OTHER], not {_kind(item)}{_length(item)}")
            continue
        one, other = (_member(problems, f"{where}[{place}]", name, members) for place, name in enumerate(item))
        if not one or not other:
            continue
        if one == other:
            problems.add(where, f"{_shown(one)} cannot be linked with itself")
        elif frozenset((one, other)) in found:
            problems.add(where, f"{_shown(one)} and {_shown(other)} are a pair already; the first is {found[frozenset((one, other))]}")
        else:
            found[frozenset((one, other))] = where
            pairs.append((one, other))
    return tuple(pairs)


def _items(problems: _Problems, path: str, value: Any, what: str) -> list[tuple[str, Any]]:
    if value is None:
        return []
    if not _is_list(value):
        problems.add(path, f"must be a list of {what}, not {_kind(value)}")
        return []
    return [(f"{path}[{place}]", item) for place, item in enumerate(value)]


def _member(problems: _Problems, path: str, value: Any, members: tuple[str, ...]) -> str:
    """The name of a member; "" with a problem told."""
    if value is None:
        problems.add(path, "must be a text, not nothing")
        return ""
    name = problems.typed(path, value, str, "a text")
    if name is None:
        return ""
    if name not in members:
        problems.add(path, f"{_shown(name)} is no member of the mesh; {_suggest(name, members, 'its members are')}")
        return ""
    return str(name)


def _length(value: Any) -> str:
    return f" of {len(value)}" if _is_list(value) else ""


def _empty(value: Any) -> bool:
    return value is None or (_is_list(value) and not value)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _mesh_config(problems: _Problems, value: Any) -> dict[str, Any]:
    path = "binding.meshConfig"
    config = problems.mapping(path, value, ("serviceType", "enableKvStoreMesh", "hubble"), optional=True)
    service_type = problems.typed(f"{path}.serviceType", config.get("serviceType"), str, "a text")
    if service_type is not None and service_type not in SERVICE_TYPES:
        problems.add(f"{path}.serviceType", f"{_shown(service_type)} is not known; {_suggest(service_type, SERVICE_TYPES, 'use one of')}")
    kvstoremesh = problems.typed(f"{path}.enableKvStoreMesh", config.get("enableKvStoreMesh"), bool, "true or false")
    hubble = problems.mapping(f"{path}.hubble", config.get("hubble"), ("enabled", "ui"), optional=True)
    return {
        "service_type": None if service_type is None else str(service_type),
        "enable_kvstoremesh": kvstoremesh,
        "hubble_enabled": problems.typed(f"{path}.hubble.enabled", hubble.get("enabled"), bool, "true or false"),
        "hubble_ui": problems.typed(f"{path}.hubble.ui", hubble.get("ui"), bool, "true or false"),
    }


def _join(path: str, key: Any) -> str:
    text = str(key) if isinstance(key, str) else repr(key)
    text = _clip(text)
    return f"{path}.{text}" if path else text


def _suggest(name: str, known: Sequence[str], otherwise: str) -> str:
    """What the user may have meant."""
    lowered = {candidate.lower(): candidate for candidate in known}
    close = get_close_matches(name.lower(), list(lowered), n=1, cutoff=0.6)
    if close:
        return f"did you mean {lowered[close[0]]}?"
    if not known:
        return f"{otherwise} none"
    more = f" and {len(known) - _NAMES_SHOWN} more" if len(known) > _NAMES_SHOWN else ""
    return f"{otherwise} {', '.join(known[:_NAMES_SHOWN])}{more}"


_KINDS: Final[tuple[tuple[Callable[[Any], bool], str], ...]] = (
    (lambda v: v is None, "nothing"),
    (lambda v: isinstance(v, bool), "true or false"),
    (lambda v: isinstance(v, str), "a text"),
    (lambda v: isinstance(v, (int, float)), "a number"),
    (lambda v: isinstance(v, Mapping), "a mapping"),
    (lambda v: isinstance(v, Sequence), "a list"),
)


def _kind(value: Any) -> str:
    return next((word for test, word in _KINDS if test(value)), "something else")


def _clip(text: str) -> str:
    """Short and printable: the text may be a tenant's."""
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= _TEXT_SHOWN else text[: _TEXT_SHOWN - 3] + "..."


def _shown(text: str) -> str:
    return f'"{_clip(text)}"'
