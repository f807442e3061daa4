# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The options of modules, roles and playbooks, each from its one source.

The source of an option is the documentation of its module (plugins/modules, plugins/doc_fragments). A role or playbook hands a variable to
an option of a module in its tasks, and so the variable has the text, type, choices and default of the option. What no module has, such as
``cilium_mesh_hosts``, stands in docs/variables.yml.

``python -m tests.testing.options --write`` writes what is made of it: plugins/plugin_utils/arguments.py, the options and defaults of the
roles, and docs/variables.md. A unit test holds that all of it is current.
"""

from __future__ import annotations

import functools
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.yaml_reader import load_yaml
from tests.collection_path import CHECKOUT, link

COLLECTION: Final = "edge_portal.cilium_mesh"
ARGUMENTS: Final = CHECKOUT / "plugins" / "plugin_utils" / "arguments.py"
PAGE: Final = CHECKOUT / "docs" / "variables.md"
OWN: Final = CHECKOUT / "docs" / "variables.yml"
WIDTH: Final = 140
_NAME: Final = "tests.testing.options"
SETUPS: Final = ("kcp_setup", "label_clusters")
"""Playbooks that run no action of the collection; their variables begin with their names."""

SHARED: Final = ("fleet",)
"""Variables of several roles that do not begin with a name of the collection."""

_SPDX: Final = "SPDX-License-" + "Identifier"  # in two parts, so that reuse does not take it for this file's own
HEADER: Final = "".join(
    f"# {line}\n" for line in ("Copyright: Contributors to the edge_portal.cilium_mesh project", f"{_SPDX}: Apache-2.0")
)
STRUCTURE: Final = ("type", "elements", "choices", "required", "default")
RANGE: Final = re.compile(r"From V\((?P<least>[\d.]+)\) to V\((?P<most>[\d.]+)\)\.")
"""The sentence that says the range of a number; documentation of modules has no key for it."""
ABOVE: Final = re.compile(r"More than O\((?P<other>\w+)\)\.")
"""The sentence that says than which other number of the module a number has to be more."""

Option = Mapping[str, Any]


class Handed(NamedTuple):
    """A variable that a task hands to an option of a module. ``default``: what the task gives where the variable is not set, as written."""

    variable: str
    module: str
    option: str
    default: str


# --- modules ---------------------------------------------------------------------------------------------------------------------------


@functools.cache
def modules() -> dict[str, dict[str, Option]]:
    """Return module name -> option name -> its documentation, with what the module takes from fragments."""
    fragments = import_module(f"ansible_collections.{COLLECTION}.plugins.doc_fragments._mesh").ModuleDocFragment
    found = {}
    for path in sorted((CHECKOUT / "plugins" / "modules").glob("*_*.py")):
        doc = load_yaml(import_module(f"ansible_collections.{COLLECTION}.plugins.modules.{path.stem}").DOCUMENTATION)
        options: dict[str, Option] = dict(doc.get("options") or {})
        for name in doc.get("extends_documentation_fragment", []):
            plugin, _, part = name.removeprefix(f"{COLLECTION}.").partition(".")
            if plugin == "_mesh":
                text = getattr(fragments, part.upper() or "DOCUMENTATION")
                options = {**load_yaml(text)["options"], **options}  # as Ansible does it: the module's own text wins
        found[path.stem] = dict(sorted(options.items()))
    return found


def arguments_file() -> str:
    """Return the text of plugin_utils/arguments.py: what every action accepts, without the words. What two actions share is there once."""
    every = {
        module: {name: {key: option[key] for key in STRUCTURE if key in option} | bounds_of(option) for name, option in options.items()}
        for module, options in modules().items()
    }
    times = Counter((name, _python(spec)) for options in every.values() for name, spec in options.items())
    shared = {name: text for (name, text), number in reversed(times.most_common()) if number > 1}  # of several forms the commonest
    lines = [
        HEADER,
        f'"""What each action accepts. Made from the documentation of the modules by ``python -m {_NAME} --write``; change that."""\n\n',
        "from __future__ import annotations\n\nfrom collections.abc import Mapping\nfrom typing import Final\n\n",
        "from .option_words import Spec, names_of, options_of, variables_of\n\n",
        "_SHARED: Final[Spec] = {\n",
        *(f'    "{name}": {text},\n' for name, text in sorted(shared.items())),
        "}\n_ACTIONS: Final[Mapping[str, tuple[str, Spec]]] = {\n",
    ]
    for module, options in every.items():
        alike = [name for name, spec in options.items() if shared.get(name) == _python(spec)]
        own = {name: spec for name, spec in options.items() if name not in alike}
        line = f'    "{module}": ("{" ".join(alike)}", {_python(own)}),\n'
        rows = [f'    "{module}": (\n', *_words(alike, 8, ","), *_rows("", own, 8), "    ),\n"]
        lines += [line] if len(line) <= WIDTH + 1 else rows
    lines.append("}\nARGUMENTS: Final = options_of(_SHARED, _ACTIONS)\n\n")
    return "".join([*lines, *_name_lists()])


def _rows(key: str, value: Mapping[str, Any], indent: int) -> list[str]:
    """Return a mapping as ruff formats it, below its key where it has one: on one line, or on several."""
    blank, head = " " * indent, f'"{key}": ' if key else ""
    line = f"{blank}{head}{_python(value)},\n"
    if len(line) <= WIDTH + 1:
        return [line]
    inner = (
        _rows(name, item, indent + 4) if isinstance(item, dict) else [f'{blank}    "{name}": {_python(item)},\n']
        for name, item in value.items()
    )
    return [f"{blank}{head}{{\n", *(row for rows in inner for row in rows), f"{blank}}},\n"]


def _words(names: Iterable[str], indent: int, end: str = "") -> list[str]:
    """Return names as the lines of one string."""
    blank = " " * indent
    *rows, last = textwrap.wrap(" ".join(names), WIDTH - indent - 4, **WRAP)
    return [*(f'{blank}"{row} "\n' for row in rows), f'{blank}"{last}"{end}\n']


def bounds_of(option: Option) -> dict[str, Any]:
    """Return ``minimum``, ``maximum`` and ``above`` (another option) of a number, as its text says them; {} for other options."""
    kind = {"int": int, "float": float}.get(option["type"])
    text = option["description"]
    text = text if isinstance(text, str) else " ".join(text)
    match, above = RANGE.search(text), ABOVE.search(text)
    if kind is None or match is None:
        return {}
    return {"minimum": kind(match["least"]), "maximum": kind(match["most"]), **({"above": above["other"]} if above else {})}


def _name_lists() -> list[str]:
    handed: dict[str, dict[str, list[str]]] = {}  # module -> beginning of variables -> options
    for entry in sorted({*(e for role in roles() for e in handed_by_role(role)), *(e for name in playbooks() for e in handed_by(name))}):
        if bounds_of(modules()[entry.module][entry.option]):
            same = entry.variable.endswith(f"_{entry.option}")
            prefix = entry.variable.removesuffix(entry.option) if same else f"{_group(entry.variable)}_"
            word = entry.option if same else f"{entry.option}={entry.variable.removeprefix(prefix)}"
            words = handed.setdefault(entry.module, {}).setdefault(prefix, [])
            words += [word] if word not in words else []
    return [
        "_VARIABLES: Final[Mapping[str, str]] = {\n",
        *_by_prefix(playbook_variables()),
        "}\nVARIABLES: Final = names_of(_VARIABLES)\n",
        '"""Every variable of playbooks and roles (docs/variables.md). Those of a host are in plugin_utils/play.py."""\n\n',
        "PREFIXES: Final = tuple(filter(None, _VARIABLES))\n",
        '"""Beginnings of names that are the collection\'s."""\n\n',
        "_OWN_NAMES: Final[Mapping[str, str]] = {\n",
        *_by_prefix(own_names()),
        "}\nOWN_NAMES: Final = names_of(_OWN_NAMES)\n",
        '"""Variables that the playbooks and roles set themselves: registered results and values on their way."""\n\n',
        "_HANDED: Final[Mapping[str, Mapping[str, str]]] = {\n",
        *(
            row
            for module, words in sorted(handed.items())
            for row in _rows(module, {prefix: " ".join(sorted(options)) for prefix, options in sorted(words.items())}, 4)
        ),
        "}\nHANDED: Final = {module: variables_of(words) for module, words in _HANDED.items()}\n",
        '"""Module -> option that is a number -> the variables that roles and playbooks hand to it."""\n',
    ]


