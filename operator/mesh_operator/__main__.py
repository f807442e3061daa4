# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Command line: ``mesh-operator [flags]`` runs the operator; ``mesh-operator kcp-manifests`` prints what kcp needs for it."""

from __future__ import annotations

import os
import sys
from logging import WARNING

from .base.settings import parse_settings


def main() -> int:
    """Run the command and return its exit status: 0 after a requested stop, 1 with a sentence on stderr, 2 for bad flags."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["kcp-manifests"]:
        from .manifests import print_manifests

        return print_manifests(arguments[1:])
    settings = parse_settings(arguments, os.environ)
    # Imported only now: --version and --help need neither the collection nor the libraries.
    from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import MeshError

    from .base.container_memory import memory_limit, memory_shortage
    from .base.log import log, setup
    from .replica import run

    setup()
    if shortage := memory_shortage(settings.max_runs, settings.dry_run_memory, memory_limit()):
        log("memory_limit_low", level=WARNING, reason=shortage)
    try:
        return run(settings)
    except (MeshError, PermissionError) as error:  # a text that is safe to print (module_utils/base/errors.py, runs/runner.py)
        print(f"mesh-operator: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
