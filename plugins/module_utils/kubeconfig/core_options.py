# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Options by which modules of kubernetes.core reach a cluster, as a kubeconfig: a mapping of them, or the variables K8S_AUTH_*.

The names are those of kubernetes.core (plugins/module_utils/args_common.py), and a test compares them; ``tls_server_name`` is ours. Beside
a kubeconfig, an option replaces what kubectl's flag of that meaning replaces (client-go, tools/clientcmd/client_config.go).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ..base.input_problems import clip, suggest
from .chosen import Chosen, choose
from .document import parse_kubeconfig
from .fields import Check, WrongValue, many, text
from .invalid import KubeconfigInvalid
from .whole import kubeconfig_of

PREFIX: Final = "K8S_AUTH_"
ALIASES: Final = {"verify_ssl": "validate_certs", "ssl_ca_cert": "ca_cert", "cert_file": "client_cert", "key_file": "client_key"}
"""Other names of options."""
REFUSED: Final = {
    "no_proxy": "the proxy of a kubeconfig counts for its server whatever no_proxy says; leave out proxy for a cluster that needs none",
    "proxy_headers": "no headers are sent to a proxy; write user and password into the URL of proxy, as http://user:password@proxy:3128",
    "persist_config": "a token that is renewed is never written to a file; leave it out",
}
"""Options that have no effect here, and so are refused where they have a value, with the reason and the remedy."""
_TRUE: Final = frozenset({"true", "yes", "on", "1", "y", "t"})
_FALSE: Final = frozenset({"false", "no", "off", "0", "n", "f"})
_INSECURE: Final = "insecure-skip-tls-verify"
_FILES: Final = {"ca_cert": "certificate-authority", "client_cert": "client-certificate", "client_key": "client-key"}
_PEM: Final = "-----BEGIN "
_PAIRS: Final = (("username", "password"), ("client_cert", "client_key"))
_WAYS: Final = (
    *("token", "tokenFile", "username", "password", "exec", "auth-provider"),
    *("client-certificate", "client-certificate-data", "client-key", "client-key-data"),
)
"""Fields of a user by which it authenticates."""
_PERSONA: Final = ("as", "as-uid", "as-groups", "as-user-extra")


class OptionsInvalid(ValueError):
    """Options that cannot be used. Safe to print: the problems name options, and repeat no value.

    :param problems: clauses, each with the name of its option.
    """

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


@dataclass(frozen=True)
class Given:
    """Option as it was given. ``shown``: its name for messages, such as ``cilium_mesh_auth.host`` or ``K8S_AUTH_HOST``."""

    shown: str
    name: str
    value: Any = field(repr=False)


@dataclass(frozen=True)
class AuthOptions:
    """Checked options. ``kubeconfig``: paths, text or document, None without one; ``values``: the others by their names."""

    kubeconfig: Any = field(default=None, repr=False)
    context: str = ""
    values: Mapping[str, Any] = field(default_factory=dict, repr=False)


def given_in(options: Mapping[Any, Any], variable: str) -> tuple[Given, ...]:
    """Return the options of a mapping. ``variable``: its name."""
    return tuple(Given(f"{variable}.{clip(str(name))}", str(name), value) for name, value in options.items())


def given_by(environment: Mapping[str, str]) -> tuple[Given, ...]:
    """Return the options that K8S_AUTH_* of an environment say; one that is empty says nothing, as for kubernetes.core."""
    found = []
    for variable, value in environment.items():
        if variable.startswith(PREFIX) and value:
            name = variable.removeprefix(PREFIX).lower()
            found.append(Given(clip(variable), "proxy_headers" if name.startswith("proxy_headers_") else name, value))
    return tuple(found)


def read_options(given: Iterable[Given]) -> AuthOptions:
    """Check options by themselves and together. A value that is null or empty counts as not there.

    :raises OptionsInvalid: with every problem, when an option is not known, has a wrong value, or has no effect here, or when the options
        do not say how a cluster is reached.
    """
    problems: list[str] = []
    values: dict[str, Any] = {}
    for option in given:
        name = ALIASES.get(option.name, option.name)
        if name not in NAMES:
            by_variable = option.shown.startswith(PREFIX)
            known = [f"{PREFIX}{other.upper()}" if by_variable else other for other in sorted(NAMES)]
            problems.append(f"{option.shown} is not known; {suggest(option.shown if by_variable else option.name, known, 'there are')}")
            continue
        if option.value is None or option.value in ("", [], {}):
            continue
        try:
            value = CHECKS[name](option.value)
        except WrongValue as wrong:
            problems.append(f"{option.shown}{wrong.place} {wrong.why}")
            continue
        if name in values and values[name] != value:
            problems.append(f"{option.shown} and another name of the same option have two values; remove one of them")
        values[name] = value
    problems += _incomplete(values)
    if problems:
        raise OptionsInvalid(*problems)
    values.pop("persist_config", None)
    return AuthOptions(values.pop("kubeconfig", None), values.pop("context", ""), values)


