# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Parser of the ``cilium_mesh`` variable: a ``Mesh``, or one error that lists every problem.

The shape is that of the custom resources (metadata name plus spec). No key of the input is ever silently ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ...base.input_problems import SUBDOMAIN, Problems, generation_of, is_list, quoted, suggest
from ...base.json_fields import parse_time
from ...base.structure import SchemaReader
from .item_kinds import ItemKind
from .model import Binding, Mesh
from .schemas import SPECS
from .topology import Mode, Topology
from .trust_mode import TrustMode
from .waivers import Waiver, WaiverKind

DEFAULT_NAME: Final = "cilium-mesh"
ALL: Final = "all"  # value of clusterRefs that says: every host of the play
PLACE: Final = ("workspace", "namespace")  # of the custom resource, where the binding came from one; both are part of its identity

_SPEC: Final = SPECS["ClusterMeshBinding"]
_BINDING: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, **{key: {"type": "string"} for key in PLACE}, **_SPEC["properties"]},
}
"""The spec of the custom resource, and what the variable has of its metadata beside it."""

_REFS: Final = "binding.clusterRefs"
_TRUST: Final = {mode.spelled: mode for mode in TrustMode}
_SUBJECTS: Final = {WaiverKind.ACCEPT: "code", WaiverKind.TAKE_BACK: "cluster", WaiverKind.REPAIR: "", WaiverKind.ADOPT: ""}
_HINTS: Final = {
    "binding.clusterRefs": "write a list of {name: HOST}, or all for every host of the play",
    "binding.clusterRefs[]": "write {name: HOST}, or the name alone",
    "binding.topology.pairs[]": "write a pair [ONE, OTHER]",
    "binding.topology.hubs": "write a list of members",
    "binding.topology.pairs": "write a list of pairs [ONE, OTHER]",
}


def parse(raw: Any, inventory: Sequence[str], *, leaving: bool = False) -> Mesh:
    """Parse the variable ``cilium_mesh`` to a mesh.

    :param raw: the variable. Without a name the binding is called ``cilium-mesh``, and without ``clusterRefs`` every host is a member: a
        caller that plans, writes or judges a mesh refuses both first (``missing_paths``).
    :param inventory: names of all hosts, in order.
    :param leaving: the mesh is to be taken away: of its members one may be left.
    :raises InvalidInput: when there is a problem; the error lists every one with its path.
    """
    problems = Problems()
    hosts = tuple(str(host) for host in inventory)
    top = problems.mapping("", raw, ("binding", *ItemKind), optional=True)  # the items: reconcile/parse.py
    written = top.get("binding")
    generation = generation_of(problems, "binding.generation", written.get("generation") if isinstance(written, Mapping) else None)
    given = SchemaReader(problems, _HINTS).read(_BINDING, _with_names(written), "binding") if written is not None else {}
    problems.raise_any()
    name = given.get("name", DEFAULT_NAME)
    if not SUBDOMAIN.fullmatch(name):
        problems.add("binding.name", f"{quoted(name)} is not a DNS-1123 name (lower-case letters, digits, '-' and '.')")
    refs = _cluster_refs(problems, _names(written), hosts, least=1 if leaving else 2)
    topology = _topology(problems, given.get("topology", {}), refs)
    waivers = tuple(_waivers(problems, given, refs))
    problems.raise_any()
    place: dict[str, Any] = {key: given.get(key, "") for key in PLACE}
    choices: dict[str, Any] = {
        "node_addresses": given.get("nodeAddresses", ""),
        "trust": _TRUST.get(given.get("trust", ""), ""),
        "waivers": waivers,
    }
    config = _mesh_config(given.get("meshConfig", {}))
    binding = Binding(name=name, cluster_refs=refs, topology=topology, generation=generation, **place, **choices, **config)
    return Mesh(binding=binding, item_lists=tuple(kind for kind in ItemKind if top.get(kind)))


def missing_paths(raw: Any) -> tuple[str, ...]:
    """Return what a mesh needs and the variable does not say, as paths; () if both are there or the variable has a wrong form."""
    binding = raw.get("binding") if isinstance(raw, Mapping) else raw
    if binding is not None and not isinstance(binding, Mapping):
        return ()
    return tuple(f"cilium_mesh.binding.{key}" for key in ("name", "clusterRefs") if (binding or {}).get(key) is None)


def names_all(written: Any) -> bool:
    """Return whether a binding says ``clusterRefs: all``."""
    return isinstance(written, Mapping) and written.get("clusterRefs") == ALL


def _with_names(written: Any) -> Any:
    """Return the binding as the schema has it: each of ``clusterRefs`` a mapping, where a file may have the name alone, or ``all``."""
    if not isinstance(written, Mapping):
        return written
    found = {key: value for key, value in written.items() if key != "generation"}
    refs = found.get("clusterRefs")
    if names_all(written):
        del found["clusterRefs"]
    elif is_list(refs):
        found["clusterRefs"] = [{"name": entry} if isinstance(entry, str) else entry for entry in refs or ()]
    return found


