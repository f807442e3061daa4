# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The ``cilium_mesh`` variable -> ``Mesh``, or one error that lists everything that is wrong with it.

The shape is that of the custom resources (metadata name plus spec). Nothing that is written there is ever silently ignored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from .items.kinds import ItemKind
from .model import Binding, Mesh
from .problems import SUBDOMAIN, Problems, generation_of, is_empty, is_list, items_of, kind_of, length_of, shown, suggest
from .topology import Mode, Topology

DEFAULT_NAME: Final = "cilium-mesh"
PLACE: Final = ("workspace", "namespace")  # of the custom resource, where the binding came from one; both are part of its identity
SERVICE_TYPES: Final = ("LoadBalancer", "NodePort")


def parse(raw: Any, inventory: Sequence[str]) -> Mesh:
    """The mesh that ``raw`` describes.

    :param raw: the variable ``cilium_mesh``; None means a binding named ``cilium-mesh`` over the whole inventory.
    :param inventory: names of all hosts, in order.
    :raises InvalidInput: listing every problem, each with its path.
    """
    problems = Problems()
    hosts = tuple(str(host) for host in inventory)
    top = problems.mapping("", raw, ("binding", *ItemKind), optional=True)  # the items: items/parse.py
    keys = ("name", *PLACE, "generation", "clusterRefs", "topology", "meshConfig")
    binding = problems.mapping("binding", top.get("binding"), keys, optional=True)
    name = _binding_name(problems, binding.get("name"))
    place: dict[str, Any] = {key: problems.typed(f"binding.{key}", binding.get(key), str, "a text") or "" for key in PLACE}
    generation = generation_of(problems, "binding.generation", binding.get("generation"))
    refs = _cluster_refs(problems, binding, hosts)
    topology = _topology(problems, binding.get("topology"), refs)
    config = _mesh_config(problems, binding.get("meshConfig"))
    problems.raise_any()
    return Mesh(binding=Binding(name=name, cluster_refs=refs, topology=topology, generation=generation, **place, **config))


def _binding_name(problems: Problems, value: Any) -> str:
    name = problems.typed("binding.name", value, str, "a text")
    if name is None:
        return DEFAULT_NAME
    if not SUBDOMAIN.fullmatch(name):
        problems.add("binding.name", f"{shown(name)} is not a DNS-1123 name (lower-case letters, digits, '-' and '.')")
    return str(name)


def _cluster_refs(problems: Problems, binding: Mapping[str, Any], inventory: tuple[str, ...]) -> tuple[str, ...]:
    path = "binding.clusterRefs"
    value = binding.get("clusterRefs")
    if value is None:
        names = [(f"inventory host {host}", host) for host in inventory]
    elif isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        names = [pair for i, item in enumerate(value) if (pair := _cluster_ref(problems, f"{path}[{i}]", item)) is not None]
    else:
        problems.add(path, f"must be a list of {{name: HOST}}, not {kind_of(value)}")
        return ()
    first: dict[str, str] = {}
    for where, name in names:
        if name in first:
            problems.add(where, f"{shown(name)} is named twice; the first is {first[name]}")
            continue
        first[name] = where
        if name not in inventory:
            problems.add(where, f"{shown(name)} is not in the inventory; {suggest(name, inventory, 'it has')}")
        elif not SUBDOMAIN.fullmatch(name):
            problems.add(where, f"{shown(name)} is not a DNS-1123 name, as every KubernetesCluster's is; rename the inventory host")
    if len(first) < 2 and (value is None or len(names) == len(value)):
        where = path if value is not None else "the inventory"
        problems.add(where, f"a mesh needs at least two clusters, and there {'is one' if first else 'are none'}")
    return tuple(first)


def _cluster_ref(problems: Problems, path: str, item: Any) -> tuple[str, str] | None:
    if isinstance(item, str):
        return path, str(item)
    if not isinstance(item, Mapping):
        problems.add(path, f"must be {{name: HOST}} or a text, not {kind_of(item)}")
        return None
    entry = problems.mapping(path, item, ("name",), optional=False)
    if entry.get("name") is None:
        problems.add(f"{path}.name", "is missing")
        return None
    name = problems.typed(f"{path}.name", entry["name"], str, "a text")
    return None if name is None else (f"{path}.name", str(name))


