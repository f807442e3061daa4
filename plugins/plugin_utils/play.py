# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Reader of a play's variables: which clusters take part, how each is reached, and which mesh the binding describes.

Pure: it knows the names of Ansible's variables and imports nothing of Ansible. Texts lose Ansible's tags here, so that the engine never
holds a template.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Any, Final

from ..module_utils.base.errors import InvalidInput
from ..module_utils.base.input_problems import sentence
from ..module_utils.base.redact import one_line
from ..module_utils.kubeconfig.access import ClusterAccess
from ..module_utils.mesh.binding.model import Binding, Mesh
from ..module_utils.mesh.binding.parse import DEFAULT_NAME, missing_paths, names_all, parse
from ..module_utils.mesh.endpoints.names import canonical_name, is_endpoint_domain
from ..module_utils.pipeline.participants import left_out
from ..module_utils.services.annotations import can_be_permitted
from .host_credentials import AUTH, CONTEXT, KUBECONFIG, KUBECONFIG_FROM, HostCredentials
from .structured_text import NotStructured, structured

NAMESPACE: Final = "cilium_mesh_namespace"
ENDPOINT_OVERRIDE: Final = "cilium_mesh_endpoint_override"
ENDPOINT_DOMAINS: Final = "cilium_mesh_endpoint_domains"
ENDPOINT_NETWORKS: Final = "cilium_mesh_endpoint_networks"
DENIED_NETWORKS: Final = "cilium_mesh_denied_networks"
ALLOWED_ANNOTATIONS: Final = "cilium_mesh_allowed_annotations"
ELB_ID: Final = "cilium_mesh_elb_id"
UNAVAILABLE: Final = "cilium_mesh_unavailable"
DEFAULT_NAMESPACE: Final = "kube-system"
HOST_VARIABLES: Final = (
    KUBECONFIG,
    KUBECONFIG_FROM,
    CONTEXT,
    AUTH,
    NAMESPACE,
    ENDPOINT_OVERRIDE,
    ENDPOINT_DOMAINS,
    ENDPOINT_NETWORKS,
    DENIED_NETWORKS,
    ALLOWED_ANNOTATIONS,
    ELB_ID,
    UNAVAILABLE,
)
"""Every variable of a host that the collection reads (docs/inventory.md)."""

NEEDS_HOSTS: Final = "mesh_needs_hosts"
"""Variable by which the plays of this collection's playbooks say that they run on localhost only where no host matches."""

_LOCALHOST: Final = ("localhost", "127.0.0.1", "::1")  # by which Ansible makes a host that no inventory has (constants.py, LOCALHOST)
_NAMES_SHOWN: Final = 10
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def _cannot_decrypt(path: str) -> str:
    raise LookupError(f"No secret of ansible-vault is known for {path}.")


def _reads_no_secret(host: str, _value: Any, _folder: str) -> Mapping[str, Any] | str:
    raise InvalidInput(f"{host}: {KUBECONFIG_FROM} is not read here")


@dataclass(frozen=True, kw_only=True)
class Play:
    """Hosts of a play and their variables. ``hosts`` are those that take part (after --limit), ``inventory`` all there are.

    ``decrypted`` returns the text of a file that ansible-vault encrypted, by its path, and raises anything. ``from_secret`` returns the
    kubeconfig that the variable ``cilium_mesh_kubeconfig_from`` of a host names, see SecretKubeconfigs. K8S_AUTH_* of ``environment``
    may describe one cluster; without it, as in the operator, no cluster is reached by the environment of a process. ``on_controller``: the
    play runs on localhost, which is no cluster, as plays of kubernetes.core do; then every other host of the inventory takes part.
    """

    hosts: tuple[str, ...]
    inventory: tuple[str, ...]
    limit: str
    hostvars: Mapping[str, Mapping[str, Any]]
    decrypted: Callable[[str], str] = _cannot_decrypt
    from_secret: Callable[[str, Any, str], Mapping[str, Any] | str] = _reads_no_secret
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    on_controller: bool = False

    def access(self, names: Sequence[str]) -> tuple[ClusterAccess, ...]:
        """Return how each cluster is reached, in the order of ``names``.

        :raises InvalidInput: when variables of a host are missing or of the wrong type; it lists every such host.
        """
        return accesses(self, names)

    def own_variables(self) -> dict[str, Iterable[str]]:
        """Return the names of the variables of each host that takes part, without rendering any template."""
        return {host: self.hostvars[host] for host in self.hosts if host in self.hostvars}


