# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Watches of all URLs that show custom resources, which come and go: virtual workspaces of the exports in kcp, or the one cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import Any, Final, NamedTuple

from ..base.api import Connections
from ..base.kinds import CLUSTER, FLEET_ROWS, ROWS, ResourceKind
from ..base.log import log
from ..base.settings import Settings
from .endpoints import urls_of
from .namespaces import URL, NamespaceTenants
from .store import Store
from .watch import Watcher, WatchState

Object = dict[str, Any]
Source = Connections | NamespaceTenants
SLICES: Final = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices"
OUT_OF_REACH: Final = 15.0  # seconds of errors after which a watch of kcp counts as broken


@dataclass
class _Endpoint:
    """Virtual workspace: its export, its watches, and the event that ends them."""

    export: str
    stop: Event
    states: Mapping[str, WatchState]  # by kind; complete from the start


class _Callbacks(NamedTuple):
    """Callbacks that receive the objects of a watch."""

    replace: Callable[[Iterable[Any]], None]
    put: Callable[[Object], None]
    missing: Callable[[Object], None]
    unserved: Callable[[], None]


class EndpointWatches:
    """Watches of the endpoints of all exports, whose objects go to the store. Other threads may ask it meanwhile."""

    def __init__(self, settings: Settings, source: Source, fleet_source: Source, store: Store) -> None:
        """Prepare the watches.

        :param source: of custom resources; of those of fleets, if it is another one, ``fleet_source``.
        """
        self._settings, self._source, self._fleet_source, self._store = settings, source, fleet_source, store
        self._rows = rows_of_exports(settings)
        self._endpoints: dict[str, _Endpoint] = {}
        self._slices: dict[str, WatchState] = {export: WatchState() for export in self._rows}

    def __len__(self) -> int:
        """Return how many endpoints there are."""
        return len(self._endpoints)

    def start(self, stop: Event) -> None:
        """Watch each export for its endpoints, and these, until ``stop`` is set."""
        for export in self._rows:
            if self._settings.source != "kcp":
                self._slices[export] = WatchState(listed_at=time.monotonic())
                self._take_urls(export, (f"{URL}/fleet" if self._rows[export] is FLEET_ROWS else URL,))
                continue
            chosen, relist = f"metadata.name={export}", self._settings.reconcile_interval
            take = partial(self.take_slice, export)
            sink = _Callbacks(partial(_first, take), take, partial(_nothing, take), partial(take, None))
            api = self._source_of(export).own()
            watcher = Watcher(api, SLICES, sink, stop, clock=time.monotonic, field_selector=chosen, relist=relist)
            self._slices[export] = watcher.state
            watcher.start()

    def take_slice(self, export: str, found: Object | None) -> None:
        """Start and stop watches for the APIExportEndpointSlice of an export, which is None when it is gone."""
        self._take_urls(export, urls_of(found, self._settings.kcp_external_url))

    def api_at(self, url: str) -> Any:
        """Return the client for the URL of a virtual workspace."""
        endpoint = self._endpoints.get(url)
        return (self._source if endpoint is None else self._source_of(endpoint.export)).at(url)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds that are watched."""
        return tuple(row.kind for rows in self._rows.values() for row in rows)

    @property
    def known(self) -> bool:
        """Whether it is known of every export from which URLs objects come."""
        return all(state.listed_at is not None for state in self._slices.values())

    def waiting(self) -> list[str]:
        """Return sentences that say what has not been listed once or is out of reach."""
        slices = list(self._slices.values())
        waiting = ["the APIExportEndpointSlice was not read" for state in slices if state.listed_at is None]
        for endpoint in list(self._endpoints.values()):
            waiting += [f"{kind} was not listed" for kind, state in endpoint.states.items() if state.listed_at is None]
        now, endpoints = time.monotonic(), list(self._endpoints.values())
        watches = [*slices, *(state for endpoint in endpoints for state in endpoint.states.values())]
        source = "kcp" if self._settings.source == "kcp" else "the management plane"
        silent = sum(now - since > OUT_OF_REACH for state in watches if (since := state.failing_since) is not None)
        waiting += [f"{source} has not answered {silent} of {len(watches)} watches for more than {OUT_OF_REACH:.0f} s"] * bool(silent)
        return waiting

    def age(self, kind: str, now: float) -> float:
        """Return how many seconds ago the kind was listed last, at the URL where that is longest ago; 0 if it was listed nowhere."""
        states = [endpoint.states[kind] for endpoint in list(self._endpoints.values()) if kind in endpoint.states]
        return now - min((state.listed_at for state in states if state.listed_at is not None), default=now)

    def _source_of(self, export: str) -> Source:
        return self._fleet_source if self._rows[export] is FLEET_ROWS else self._source

    def _take_urls(self, export: str, urls: Collection[str]) -> None:
        """Start and stop watches for virtual workspaces."""
        for url in [url for url, endpoint in self._endpoints.items() if endpoint.export == export and url not in urls]:
            self._endpoints.pop(url).stop.set()
            self._store.drop_url(url)
            log("endpoint_gone", url=url)
        for url in [url for url in urls if url not in self._endpoints]:
            stop, watchers = Event(), dict[str, Watcher]()
            source = self._source_of(export)
            for row in self._rows[export]:
                acts = (self._store.listed, self._store.put, self._store.missing, self._unserved)
                sink = _Callbacks(*(partial(act, url, row.kind) for act in acts))
                reception = partial(self._store.listing, url, row.kind)
                watchers[row.kind] = Watcher(source.at(url), row.collection("*"), sink, stop, clock=time.monotonic, reception=reception)
            # Other threads read the endpoints meanwhile, so an endpoint is published with the states of all its kinds, and only then do
            # its watches begin.
            self._store.add_url(url, watchers)
            self._endpoints[url] = _Endpoint(export, stop, {kind: watcher.state for kind, watcher in watchers.items()})
            for watcher in watchers.values():
                watcher.start()
            log("endpoint_found", url=url)

    def _unserved(self, url: str, kind: str) -> None:
        if self._store.unserved(url, kind):
            log("kind_not_served", url=url, kind=kind)


def rows_of_exports(settings: Settings) -> dict[str, tuple[ResourceKind, ...]]:
    """Return by export the kinds that are watched. Where both are, KubernetesClusters come from the export that they belong to."""
    found = {}
    if settings.profile != "fleet":
        found[settings.api_export_name] = tuple(row for row in ROWS if settings.profile == "mesh" or row.kind != CLUSTER)
    if settings.profile != "mesh":
        found[settings.fleet_export_name] = FLEET_ROWS
    return found


def _first(take: Callable[[Object | None], None], found: Iterable[Object]) -> None:
    take(next(iter(found), None))


def _nothing(take: Callable[[Object | None], None], _gone: Object) -> None:
    take(None)