def kubeconfig_with(options: AuthOptions, base: Chosen | None, placed: Callable[[str], str | bytes]) -> dict[str, Any]:
    """Return the document of a kubeconfig for the options.

    :param base: what their kubeconfig and context choose, which they change; None without one.
    :param placed: returns the absolute path of a file, or what the file holds.
    :raises OptionsInvalid: when kubectl would not use the kubeconfig.
    """
    values = options.values
    files = dict(item for name, key in _FILES.items() if name in values for item in [_file(key, values[name], placed)])
    cluster = {key: values[name] for name, key in _CLUSTER.items() if name in values}
    user = {key: values[name] for name, key in _USER.items() if name in values}
    for key, content in files.items():
        (cluster if key.startswith("certificate-authority") else user)[key] = content
    if not values.get("validate_certs", True):
        cluster[_INSECURE] = True
    document = kubeconfig_of(_changed_cluster(base, values, cluster), _changed_user(base, user))
    try:
        choose(parse_kubeconfig(document, None))
    except KubeconfigInvalid as invalid:
        names = {**_CLUSTER, **_USER, **_FILES, "validate_certs": _INSECURE}
        meant = [f"{key} is {name}" for name, key in names.items() if name in values and key in invalid.what]
        raise OptionsInvalid(f"as a kubeconfig, it {invalid.what}" + (f" ({', '.join(meant)})" if meant else "")) from None
    return document


def _changed_cluster(base: Chosen | None, values: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    gone = set(given)
    if "host" in values:
        gone.add("tls-server-name")  # that of the server in the kubeconfig
    if "ca_cert" in values or given.get(_INSECURE):
        gone |= {"certificate-authority", "certificate-authority-data", _INSECURE}
    if "validate_certs" in values:
        gone.add(_INSECURE)
    return {**_without(base.cluster if base else {}, gone), **given}


def _changed_user(base: Chosen | None, given: Mapping[str, Any]) -> dict[str, Any]:
    gone = set(given)
    if gone.intersection(_WAYS):
        gone.update(_WAYS)  # a request is not to have two identities
    if "as" in given:
        gone.update(_PERSONA)
    return {**_without(base.user if base else {}, gone), **given}


def _without(entry: Mapping[str, Any], gone: set[str]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key not in gone}


def _file(key: str, value: str, placed: Callable[[str], str | bytes]) -> tuple[str, str | bytes]:
    """Return the field, and its value: a path, or what stands in the option itself or in an encrypted file."""
    found = value.encode() if _PEM in value else placed(value)
    return (f"{key}-data" if isinstance(found, bytes) else key), found


def _incomplete(values: Mapping[str, Any]) -> list[str]:
    """Return what is missing. kubernetes.core would take it from ``~/.kube/config``, and so send its credentials to another server."""
    found = [
        f"{one} is there without {other}" for pair in _PAIRS for one, other in (pair, pair[::-1]) if one in values and other not in values
    ]
    kubeconfig = "kubeconfig" in values or "context" in values
    if "host" not in values and not kubeconfig:
        found.append("it names no cluster: host is missing, and so are kubeconfig and context")
    credentials = "api_key" in values or any(name in values for pair in _PAIRS for name in pair)
    if "host" in values and not kubeconfig and not credentials and not values["host"].startswith("http://"):
        found.append("host is there without credentials: add api_key, client_cert and client_key, username and password, or kubeconfig")
    return found


def _truth(value: Any) -> bool:
    word = str(value).lower() if isinstance(value, (bool, int, str)) else ""
    if word not in _TRUE | _FALSE:
        raise WrongValue("is neither true nor false")
    return word in _TRUE


def _texts(value: Any) -> list[str]:
    found: list[str] = [part.strip() for part in value.split(",")] if isinstance(value, str) else many(text)(value)
    return [entry for entry in found if entry]


def _server(value: Any) -> str:
    return text(value).rstrip("/")


def _source(value: Any) -> Any:
    if not isinstance(value, (str, Mapping)):
        raise WrongValue("must be a path, a text or a mapping")
    return value


def _refused(why: str) -> Check:
    def checked(_value: Any) -> Any:
        raise WrongValue(f"cannot be used: {why}")

    return checked


def _not_persisted(value: Any) -> bool:
    if _truth(value):
        raise WrongValue(f"cannot be used: {REFUSED['persist_config']}")
    return False


_CLUSTER: Final = {"host": "server", "proxy": "proxy-url", "tls_server_name": "tls-server-name"}
_USER: Final = {
    "api_key": "token",
    "username": "username",
    "password": "password",
    "impersonate_user": "as",
    "impersonate_groups": "as-groups",
}
CHECKS: Final[Mapping[str, Check]] = {
    **dict.fromkeys((*_CLUSTER, *_USER, *_FILES, "context"), text),
    **{name: _refused(why) for name, why in REFUSED.items()},
    "host": _server,
    "impersonate_groups": _texts,
    "kubeconfig": _source,
    "persist_config": _not_persisted,
    "validate_certs": _truth,
}
NAMES: Final = frozenset(CHECKS)
"""Names of all options, those among them that are refused."""
