# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Textfile of a run: the earlier one is read, and replaced by the new one in one step."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..module_utils.base.errors import InvalidInput
from ..module_utils.metrics.textfile import SIZE_LIMIT, RunOutcome, earlier_states, is_own, textfile
from .files import write_whole


def write_metrics(option: str, path: str, result: Mapping[str, Any], outcome: RunOutcome) -> None:
    """Replace the textfile at ``path`` by that of a ``mesh_result``.

    :param option: the option that has the path, which errors name.
    :raises InvalidInput: when the file was not written by this collection, or cannot be read or written; it stays as it is.
    """
    target = Path(os.path.abspath(os.path.expanduser(path)))
    before = _read(option, target)
    if not is_own(before):
        raise InvalidInput(f"{option}: {target} holds something else than metrics of this collection.", remedy="Name another file.")
    content = textfile(result, outcome, earlier_states(before, outcome.mesh))
    write_whole(option, str(target), content.encode())


def _read(option: str, target: Path) -> str:
    try:
        with target.open("rb") as file:
            content = file.read(SIZE_LIMIT + 1)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise InvalidInput(
            f"{option}: {target} cannot be read: {error.strerror}.", remedy="Name another file, or change its mode."
        ) from None
    if len(content) > SIZE_LIMIT:
        raise InvalidInput(f"{option}: {target} is larger than any file of metrics.", remedy="Name another file.")
    return content.decode(errors="replace")
