# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Work of a confined child: one ``ansible-playbook``, whose ``mesh_result`` leaves it in parts. Only the fork server imports it."""

from __future__ import annotations

import importlib

from .confined.playbook_job import serve
from .parts_of_run import publish

__all__ = ["serve"]

# By its name: the import of playbook_job.py has replaced the modules of the collection by those that Ansible's loaders find.
importlib.import_module("ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.statistic").publish_by(publish)