def _by_prefix(names: Iterable[str]) -> list[str]:
    """Return the rows of a mapping: prefix -> the rests of the names that begin with it."""
    found: dict[str, list[str]] = {f"{prefix}_": [] for prefix in prefixes()}
    for name in sorted(names):
        prefix = next((prefix for prefix in found if name.startswith(prefix)), "")
        found.setdefault(prefix, []).append(name.removeprefix(prefix))
    lines = []
    for prefix, rests in found.items():
        line = f'    "{prefix}": "{" ".join(rests)}",\n'
        lines += [] if not rests else [line] if len(line) <= WIDTH + 1 else [f'    "{prefix}": (\n', *_words(rests, 8), "    ),\n"]
    return lines


def prefixes() -> list[str]:
    return ["cilium_mesh", *SETUPS, *roles()]


def own_names() -> list[str]:
    """Return the variables with the collection's prefixes that its own tasks set: ``register`` and ``vars`` of plays, blocks and tasks."""
    paths = [*(CHECKOUT / "playbooks").rglob("*.yml"), *(CHECKOUT / "roles").glob("*/tasks/*.yml")]
    found = {name for path in paths for name in _set_by(_yaml(path))}
    return sorted(name for name in found - set(playbook_variables()) if name.startswith(tuple(f"{prefix}_" for prefix in prefixes())))