def _names(written: Any) -> list[tuple[str, str]] | None:
    """Return (path as its author wrote it, name) of each of ``clusterRefs``, which have their structure; None without any."""
    refs = written.get("clusterRefs") if written is not None else None
    if refs is None or names_all(written):
        return None
    paths = [(f"{_REFS}[{place}]", entry) for place, entry in enumerate(refs)]
    return [(path, str(entry)) if isinstance(entry, str) else (f"{path}.name", str(entry["name"])) for path, entry in paths]


def _cluster_refs(problems: Problems, given: list[tuple[str, str]] | None, inventory: tuple[str, ...], *, least: int) -> tuple[str, ...]:
    names = [(f"inventory host {host}", host) for host in inventory] if given is None else given
    first: dict[str, str] = {}
    for where, name in names:
        if name in first:
            problems.add(where, f"{quoted(name)} is named twice; the first is {first[name]}")
            continue
        first[name] = where
        if name not in inventory:
            problems.add(where, f"{quoted(name)} is not in the inventory; {suggest(name, inventory, 'it has')}")
        elif not SUBDOMAIN.fullmatch(name):
            problems.add(where, f"{quoted(name)} is not a DNS-1123 name, as every KubernetesCluster's is; rename the inventory host")
    if len(first) < least:
        where = _REFS if given is not None else "the inventory"
        problems.add(where, f"a mesh needs at least two clusters, and there {'is one' if first else 'are none'}")
    return tuple(first)


def _topology(problems: Problems, given: Mapping[str, Any], members: tuple[str, ...]) -> Topology:
    path, mode = "binding.topology", Mode(given.get("mode", Mode.FULL_MESH))
    for key, wanted in (("hubs", Mode.HUB_AND_SPOKE), ("pairs", Mode.PAIRS)):
        if mode is wanted and key not in given:
            problems.add(f"{path}.{key}", f"is missing; mode {mode} needs it")
        elif mode is not wanted and key in given:
            problems.add(f"{path}.{key}", f"belongs to mode {wanted}, and the mode is {mode}; remove it, or change the mode")
    hubs = _hubs(problems, f"{path}.hubs", given.get("hubs", ()), members) if mode is Mode.HUB_AND_SPOKE else ()
    pairs = _pairs(problems, f"{path}.pairs", given.get("pairs", ()), members) if mode is Mode.PAIRS else ()
    return Topology(mode=mode, hubs=hubs, pairs=pairs)


def _hubs(problems: Problems, path: str, given: Sequence[str], members: tuple[str, ...]) -> tuple[str, ...]:
    found: dict[str, str] = {}
    for place, hub in enumerate(given):
        where = f"{path}[{place}]"
        if hub in found:
            problems.add(where, f"{quoted(hub)} is named twice; the first is {found[hub]}")
        elif _is_member(problems, where, hub, members):
            found[hub] = where
    return tuple(found)


def _pairs(problems: Problems, path: str, given: Sequence[Sequence[str]], members: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    found: dict[frozenset[str], str] = {}
    pairs: list[tuple[str, str]] = []
    for place, (one, other) in enumerate(given):
        where = f"{path}[{place}]"
        known = [_is_member(problems, f"{where}[{side}]", name, members) for side, name in enumerate((one, other))]
        if not all(known):
            continue
        if one == other:
            problems.add(where, f"{quoted(one)} cannot be linked with itself")
        elif frozenset((one, other)) in found:
            problems.add(where, f"{quoted(one)} and {quoted(other)} are a pair already; the first is {found[frozenset((one, other))]}")
        else:
            found[frozenset((one, other))] = where
            pairs.append((one, other))
    return tuple(pairs)


def _waivers(problems: Problems, given: Mapping[str, Any], members: tuple[str, ...]) -> Iterator[Waiver]:
    for kind, key in _SUBJECTS.items():
        found: dict[str, str] = {}
        entries = given.get(kind, []) if key else [given[kind]] if kind in given else []
        for place, entry in enumerate(entries):
            path = f"binding.{kind}[{place}]" if key else f"binding.{kind}"
            if not {"reason", "until"} <= entry.keys():
                problems.add(path, "a waiver needs a reason and an end (until)")
                continue
            subject = entry[key] if key else ""
            if subject in found:
                problems.add(f"{path}.{key}", f"{quoted(subject)} is named twice; the first is {found[subject]}")
            elif kind is WaiverKind.TAKE_BACK:
                _is_member(problems, f"{path}.{key}", subject, members)
            found.setdefault(subject, path)
            until = parse_time(entry["until"])
            if until is None:
                problems.add(f"{path}.until", f"{quoted(entry['until'])} is no time that exists")
            else:
                yield Waiver(kind=kind, subject=subject, reason=entry["reason"], until=until)


def _is_member(problems: Problems, path: str, name: str, members: tuple[str, ...]) -> bool:
    if name not in members:
        problems.add(path, f"{quoted(name)} is no member of the mesh; {suggest(name, members, 'its members are')}")
    return name in members


def _mesh_config(given: Mapping[str, Any]) -> dict[str, Any]:
    hubble = given.get("hubble", {})
    return {
        "service_type": given.get("serviceType"),
        "enable_kvstoremesh": given.get("enableKvStoreMesh"),
        "hubble_enabled": hubble.get("enabled"),
        "hubble_ui": hubble.get("ui"),
    }
