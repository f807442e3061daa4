# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Documents use the terms of docs/glossary.md, and none of the words that it lists as not used."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.collection_path import CHECKOUT
from tests.testing.code_table import HEADER
from tests.testing.rows import in_one_test

DOCS: Final = CHECKOUT / "docs"

NOT_USED: Final = (
    *(r"somebody", r"nobody", r"everybody", r"whoever", r"whom", r"(?:is|are|was|were|be|been) told", r"looked at"),
    *(r"(?:a|the|each|every) look", r"lets? go of", r"let go", r"cannot be meant", r"cannot be told", r"c(?:omes|ame) of it"),
    *(r"wish(?:es|ed)? for", r"mend(?:s|ed)?", r"landscape"),
)
"""Words of no precise meaning, as regular expressions. Add one here once no revised page uses it."""


_PART: Final = r"(?:(?:some|no|every)bodys?|whoever|whom|told|heard|unsaid|wish(?:es|ed)?|mend(?:s|ed)?|landscape|looks?|let_go|partners?)"
_BARE: Final = rf"_?(?:{_PART}|there|say)"
NAMES: Final = re.compile(
    rf"(?<![A-Za-z])(?:\w*_)?{_PART}_\w+|\w+_{_PART}(?![A-Za-z_])"
    rf"|(?<![\w.'\"`]){_BARE}(?: = | := |=(?!=)|: [A-Z]|\.\w|\(|\[)|\b(?:for|def) {_BARE}(?:,| in |\()"
)
"""Names in code that say nothing precise: one of the words with another part, or alone where a value is bound, called or read."""

PLAY: Final = re.compile(r"\bplugin_utils\.play import \w+|\b_?[Pp]lay\(|-> Play\b")
"""Where the operator means the value that the engine has of Ansible's own play."""


def pages() -> list[Path]:
    """Return every page that a user or a developer reads, except the decisions before 0032, which stay as they were taken.

    `make findings` writes the index of the runbooks from the catalogue, so it is not among them.
    """
    of_the_root = [CHECKOUT / "README.md", CHECKOUT / "CONTRIBUTING.md", CHECKOUT / "tests" / "README.md"]
    of_the_docs = [*DOCS.glob("*.md"), *(DOCS / "runbooks").glob("CM-*.md"), *(DOCS / "contributing").glob("*.md"), *revised_decisions()]
    beside_code = [*(CHECKOUT / "roles").glob("*/README.md"), CHECKOUT / "tests" / "unit" / "behaviour" / "README.md"]
    return [*of_the_root, *sorted(of_the_docs), *sorted(beside_code)]


def revised_decisions() -> list[Path]:
    """Return the decisions from 0032 on."""
    return [page for page in (DOCS / "decisions").glob("[0-9]*.md") if page.name >= "0032"]


def prose(text: str) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line that is neither code, nor output, nor generated (a table, the header of a runbook)."""
    fenced = generated = False
    text = HEADER.sub(lambda header: "\n" * header[0].count("\n"), text, count=1)
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif re.match(r"<!-- .*: (begin|end) -->", line):
            generated = "begin" in line
        elif line.startswith("|") and "`tests/" in line:  # a promise of docs/testing.md, worded as the name of its test
            continue
        elif not fenced and not line.startswith("    ") and not generated:
            yield number, re.sub(r"`[^`]*`", "", line)


def links(page: Path) -> list[str]:
    """Return the relative targets of the links of a page."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [target for target in re.findall(r"\]\(([^)\s]+)\)", text) if not target.startswith("http")]


def leads_somewhere(page: Path, target: str) -> bool:
    """Return whether the file exists and has the heading or anchor after ``#``."""
    name, _, anchor = target.partition("#")
    path = page.parent / name if name else page
    if not anchor:
        return path.exists()
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)]
    return anchor in {*headings, *re.findall(r'id="([^"]+)"', text)}


REVISED: Final = [path for path in pages() if path.name != "glossary.md"]  # that one quotes the words


