# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The package jsonschema, as ``validator``, imported without the grammar of IRIs.

Where rfc3987_syntax is installed, jsonschema compiles that grammar while it is imported, which takes longer than all else that a test
imports. It is for two formats (iri, iri-reference) that no schema of this project has.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any, Final

_GRAMMAR: Final = "rfc3987_syntax"


def _imported() -> Any:
    loaded: dict[str, Any] = sys.modules
    if "jsonschema" in loaded or _GRAMMAR in loaded:
        return importlib.import_module("jsonschema")
    loaded[_GRAMMAR] = None  # to Python: there is no such module
    try:
        return importlib.import_module("jsonschema")
    finally:
        del loaded[_GRAMMAR]


validator: Final = _imported()