class _ReadOnce(Mapping[str, Mapping[str, Any]]):
    """Variables of hosts, each host's read once: Ansible merges all sources of a host's variables anew at each access, in about 10 ms.

    https://github.com/ansible/ansible/blob/v2.19.0/lib/ansible/vars/hostvars.py
    """

    def __init__(self, hostvars: Mapping[str, Mapping[str, Any]]) -> None:
        self._hostvars = hostvars
        self._read: dict[str, Mapping[str, Any]] = {}

    def __getitem__(self, host: str) -> Mapping[str, Any]:
        if host not in self._read:
            self._read[host] = self._hostvars[host]
        return self._read[host]

    def __contains__(self, host: object) -> bool:
        return host in self._hostvars

    def __iter__(self) -> Iterator[str]:
        return iter(self._hostvars)

    def __len__(self) -> int:
        return len(self._hostvars)


def play_of(
    task_vars: Mapping[str, Any],
    decrypted: Callable[[str], str] = _cannot_decrypt,
    from_secret: Callable[[str, Any, str], Mapping[str, Any] | str] = _reads_no_secret,
    environment: Mapping[str, str] | None = None,
) -> Play:
    """Read hosts, limit and host variables from the variables of a task."""
    hosts = tuple(str(host) for host in task_vars.get("ansible_play_hosts_all", ()))
    inventory = tuple(str(host) for host in task_vars.get("groups", {}).get("all", ()))
    hostvars = _ReadOnce(task_vars.get("hostvars", {}))
    # The playbooks of this collection run on localhost to fail there, where their pattern matches no host.
    on_controller = len(hosts) == 1 and hosts[0] in _LOCALHOST and not task_vars.get(NEEDS_HOSTS)
    on_controller = on_controller and not (hosts[0] in inventory and _is_cluster(hosts[0], hostvars, decrypted))
    return Play(
        decrypted=decrypted,
        from_secret=from_secret,
        environment=environment or {},
        hosts=tuple(host for host in inventory if host != hosts[0]) if on_controller else hosts,
        inventory=inventory,
        limit=one_line(str(task_vars.get("ansible_limit") or ""), 80),
        hostvars=hostvars,
        on_controller=on_controller,
    )


def mesh_of(play: Play, raw: Any, *, limited: bool = False, leaving: bool = False) -> Mesh:
    """Parse the mesh that ``cilium_mesh`` describes.

    :param raw: value of the variable ``cilium_mesh``.
    :param limited: --limit, or the hosts pattern of the play, may leave out members, which the caller then does not contact. If false, a
        play that leaves out a member is refused, so that no change is made in half of the members.
    :param leaving: the mesh is to be taken away: of its members one may be left.
    :raises InvalidInput: when the variable is not valid, does not say the name and the members of the mesh, or a member that is needed
        does not take part in the play.
    """
    require_hosts(play)
    raw = plain(raw)
    missing = missing_paths(raw)
    if missing:
        if raw is not None:
            parse(raw, play.inventory)  # for its errors: a key that is spelled wrong is named first
        raise _not_said(play, missing)
    if not _names_members(raw):
        return _mesh_of_all_hosts(play, raw)
    mesh = parse(raw, play.inventory, leaving=leaving)
    cut = left_out(play, mesh)
    if len(cut) == len(mesh.clusters):
        raise InvalidInput(f"{_limit_phrase(play)} leaves out every member of the mesh.", remedy="Let it name at least one of them.")
    if cut and not limited:
        why = _limit_phrase(play)
        raise InvalidInput(
            f"{why} leaves out {_listed(cut)}, which cilium_mesh.binding.clusterRefs names; a mesh is observed and changed as a whole.",
            remedy="Run with every member.",
        )
    return mesh


def mesh_to_verify(play: Play, raw: Any) -> tuple[Mesh, bool]:
    """Return the mesh to verify, and whether no binding says it: then it is every host of the play, before any mesh exists.

    :raises InvalidInput: as ``mesh_of``.
    """
    if plain(raw) is not None:
        return mesh_of(play, raw, limited=True), False
    require_hosts(play)
    return _mesh_of_all_hosts(play, None), True


def _mesh_of_all_hosts(play: Play, raw: Any) -> Mesh:
    _require_named(play)
    if play.limit:
        raise InvalidInput(
            f'With --limit "{play.limit}" the members of the mesh are not known: cilium_mesh.binding.clusterRefs does not name them.',
            remedy="Run without --limit, or name the members in clusterRefs.",
        )
    return parse(raw, play.hosts)


def _require_named(play: Play) -> None:
    """Refuse to take every host of the play for a member where the play has none of them."""
    if play.on_controller:
        raise InvalidInput(
            "The play runs on localhost, which is no member of the mesh, and cilium_mesh.binding.clusterRefs does not name the members.",
            remedy="Name the members in clusterRefs, or run the play on the hosts that are the members.",
        )