@in_one_test
@pytest.mark.parametrize("page", REVISED, ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_a_page_uses_no_word_that_the_glossary_replaces(page: Path) -> None:
    pattern = re.compile(rf"\b(?:{'|'.join(NOT_USED)})\b", re.IGNORECASE)
    text = page.read_text(encoding="utf-8")
    assert [f"{page.name}:{number}: {match[0]}" for number, line in prose(text) for match in pattern.finditer(line)] == []


def sources() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each file of the collection and of the operator."""
    for root in (CHECKOUT / "plugins", CHECKOUT / "operator" / "mesh_operator"):
        for path in sorted(root.rglob("*.py")):
            yield str(path.relative_to(CHECKOUT)), path.read_text(encoding="utf-8")


def sources_of_tests() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each file of the tests but this one, which quotes the words; ``say`` may be a callback there."""
    for path in sorted((CHECKOUT / "tests").rglob("*.py")):
        if path.name != Path(__file__).name:
            yield str(path.relative_to(CHECKOUT)), re.sub(r"(?<![\w.])_?say\b", "", path.read_text(encoding="utf-8"))


def test_code_uses_no_word_that_the_glossary_replaces() -> None:
    """In comments, docstrings and texts, and as names of files, classes, functions and values.

    The Linux user "nobody" is called so by the system, and ``Nobody`` is a value of a status.
    """
    words = re.compile(rf"\b(?:{'|'.join(NOT_USED)})\b", re.IGNORECASE)
    proper = re.compile(r"the user nobody\b|\"nobody\"|`Nobody`|\"Nobody\"")
    found = []
    for name, text in (*sources(), *sources_of_tests()):
        lines = text.splitlines()
        bad = [pattern for pattern in (words, NAMES) if pattern.search(proper.sub("", text)) or pattern.search(Path(name).stem)]
        if bad:
            found += [f"{name}:{n}: {m[0]}" for n, line in enumerate(lines, 1) for p in bad for m in p.finditer(proper.sub("", line))]
    assert found == []


def test_a_class_has_a_name_of_its_own() -> None:
    """Within the collection and the operator, so that it is understood without its import line; but for classes that Ansible looks for."""
    of_ansible = {"ActionModule", "FilterModule", "InventoryModule", "ModuleDocFragment"}
    places: dict[str, list[str]] = {}
    for name, text in sources():
        for found in re.findall(r"(?m)^ *class ([A-Z]\w*)[(:]", text):
            places.setdefault(found, []).append(name)
    assert {name: where for name, where in places.items() if len(where) > 1 and name not in of_ansible} == {}


def test_runs_and_the_operator_have_one_word_for_waiting() -> None:
    """A user who searches output or logs for the word of the glossary finds every line about it."""
    said = re.compile(r"""\b(?:show\(Sentence|_show|report|alive|log)\((?:[\w.()]+, )?f?(["'])(.*?)\1""")
    others = re.compile(r"\bwaits: |\bheld: |\bon[ _]hold\b|_on_hold\b")
    files = [*(CHECKOUT / "plugins").rglob("*.py"), *(CHECKOUT / "operator" / "mesh_operator").rglob("*.py")]
    texts = [found[1] for file in files for found in said.findall(file.read_text(encoding="utf-8"))]
    assert len([text for text in texts if "waiting" in text]) >= 4, "of locks, links, CA rolls and fleets"
    assert [text for text in texts if others.search(text)] == []


def test_rooms_of_the_operator_call_a_run_a_run() -> None:
    """A play is Ansible's own (docs/glossary.md). Comments, texts and names count."""
    play = re.compile(r"(?<![a-z])plays?(?![a-z])|Plays?(?![a-z])")
    files = sorted((CHECKOUT / "operator" / "mesh_operator").rglob("*.py"))
    lines = ((file, number, line) for file in files for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1))
    assert [f"{file.name}:{number}: {line.strip()}" for file, number, line in lines if play.search(PLAY.sub("", line))] == []


def test_every_page_is_listed_for_a_reader() -> None:
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    assert [page.name for page in DOCS.glob("*.md") if page.name != "README.md" and f"({page.name}" not in index] == []


@in_one_test
@pytest.mark.parametrize("page", pages(), ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_links_of_a_page_lead_to_a_file_and_to_a_heading_or_anchor_in_it(page: Path) -> None:
    assert [target for target in links(page) if not leads_somewhere(page, target)] == []


def test_each_term_of_the_glossary_stands_in_it_once_and_has_a_definition() -> None:
    rows = [line.strip("|").split("|") for line in (DOCS / "glossary.md").read_text(encoding="utf-8").splitlines() if '<a id="' in line]
    assert len(rows) > 60
    anchors = [match[1] for row in rows if (match := re.search(r'id="([^"]+)"', row[0]))]
    assert sorted(set(anchors)) == sorted(anchors)
    assert [row[0] for row in rows if len(row) != 4 or not row[1].strip().endswith((".", ")"))] == []
