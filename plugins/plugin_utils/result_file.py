# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The files in which every playbook leaves its result, by the variables that name them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Final

from ..module_utils.base.errors import InvalidInput
from .files import check_places
from .play import plain

RESULT_FILE: Final = "cilium_mesh_result_file"
JUNIT_FILE: Final = "cilium_mesh_junit_file"
FILES: Final = {"result_file": RESULT_FILE, "junit_file": JUNIT_FILE}
"""Option of mesh_publish -> the variable that the playbooks hand to it."""


def check_result_files(task_vars: Mapping[str, Any], template: Callable[[Any], Any]) -> None:
    """Refuse places that cannot be written. Every action calls it before it contacts a cluster, as the files are written at the end.

    :raises InvalidInput: when a variable holds no path, no file can be written there, or both name one file.
    """
    found = {name: plain(template(task_vars[name])) for name in FILES.values() if task_vars.get(name)}
    wrong = [name for name, path in found.items() if not isinstance(path, str)]
    if wrong:
        raise InvalidInput(f"{' and '.join(wrong)} must be a path.", remedy="Name a file on the controller.")
    places_of(found)


def places_of(paths: Mapping[str, str]) -> dict[str, str]:
    """Return the absolute paths of those that are set, after verifying that files can be written there.

    ``~`` is the home of the user who runs the playbook.

    :raises InvalidInput: as ``check_places``.
    """
    return check_places({name: os.path.expanduser(path) for name, path in paths.items() if path})