def _not_said(play: Play, missing: Sequence[str]) -> InvalidInput:
    """Return the error that a mesh needs its name and its members, with the lines to write."""
    named = " and ".join(missing)
    return InvalidInput(
        f"{named} {'are' if len(missing) > 1 else 'is'} not set: a mesh needs its name and its members.",
        remedy="Write these lines, for instance to mesh.yml, and add -e @mesh.yml (clusterRefs: all means every host of the play):\n"
        f"cilium_mesh:\n  binding:\n    name: edge-mesh-eu\n    clusterRefs: [{', '.join(play.inventory[:_NAMES_SHOWN])}]",
    )


def _limit_phrase(play: Play) -> str:
    return f'--limit "{play.limit}"' if play.limit else "the hosts pattern of the play"


def lone_clusters(play: Play, raw: Any) -> Mesh:
    """Return the clusters of the play as a mesh without links, to observe each by itself. --limit may choose among the members.

    :raises InvalidInput: when the variable is not valid, or no member takes part in the play.
    """
    require_hosts(play)
    raw = plain(raw)
    hosts = play.hosts
    if _names_members(raw):
        named = parse(raw, play.inventory).clusters
        hosts = tuple(name for name in named if name in play.hosts)
        if not hosts:
            raise InvalidInput("No member of the mesh takes part in the play.", remedy="Run without --limit.")
        return Mesh(binding=Binding(name=DEFAULT_NAME, cluster_refs=hosts))
    if raw is not None and len(hosts) > 1:
        parse(raw, hosts)  # for its errors
    _require_named(play)
    return Mesh(binding=Binding(name=DEFAULT_NAME, cluster_refs=hosts))


def require_hosts(play: Play) -> None:
    """Refuse a play without hosts, so that an empty inventory is an error and not a success.

    :raises InvalidInput: when no host of the inventory takes part, or --limit chooses among the hosts of a play that has none of them.
    """
    strangers = [host for host in play.hosts if host in _LOCALHOST and host not in play.inventory]  # made by Ansible for the play
    if len(strangers) == len(play.hosts):
        raise InvalidInput(
            "No host of the inventory takes part in this play.",
            remedy="Give an inventory with -i in which every host is a cluster; a message above names a source that could not be read.",
        )
    if play.on_controller and play.limit:
        raise InvalidInput(
            f'--limit "{play.limit}" chooses among the hosts of a play, and this one runs on localhost for the clusters of clusterRefs.',
            remedy="Run without --limit, or run the play on the hosts that are the members.",
        )


def accesses(play: Play, names: Sequence[str]) -> tuple[ClusterAccess, ...]:
    """Return how each cluster is reached, in the order of ``names``.

    :raises InvalidInput: when variables of a host are missing or of the wrong type; it lists every such host.
    """
    found: list[ClusterAccess] = []
    problems: list[str] = []
    for name in names:
        try:
            found.append(_access(name, _HostVariables(name, play.hostvars[name]), play))
        except InvalidInput as error:
            problems.append(error.message)
    if problems:
        raise InvalidInput(sentence(problems), remedy="See docs/inventory.md for the variables of a host.")
    return tuple(found)


_UNTAGGED: Final = frozenset((str, int, float, bool, type(None)))


def plain(value: Any) -> Any:
    """Return ``value`` without the tags that ansible-core 2.19 puts on strings, mappings and lists."""
    if type(value) in _UNTAGGED:  # most values; a tagged one has a class of its own
        return value
    if isinstance(value, Mapping):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    for kind in (str, int, float):  # numbers have tags too, and a tagged one cannot be written as YAML
        if isinstance(value, kind) and not isinstance(value, bool):
            return kind(value)
    return value


