# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A local copy of one API collection, kept up by list and watch in a thread; changes are reported on the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import urllib3

from tests.lab.api import ApiError, LabApi, Object

Key = tuple[str, str]
OnChange = Callable[[str, Key, Object], None]
_PAUSE = 0.3


def key_of(obj: Object) -> Key:
    """Namespace (empty for cluster-scoped objects) and name."""
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


class Informer:
    """``objects`` is the copy. ``on_change(event, key, object)`` is called on the loop after the copy has changed; event is SET or GONE."""

    def __init__(self, api: LabApi, path: str, on_change: OnChange) -> None:
        self.objects: dict[Key, Object] = {}
        self.synced = asyncio.Event()
        self._api = api
        self._path = path
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self._stopped = False
        threading.Thread(target=self._follow, name=f"watch {path}", daemon=True).start()

    def stop(self) -> None:
        """No more changes are reported. The thread ends with its watch or with the process."""
        self._stopped = True

    def _follow(self) -> None:
        version = ""
        pause = threading.Event()
        while not self._stopped:
            try:
                if not version:
                    listed = self._api.get(self._path)
                    assert listed is not None, self._path
                    version = listed["metadata"]["resourceVersion"]
                    self._tell(self._replace, listed.get("items") or [])
                for event, obj in self._api.watch(self._path, version):
                    version = obj["metadata"]["resourceVersion"]
                    if event != "BOOKMARK":
                        self._tell(self._apply, event, obj)
            except ApiError:
                version = ""  # most often 410: too old, or the server lost its data
                pause.wait(_PAUSE)
            except (urllib3.exceptions.HTTPError, OSError, ValueError, AssertionError):
                pause.wait(_PAUSE)

    def _tell(self, action: Callable[..., None], *args: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(action, *args)
        except RuntimeError:  # the loop is closed: the lab is ending
            self._stopped = True

    def _replace(self, items: list[Object]) -> None:
        fresh = {key_of(item): item for item in items}
        for key in [key for key in self.objects if key not in fresh]:
            self._apply("DELETED", self.objects[key])
        for item in items:
            self._apply("ADDED", item)
        self.synced.set()

    def _apply(self, event: str, obj: Object) -> None:
        if self._stopped:
            return
        key = key_of(obj)
        if event == "DELETED":
            self.objects.pop(key, None)
        else:
            self.objects[key] = obj
        self._on_change("GONE" if event == "DELETED" else "SET", key, obj)
