# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The drawings of the documents: ``python -m tests.testing.drawings`` writes them to docs/images.

They are made from the rules that tests hold, so a drawing shows what the code does. The colours follow the reader's light or dark
mode.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

from tests.collection_path import CHECKOUT
from tests.testing.layers import ALLOWED, BANDS, ROOM_BANDS, ROOMS, docstrings
from tests.testing.recordings import TRAFFIC

IMAGES: Final = CHECKOUT / "docs" / "images"

LIGHT: Final = {
    "ink": "#1f2328",
    "soft": "#59636e",
    "line": "#8c959f",
    "band": "#f6f8fa",
    "box": "#ffffff",
    "edge": "#d1d9e0",
    "mark": "#0969da",
    "tint": "#ddf4ff",
}
DARK: Final = {
    "ink": "#f0f6fc",
    "soft": "#9198a1",
    "line": "#656c76",
    "band": "#151b23",
    "box": "#0d1117",
    "edge": "#3d444d",
    "mark": "#4493f8",
    "tint": "#121d2f",
}

WIDTH: Final = 1000
FONT: Final = "-apple-system, 'Segoe UI', 'Noto Sans', 'DejaVu Sans', Helvetica, Arial, sans-serif"


def style(colours: dict[str, str]) -> str:
    """Return the rules of one colour scheme."""
    return (
        f".ink{{fill:{colours['ink']}}}.soft{{fill:{colours['soft']}}}.mark{{fill:{colours['mark']}}}"
        f".band{{fill:{colours['band']};stroke:{colours['edge']}}}.box{{fill:{colours['box']};stroke:{colours['edge']}}}"
        f".step{{fill:{colours['tint']};stroke:{colours['mark']}}}.line{{stroke:{colours['line']};fill:none}}.head{{fill:{colours['line']}}}"
    )


def svg(height: int, title: str, body: Iterator[str], width: int = WIDTH) -> str:
    """Return a drawing of ``width`` by ``height`` that has a title for readers of the screen."""
    head = '<marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto-start-reverse">'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">',
            "<!-- Written by python -m tests.testing.drawings -->",
            f"<title>{escape(title)}</title>",
            f"<style>text{{font-family:{FONT};font-size:13px}}.name{{font-weight:600;font-size:15px}}.small{{font-size:11.5px}}.line{{stroke-width:1.5}}"
            f"{style(LIGHT)}@media (prefers-color-scheme:dark){{{style(DARK)}}}</style>",
            f'<defs>{head}<path class="head" d="M0 0L10 5L0 10z"/></marker></defs>',
            *body,
            "</svg>\n",
        ]
    )