def _set_by(tasks: Any) -> Iterator[str]:
    for task in _tasks(tasks):
        yield from task.get("vars") or {}
        if "register" in task:
            yield task["register"]


def _python(value: Any) -> str:
    """Return a literal as ruff formats it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f'"{key}": {_python(item)}' for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_python(item) for item in value) + "]"
    return f'"{value}"' if isinstance(value, str) else repr(value)


# --- roles -----------------------------------------------------------------------------------------------------------------------------


@functools.cache
def roles() -> list[str]:
    return sorted(path.name for path in (CHECKOUT / "roles").iterdir() if path.is_dir())


def handed_by_role(role: str) -> list[Handed]:
    """Return every variable that the task of the role hands to its module."""
    return list(_handed(_yaml(CHECKOUT / "roles" / role / "tasks" / "main.yml")))


@functools.cache
def role_options(role: str) -> dict[str, Option]:
    """Return variable -> option of the role: those that its task hands to the module, in their order."""
    known = modules()
    handed = handed_by_role(role)
    names = {entry.option: entry.variable for entry in handed}
    return {entry.variable: _in_terms_of(known[entry.module][entry.option], names, role) for entry in handed}


def _in_terms_of(option: Option, names: Mapping[str, str], role: str) -> Option:
    """Return the option with what its text says of other options and results put in terms of the role."""

    def said(match: re.Match[str]) -> str:
        name, sign, value = re.match(r"([\w#:.]+)(=?)(.*)", match[2], re.DOTALL).groups()  # type: ignore[union-attr]  # matches any text
        if "." in name:
            return match[0]
        if match[1] == "RV":
            return f"C({role}_result.{name})"
        return f"O({names[name]}{sign}{value})" if name in names else f"C({name}{sign}{value})"

    text = option["description"]
    listed = [text] if isinstance(text, str) else text
    return {**option, "description": [re.sub(r"\b(O|RV)\(([^)]*)\)", said, entry) for entry in listed]}


def role_specs(role: str) -> str:
    """Return meta/argument_specs.yml of the role: what stands there of the role itself, and its options anew."""
    path = CHECKOUT / "roles" / role / "meta" / "argument_specs.yml"
    mark = "    options:\n"
    head = path.read_text(encoding="utf-8").partition(mark)[0]
    lines = [head, mark]
    for variable, option in role_options(role).items():
        lines.append(f"      {variable}:\n")
        lines += [f"        {key}: {_flow(option[key])}\n" for key in STRUCTURE if key in option]
        lines.append("        description:\n")
        for text in option["description"]:
            lines.append(textwrap.fill(scalar(text), WIDTH, initial_indent=" " * 10 + "- ", subsequent_indent=" " * 12, **WRAP) + "\n")
    return "".join(lines)


def role_defaults(role: str) -> str:
    """Return defaults/main.yml of the role: the defaults that the options have."""
    found = [(name, option["default"]) for name, option in role_options(role).items() if "default" in option]
    return f"---\n{HEADER}" + "".join(f"{name}: {_flow(value)}\n" for name, value in found)


WRAP: Final[dict[str, Any]] = {"break_long_words": False, "break_on_hyphens": False}


def scalar(text: str) -> str:
    """Return a text as YAML; in quotes where plain it would be something else."""
    plain = text[0] not in "\"'{[&*!|>%@`#-?:," and ": " not in text and " #" not in text and not text.endswith(":")
    return text if plain else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _flow(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ", ".join(_flow(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(item)}" for key, item in value.items()) + "}"
    return '""' if value == "" else str(value)


# --- playbooks -------------------------------------------------------------------------------------------------------------------------

_ARGUMENT: Final = re.compile(r"\{\{ (\w+)(?: \| default\((.*?)\))?(?: or omit)? \}\}")
_VARIABLE: Final = re.compile(rf"\b(?:cilium_mesh|{'|'.join(SETUPS)})(?:_\w+)?\b(?!=)")


def playbooks() -> list[str]:
    return sorted(path.stem for path in (CHECKOUT / "playbooks").glob("*.yml"))


def _handed(tasks: Any) -> Iterator[Handed]:
    for task in _tasks(tasks):
        for name, arguments in task.items():
            if name.startswith(f"{COLLECTION}.") and isinstance(arguments, dict):
                for option, value in arguments.items():
                    match = _ARGUMENT.fullmatch(value) if isinstance(value, str) else None
                    if match is not None and (match[1] in SHARED or match[1].startswith(("cilium_mesh", *roles()))):
                        yield Handed(match[1], name.removeprefix(f"{COLLECTION}."), option, match[2] or "")


def _tasks(value: Any) -> Iterator[dict[str, Any]]:
    for entry in value or []:
        yield entry
        for part in ("tasks", "block", "rescue", "always"):
            yield from _tasks(entry.get(part))


def _files(playbook: str) -> list[Path]:
    """Return the playbook and the task files that belong to it."""
    return [CHECKOUT / "playbooks" / f"{playbook}.yml", *sorted((CHECKOUT / "playbooks" / "tasks").glob(f"{playbook}_*.yml"))]


def handed_by(playbook: str) -> list[Handed]:
    """Return every variable that the playbook hands to a module itself."""
    return [entry for path in _files(playbook) for entry in _handed(_yaml(path))]


def roles_of(playbook: str) -> list[str]:
    """Return the roles that the playbook runs."""
    every = [task for path in _files(playbook) for task in _tasks(_yaml(path))]
    named = [task["ansible.builtin.import_role"]["name"] for task in every if "ansible.builtin.import_role" in task]
    return [name.removeprefix(f"{COLLECTION}.") for name in named]


def acts(playbook: str) -> bool:
    """Return whether the playbook runs actions of the collection."""
    return bool(handed_by(playbook) or roles_of(playbook))


def used_by(playbook: str) -> set[str]:
    """Return every variable of the collection that the playbook reads, without comments, internal names and what its tasks set."""
    text = "\n".join(line.partition(" #")[0] for path in _files(playbook) for line in path.read_text(encoding="utf-8").splitlines())
    text = re.sub(r"(?m)^\s*(#|playbook: ).*$", "", text).replace(COLLECTION, "")
    made = set(re.findall(rf"(?m)^\s*(?:register: )?((?:{'|'.join(SETUPS)})_\w+)(?:$|:)", text))
    return set(_VARIABLE.findall(text)) - made


def playbook_variables() -> dict[str, dict[str, Any]]:
    """Return variable -> {type, default, choices, description, playbooks, roles}, of every variable that a playbook or role reads."""
    known, own = modules(), _yaml(OWN)
    found: dict[str, dict[str, Any]] = {}
    for role in roles():
        for name, option in role_options(role).items():
            found.setdefault(name, _row(option))["roles"].append(role)
    for playbook in playbooks():
        for entry in handed_by(playbook):
            option = known[entry.module][entry.option]
            row = found.setdefault(entry.variable, _row({**option, **(own.get(entry.variable) or {})}))
            if entry.default not in ("", "omit", "omit, true"):
                row["default"] = load_yaml(entry.default)
    for name, option in own.items():
        before = found.get(name, {})
        found[name] = {**_row(option), "roles": before.get("roles", []), "default": option.get("default", before.get("default"))}
    everywhere = {name for name, option in own.items() if option.get("everywhere")}  # read by the base of the actions
    for playbook in playbooks():
        names = used_by(playbook) | {entry.variable for entry in handed_by(playbook)} | (everywhere if acts(playbook) else set())
        names |= {name for role in roles_of(playbook) for name in role_options(role)}
        for name in names & set(found):
            found[name]["playbooks"].append(playbook)
    return found


def _row(option: Option) -> dict[str, Any]:
    text = option["description"]
    elements = f" of {option['elements']}" if "elements" in option else ""
    return {
        "type": f"{option['type']}{elements}",
        "default": option.get("default"),
        "choices": option.get("choices", []),
        "description": [text] if isinstance(text, str) else list(text),
        "required": bool(option.get("required")),
        "playbooks": [],
        "roles": [],
    }


# --- the page --------------------------------------------------------------------------------------------------------------------------


def page() -> str:
    """Return docs/variables.md."""
    every = playbook_variables()
    lines = [
        "# Variables of playbooks and roles\n",
        "Every variable that a playbook or role of the collection reads. The variables of a host, such as its kubeconfig, are in",
        "[inventory.md](inventory.md). The texts are those of the options of the modules (`ansible-doc`) and of",
        f"[variables.yml](variables.yml); this page is made from them by `python -m {_NAME} --write`.\n",
        "## Which playbook reads which\n",
        "| playbook | variables of roles | its own |\n| --- | --- | --- |",
    ]
    for playbook in playbooks():
        names = [name for name, row in every.items() if playbook in row["playbooks"]]
        groups = sorted({group for name in names if (group := _group(name)) in roles()})
        single = sorted(name for name in names if _group(name) not in roles())
        lines.append(f"| `{playbook}` | {_linked(groups)} | {', '.join(f'`{name}`' for name in single) or 'none'} |")
    for group in ("", *roles(), *SETUPS):
        title = _GROUPS.get(group, f"Role {group}")
        lines += ["", f"## {title}", ""]
        lines += ["| variable | type | default | meaning |", "| --- | --- | --- | --- |"]
        lines += [_line(name, row) for name, row in sorted(every.items()) if _group(name) == group]
    return "\n".join(lines) + "\n"


_GROUPS: Final = {"": "Variables of playbooks", **{name: f"Playbook {name}" for name in SETUPS}}


def _group(name: str) -> str:
    return next((prefix for prefix in (*roles(), *SETUPS) if name.startswith(f"{prefix}_")), "")


def _linked(groups: list[str]) -> str:
    return ", ".join(f"[{group}](#role-{group})" for group in groups) or "none"


def _line(name: str, row: Mapping[str, Any]) -> str:
    default = "required" if row["required"] else f"`{_flow(row['default'])}`" if row["default"] is not None else ""
    choices = f" One of {', '.join(f'`{choice}`' for choice in row['choices'])}." if row["choices"] else ""
    text = " ".join(_markdown(entry) for entry in row["description"])
    return f"| `{name}` | {row['type']} | {default} | {text}{choices} |"


def _markdown(text: str) -> str:
    text = re.sub(r"\b(?:O|RV)\([\w.]+#\w+:([^)]*)\)", r"`\1`", text)
    text = re.sub(r"\bM\([\w.]+\.(\w+)\)", r"module `\1`", text)
    return re.sub(r"\b(?:C|V|O|RV|I|B)\(([^)]*)\)", r"`\1`", text).replace("|", "\\|")


@functools.cache
def _yaml(path: Path) -> Any:
    return load_yaml(path.read_text(encoding="utf-8"))


def generators() -> dict[Path, Callable[[], str]]:
    """Return every file that is made from the sources, with the function that makes its text."""
    found: dict[Path, Callable[[], str]] = {ARGUMENTS: arguments_file, PAGE: page}
    for role in roles():
        found[CHECKOUT / "roles" / role / "meta" / "argument_specs.yml"] = functools.partial(role_specs, role)
        found[CHECKOUT / "roles" / role / "defaults" / "main.yml"] = functools.partial(role_defaults, role)
    return found


if __name__ == "__main__":
    link()
    current = {path: make() for path, make in generators().items()}
    stale = {path: text for path, text in current.items() if not path.is_file() or path.read_text(encoding="utf-8") != text}
    for path, text in stale.items():
        if "--write" in sys.argv:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        print(("written: " if "--write" in sys.argv else "not current: ") + str(path.relative_to(CHECKOUT)))
    sys.exit(0 if "--write" in sys.argv or not stale else 1)