def _topology(problems: Problems, value: Any, members: tuple[str, ...]) -> Topology:
    path = "binding.topology"
    given = problems.mapping(path, value, ("mode", "hubs", "pairs"), optional=True)
    name = problems.typed(f"{path}.mode", given.get("mode"), str, "a text")
    if name is not None and name not in tuple(Mode):
        problems.add(f"{path}.mode", f"{shown(name)} is not known; {suggest(name, tuple(Mode), 'use one of')}")
        return Topology()
    mode = Mode(str(name)) if name is not None else Mode.FULL_MESH
    for key, wanted in (("hubs", Mode.HUB_AND_SPOKE), ("pairs", Mode.PAIRS)):
        if mode is wanted and is_empty(given.get(key)):
            problems.add(f"{path}.{key}", f"is missing; mode {mode} needs it")
        elif mode is not wanted and given.get(key) is not None:
            problems.add(f"{path}.{key}", f"belongs to mode {wanted}, and the mode is {mode}; remove it, or change the mode")
    hubs = _hubs(problems, f"{path}.hubs", given.get("hubs"), members) if mode is Mode.HUB_AND_SPOKE else ()
    pairs = _pairs(problems, f"{path}.pairs", given.get("pairs"), members) if mode is Mode.PAIRS else ()
    return Topology(mode=mode, hubs=hubs, pairs=pairs)


def _hubs(problems: Problems, path: str, value: Any, members: tuple[str, ...]) -> tuple[str, ...]:
    found: dict[str, str] = {}
    for where, item in items_of(problems, path, value, "names of members"):
        hub = _member(problems, where, item, members)
        if hub in found:
            problems.add(where, f"{shown(hub)} is named twice; the first is {found[hub]}")
        elif hub:
            found[hub] = where
    return tuple(found)


def _pairs(problems: Problems, path: str, value: Any, members: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    found: dict[frozenset[str], str] = {}
    pairs: list[tuple[str, str]] = []
    for where, item in items_of(problems, path, value, "pairs [ONE, OTHER]"):
        if not is_list(item) or len(item) != 2:
            problems.add(where, f"must be a pair [ONE, OTHER], not {kind_of(item)}{length_of(item)}")
            continue
        one, other = (_member(problems, f"{where}[{place}]", name, members) for place, name in enumerate(item))
        if not one or not other:
            continue
        if one == other:
            problems.add(where, f"{shown(one)} cannot be linked with itself")
        elif frozenset((one, other)) in found:
            problems.add(where, f"{shown(one)} and {shown(other)} are a pair already; the first is {found[frozenset((one, other))]}")
        else:
            found[frozenset((one, other))] = where
            pairs.append((one, other))
    return tuple(pairs)


def _member(problems: Problems, path: str, value: Any, members: tuple[str, ...]) -> str:
    """The name of a member; "" with a problem told."""
    if value is None:
        problems.add(path, "must be a text, not nothing")
        return ""
    name = problems.typed(path, value, str, "a text")
    if name is None:
        return ""
    if name not in members:
        problems.add(path, f"{shown(name)} is no member of the mesh; {suggest(name, members, 'its members are')}")
        return ""
    return str(name)


def _mesh_config(problems: Problems, value: Any) -> dict[str, Any]:
    path = "binding.meshConfig"
    config = problems.mapping(path, value, ("serviceType", "enableKvStoreMesh", "hubble"), optional=True)
    service_type = problems.typed(f"{path}.serviceType", config.get("serviceType"), str, "a text")
    if service_type is not None and service_type not in SERVICE_TYPES:
        problems.add(f"{path}.serviceType", f"{shown(service_type)} is not known; {suggest(service_type, SERVICE_TYPES, 'use one of')}")
    kvstoremesh = problems.typed(f"{path}.enableKvStoreMesh", config.get("enableKvStoreMesh"), bool, "true or false")
    hubble = problems.mapping(f"{path}.hubble", config.get("hubble"), ("enabled", "ui"), optional=True)
    return {
        "service_type": None if service_type is None else str(service_type),
        "enable_kvstoremesh": kvstoremesh,
        "hubble_enabled": problems.typed(f"{path}.hubble.enabled", hubble.get("enabled"), bool, "true or false"),
        "hubble_ui": problems.typed(f"{path}.hubble.ui", hubble.get("ui"), bool, "true or false"),
    }