def text(x: float, y: float, value: str, classes: str = "ink", anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{classes}" text-anchor="{anchor}">{escape(value)}</text>'


def box(x: float, y: float, width: float, height: float, classes: str = "box") -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" class="{classes}"/>'


def arrow(*points: tuple[float, float], both: bool = False) -> str:
    path = "M" + "L".join(f"{x:g} {y:g}" for x, y in points)
    return f'<path class="line" d="{path}" marker-end="url(#head)"{" marker-start=" + chr(34) + "url(#head)" + chr(34) if both else ""}/>'


def layers() -> str:
    """Return the drawing of the engine's packages: bands from the top down, and below each package what it imports."""
    said = "options in, tables and results out; may import every package below, never the other way round"
    above = ("bridge", "Ansible, terminal", "modules, action, filter, inventory, plugin_utils", said)
    return _drawn("Packages of the engine and what each imports", above, BANDS)


def rooms() -> str:
    """Return the drawing of the operator's rooms, in the same way."""
    said = "start the watches, the workers and the probes, and hand what one room made to the next"
    above = ("put together", "one leader", "operator, first_status, __main__; crds and manifests print what kcp needs", said)
    return _drawn("Rooms of the operator and what each imports", above, ROOM_BANDS)


_BRIDGE: Final = 74
_LEFT: Final = 172


def _imports(allowed: str, width: float) -> list[str]:
    said = ", ".join(allowed.split()) or "nothing"
    return textwrap.wrap(f"imports {said}", max(14, int(width / 6.3)))


def _columns(names: tuple[str, ...]) -> float:
    return (WIDTH - _LEFT - 16 - 10 * (len(names) - 1)) / len(names)


def _height(names: tuple[str, ...], allowed: Mapping[str, str]) -> int:
    return 55 + 15 * max(2, *(len(_imports(allowed[name], _columns(names) - 20)) for name in names), 0)


def _drawn(title: str, above: tuple[str, str, str, str], bands: tuple[tuple[str, str, tuple[str, ...]], ...]) -> str:
    allowed = ALLOWED if bands is BANDS else ROOMS
    height = _BRIDGE + 18 + sum(_height(names, allowed) + 12 for _, _, names in bands) + 30
    return svg(height, title, _bands(above, bands, allowed))


def _bands(
    above: tuple[str, str, str, str], bands: tuple[tuple[str, str, tuple[str, ...]], ...], allowed: Mapping[str, str]
) -> Iterator[str]:
    yield box(1, 1, WIDTH - 2, _BRIDGE - 4, "step")
    yield text(16, 27, above[0], "name ink")
    yield text(16, 47, above[1], "small soft")
    yield text(_LEFT, 27, above[2], "name ink")
    yield text(_LEFT, 47, above[3], "small soft")
    y = _BRIDGE + 10
    for band, purpose, names in bands:
        height = _height(names, allowed)
        yield box(1, y, WIDTH - 2, height, "band")
        yield text(16, y + 27, band, "name ink")
        for number, line in enumerate(textwrap.wrap(purpose, 22)):
            yield text(16, y + 47 + 15 * number, line, "small soft")
        width = _columns(names)
        for column, name in enumerate(names):
            x = _LEFT + column * (width + 10)
            yield box(x, y + 8, width, height - 16)
            yield text(x + 10, y + 29, name, "name mark")
            for number, line in enumerate(_imports(allowed[name], width - 20)):
                yield text(x + 10, y + 48 + 15 * number, line, "small soft")
        y += height + 12
    yield text(
        WIDTH / 2,
        y + 14,
        "Imports run downwards only: no cycle, no way up, nothing hidden in a function. A test holds it.",
        "soft",
        "middle",
    )


STAGES: Final = (
    ("observe", "read every cluster", "facts"),
    ("check", "can it be meshed?", "findings"),
    ("plan", "every write, with why", "plan, hash"),
    ("approve", "by hash, if you like", ""),
    ("apply", "server-side apply", "writes"),
    ("prove", "connect over the links", "status"),
)


def flow() -> str:
    """Return the drawing of one run: from what is asked for, by way of the stages, to the clusters and back."""
    return svg(436, "One run: observe, check, plan, approve, apply and prove, from an inventory to connected clusters", _flow())


def _flow() -> Iterator[str]:
    for left, name, detail in (
        (1, "Playbook", "ansible-playbook, one mesh.yml"),
        (339, "AWX, CI pipeline", "plan, review in the merge request, apply"),
        (677, "Custom resources", "tenants in kcp; mesh-operator runs the playbook"),
    ):
        yield box(left, 1, 322, 58)
        yield text(left + 161, 25, name, "name ink", "middle")
        yield text(left + 161, 45, detail, "small soft", "middle")
        yield arrow((left + 161, 60), (left + 161, 92))
    yield box(1, 94, WIDTH - 2, 140, "band")
    yield text(16, 116, "edge_portal.cilium_mesh", "name ink")
    yield text(WIDTH - 16, 116, "a blocking finding stops the run before the first write", "small soft", "end")
    width, gap = 138, 27.6
    for number, (name, detail, out) in enumerate(STAGES):
        x = 16 + number * (width + gap)
        yield box(x, 130, width, 58, "step")
        yield text(x + width / 2, 154, name, "name ink", "middle")
        yield text(x + width / 2, 173, detail, "small soft", "middle")
        if number + 1 < len(STAGES):
            yield arrow((x + width + 2, 159), (x + width + gap - 2, 159))
        if out:
            yield text(x + width / 2, 214, out, "mark", "middle")
    yield text(85, 262, "reads", "small soft")
    yield arrow((78, 304), (78, 237))
    yield text(770, 262, "writes", "small soft", "end")
    yield arrow((776, 236), (776, 303))
    yield arrow((916, 236), (916, 303), both=True)
    yield text(908, 262, "asks", "small soft", "end")
    for left, name in ((1, "cluster-ffm-1"), (380, "cluster-ber-2"), (759, "cluster-muc-3")):
        yield box(left, 306, 240, 76)
        yield text(left + 120, 332, name, "name ink", "middle")
        yield text(left + 120, 352, "Cilium, clustermesh-apiserver", "small soft", "middle")
        yield text(left + 120, 369, "reached by its Kubernetes API", "small soft", "middle")
    for left in (241, 620):
        yield arrow((left + 4, 344), (left + 135, 344), both=True)
        yield text(left + 69, 336, "link", "small mark", "middle")
    yield arrow((121, 384), (121, 408), (879, 408), (879, 386), both=True)
    yield text(WIDTH / 2, 427, "link", "small mark", "middle")


MONO: Final = "ui-monospace, 'SF Mono', Menlo, 'DejaVu Sans Mono', 'Liberation Mono', Consolas, monospace"
_CUT: Final = "  …"


@dataclass(frozen=True, kw_only=True)
class Shot:
    """A drawing of a terminal: lines of a screen that the lab made, as they are.

    ``kept``: parts of the screen, how the first and the last line of each begin; between two of them stands `…`. ``marked``: how lines
    begin that stand out. ``command``: the first line, "" if the screen has it.
    """

    title: str
    screen: Path
    kept: Sequence[tuple[str, str]]
    marked: tuple[str, ...]
    command: str = ""


RUN: Final = Shot(
    title="A run of connect on three clusters, from the plan to the links that are ready",
    screen=CHECKOUT / "docs" / "screens" / "80" / "connect.txt",
    command="$ ansible-playbook -i clusters.yml -e @mesh.yml edge_portal.cilium_mesh.connect",
    kept=(("Plan: ", "  link c1 -> c3"), ("  sum: ", "  disruption: "), ("  cluster  ", "edge-mesh-eu: ")),
    marked=("$ ", "edge-mesh-eu: "),
)
REQUESTS: Final = Shot(
    title="Requests between two clusters: shared, failed over to the other cluster, and lost while the tunnel is cut",
    screen=TRAFFIC,
    kept=(
        ("[4/7] ", "[4/7] "),
        ("      $ ansible-playbook edge_portal.cilium_mesh.services", "        cluster-ffm-1 "),
        ("[5/7] ", "[5/7] "),
        ("      $ kubectl --context cluster-ffm-1 scale deployment web --replicas=0", "      of "),
        ("[6/7] ", "[6/7] "),
        ("      $ ansible-playbook edge_portal.cilium_mesh.mesh", "        no answer "),
        ("[7/7] ", "[7/7] "),
        ("      a firewall drops ", "        edge-mesh-eu: Degraded "),
        ("web: ", "web: "),
    ),
    marked=("[", "      $ ", "web: "),
)


def terminal(shot: Shot) -> str:
    """Return the drawing of a terminal.

    :raises StopIteration: the screen has no such part any more
    """
    head = [shot.command] if shot.command else []
    lines = [*head, *_parts(shot.screen.read_text(encoding="utf-8").splitlines(), shot.kept)]
    width, height = 80 * 9 + 40, 58 + 20 * len(lines)
    return svg(height, shot.title, _terminal(lines, shot.marked, width, height), width)


def _parts(lines: Sequence[str], kept: Sequence[tuple[str, str]]) -> Iterator[str]:
    for number, (first, last) in enumerate(kept):
        start = next(place for place, line in enumerate(lines) if line.startswith(first))
        end = next(place for place, line in enumerate(lines) if place >= start and line.startswith(last))
        yield from ([_CUT] if number else [])
        yield from lines[start : end + 1]


def _terminal(lines: Sequence[str], marked: tuple[str, ...], width: int, height: int) -> Iterator[str]:
    yield f"<style>.screen{{font-family:{MONO};font-size:14.5px}}</style>"
    yield box(1, 1, width - 2, height - 2, "band")
    yield "".join(f'<circle cx="{x}" cy="20" r="5" class="head"/>' for x in (20, 38, 56))
    for row, line in enumerate(lines):
        classes = "mark" if line.startswith(marked) else "soft" if line == _CUT else "ink"
        yield text(20, 54 + 20 * row, line.replace(" ", "\u00a0"), f"screen {classes}")  # viewers fold other blanks


def run() -> str:
    """Return the drawing of a run of connect."""
    return terminal(RUN)


def traffic() -> str:
    """Return the drawing of `make demo-traffic`."""
    return terminal(REQUESTS)


DRAWINGS: Final = {"layers.svg": layers, "rooms.svg": rooms, "flow.svg": flow, "run.svg": run, "traffic.svg": traffic}


def main() -> None:
    """Write every drawing, and into each package what it may import."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    for name, draw in DRAWINGS.items():
        (IMAGES / name).write_text(draw(), encoding="utf-8")
    for path, text in docstrings():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