class _HostVariables:
    """Variables of one host. Reading one renders its template, which may fail; the error names the variable and not its value."""

    def __init__(self, host: str, variables: Mapping[str, Any]) -> None:
        self._host = host
        self._variables = variables

    def get(self, name: str) -> Any:
        try:
            return plain(self._variables.get(name))
        except Exception as error:  # templates may call any lookup, and its errors may quote the values that it read
            kind = type(error).__name__
            detail = f": {one_line(str(error), 120)}" if kind == "AnsibleUndefinedVariable" else f" ({kind})"
            raise InvalidInput(f"{self._host}: {name} cannot be templated{detail}") from None

    def given(self, name: str) -> bool:
        """Return whether a variable has a value; one that cannot be rendered has."""
        try:
            return self.get(name) not in (None, "")
        except InvalidInput:
            return True

    def text(self, name: str, default: str) -> str:
        value = self.get(name)
        if value is None or value == "":
            return default
        if not isinstance(value, str):
            raise InvalidInput(f"{self._host}: {name} must be a text")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts; () where there is none. A single text is a list of one."""
        value = self.get(name)
        if value is None or value == "":
            return ()
        try:
            said = structured(value, "list") if isinstance(value, str) else value
        except NotStructured as error:
            raise InvalidInput(f"{self._host}: {name} {error}") from None
        listed = [said] if isinstance(said, str) else said
        if not isinstance(listed, list) or not all(isinstance(entry, str) for entry in listed):
            raise InvalidInput(f"{self._host}: {name} must be a list of texts")
        return tuple(listed)


def _access(host: str, variables: _HostVariables, play: Play) -> ClusterAccess:
    unavailable = one_line(variables.text(UNAVAILABLE, ""), 400)
    kubeconfig: str | Mapping[str, Any] | None = None
    context: str | None = None
    if not unavailable:
        credentials = HostCredentials(host=host, get=variables.get, decrypted=play.decrypted)
        if (reference := credentials.secret) is not None:
            found, context = play.from_secret(host, reference, credentials.folder), variables.text(CONTEXT, "") or None
            kubeconfig, unavailable = (None, found) if isinstance(found, str) else (found, "")
        else:
            kubeconfig, context = credentials.reached(play.environment, lambda: _without_credentials(play))
    return ClusterAccess(
        host=host,
        kubeconfig=kubeconfig,
        context=context,
        namespace=variables.text(NAMESPACE, DEFAULT_NAMESPACE),
        endpoint_override=variables.text(ENDPOINT_OVERRIDE, ""),
        endpoint_domains=_endpoint_domains(host, variables),
        endpoint_networks=_networks(host, variables, ENDPOINT_NETWORKS),
        denied_networks=_networks(host, variables, DENIED_NETWORKS),
        allowed_annotations=_allowed_annotations(host, variables),
        elb_id=_elb_id(host, variables),
        unavailable=unavailable,
    )


def _is_cluster(host: str, hostvars: Mapping[str, Mapping[str, Any]], decrypted: Callable[[str], str]) -> bool:
    """Return whether a variable of a host says how a cluster is reached, or that it cannot be."""
    variables = _HostVariables(host, hostvars.get(host, {}))
    return HostCredentials(host=host, get=variables.get, decrypted=decrypted).has_own or variables.given(UNAVAILABLE)


def _without_credentials(play: Play) -> tuple[str, ...]:
    """Return the hosts that no variable says how to reach.

    Those that a limit leaves out are among them: else the environment would be another cluster with another limit.
    """
    considered = play.inventory if play.limit else play.hosts
    return tuple(host for host in considered if not _is_cluster(host, play.hostvars, play.decrypted))


def _elb_id(host: str, variables: _HostVariables) -> str:
    """Return the id of the load balancer. Only a UUID is valid, as a cloud provider acts on the annotation made from it."""
    value = variables.text(ELB_ID, "")
    if value and not _UUID.fullmatch(value):
        raise InvalidInput(f"{host}: {ELB_ID} must be the id of a load balancer, such as 41fae315-2964-49c4-afde-bc6d358cd031")
    return value.lower()


def _allowed_annotations(host: str, variables: _HostVariables) -> tuple[str, ...]:
    """Return the keys of annotations that items may set on Services of the cluster. There are no patterns: each key is a decision."""
    keys = variables.texts(ALLOWED_ANNOTATIONS)
    for key in keys:
        if not can_be_permitted(key):
            raise InvalidInput(
                f"{host}: {ALLOWED_ANNOTATIONS} must list keys of annotations with a domain, such as example.com/team, and none of this "
                f"collection's own; {one_line(key, 80)!r} is none"
            )
    return keys


def _endpoint_domains(host: str, variables: _HostVariables) -> tuple[str, ...]:
    """Return the domains, each canonical."""
    domains = variables.texts(ENDPOINT_DOMAINS)
    for domain in domains:
        if not is_endpoint_domain(domain):
            raise InvalidInput(
                f"{host}: {ENDPOINT_DOMAINS} must list domains such as mesh.example.com; names below {one_line(domain, 80)!r} "
                "have a meaning inside clusters, or it is no domain"
            )
    return tuple(canonical_name(domain) for domain in domains)


def _networks(host: str, variables: _HostVariables, name: str) -> tuple[str, ...]:
    """Return the ranges of a variable, each in its canonical spelling."""
    try:
        return tuple(str(ip_network(text)) for text in variables.texts(name))
    except ValueError:
        raise InvalidInput(f"{host}: {name} must list ranges such as 127.0.0.0/8 or 169.254.1.0/24") from None


def _names_members(raw: Any) -> bool:
    """Return whether ``cilium_mesh`` names members one by one.

    Values of a wrong form count as naming them, so that ``parse`` reports the error.
    """
    if raw is None:
        return False
    if not isinstance(raw, Mapping):
        return True
    binding = raw.get("binding")
    if names_all(binding):
        return False
    return binding is not None and (not isinstance(binding, Mapping) or binding.get("clusterRefs") is not None)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return ", ".join(names[:_NAMES_SHOWN]) + more
