# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results that earlier tasks registered, by the names of their variables.

Names, and not values: Ansible reads every text of an argument as a template, which takes seconds for the result of a thousand items
(docs/decisions/0028).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .play import plain


def first_result(variables: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the first registered result that is not empty and was not skipped; {} without one.

    Texts lose Ansible's tags, so that nothing in a result is read as a template.
    """
    for name in names:
        value = variables.get(name)
        if isinstance(value, Mapping) and value and not value.get("skipped"):
            return dict(plain(value))
    return {}
