# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A process in which nothing is left to chance: a clock that a test moves, keys and serial numbers from a counter, threads one by one.

What is replaced is found by identity in every loaded module of the project, so that a module may move without a change here.
"""

from __future__ import annotations

import contextlib
import datetime as real_datetime
import gc
import hashlib
import random
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from functools import cache
from types import SimpleNamespace
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

PROJECT = ("ansible_collections.edge_portal.cilium_mesh.plugins", "mesh_operator", "tests.lab.profiles", "tests.testing")
P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # SEC 2, section 2.4.2


class Clock:
    """The time of the process. ``sleep`` moves it."""

    def __init__(self, start: real_datetime.datetime) -> None:
        self.start = self.now = start
        self.on_sleep: Callable[[float], None] = lambda seconds: None

    def monotonic(self) -> float:
        """Return the seconds since the start."""
        return (self.now - self.start).total_seconds()

    def sleep(self, seconds: float) -> None:
        """Let that many seconds pass."""
        self.now += real_datetime.timedelta(seconds=seconds)
        self.on_sleep(seconds)


class SerialExecutor(futures.Executor):
    """An executor that runs each task when it is submitted."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> futures.Future[Any]:
        """Run the task, and return its future, which is done."""
        done: futures.Future[Any] = futures.Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except BaseException as error:
            done.set_exception(error)
        return done


@contextlib.contextmanager
def deterministic(clock: Clock) -> Iterator[None]:
    """Replace time, chance and threads while the context lasts."""
    with contextlib.ExitStack() as stack:
        _seed_cryptography(stack)
        stack.enter_context(collector_off())
        stack.enter_context(replaced(_standard(clock)))
        yield


@contextlib.contextmanager
def collector_off() -> Iterator[None]:
    """Leave cycles alone meanwhile: to look through all that is recorded again and again takes a fifth of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@contextlib.contextmanager
def replaced(pairs: Iterable[tuple[Any, Any]]) -> Iterator[None]:
    """Put the substitute of each ``(original, substitute)`` wherever a module of the project names the original."""
    substitutes = {id(original): substitute for original, substitute in pairs}
    with contextlib.ExitStack() as stack:
        for module, key in _places(frozenset(substitutes), len(sys.modules)):
            original = getattr(module, key)
            stack.callback(setattr, module, key, original)
            setattr(module, key, substitutes.get(id(original), original))
        yield


@cache
def _places(originals: frozenset[int], modules: int) -> list[tuple[Any, str]]:
    """Return where modules of the project name one of these objects. ``modules``: how many are loaded, for the cache."""
    loaded = [module for name, module in list(sys.modules.items()) if module is not None and name.startswith(PROJECT)]
    return [(module, key) for module in loaded for key, value in list(vars(module).items()) if id(value) in originals]


def _standard(clock: Clock) -> list[tuple[Any, Any]]:
    class Frozen(_Frozen):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return clock.now.astimezone(tz) if tz else clock.now.replace(tzinfo=None)

    return [
        (real_datetime.datetime, Frozen),
        (futures.ThreadPoolExecutor, SerialExecutor),
        (time, _Like(time, monotonic=clock.monotonic, sleep=clock.sleep, time=lambda: clock.now.timestamp())),
        (random, _Like(random, uniform=lambda low, high: low)),
        (socket, _Like(socket, getaddrinfo=lambda *args, **kwargs: [])),
    ]


class _AnyDatetime(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, real_datetime.datetime)


class _Frozen(real_datetime.datetime, metaclass=_AnyDatetime):
    """``datetime`` for modules that ask it for the time; a true one is an instance of it, too."""


class _Like(SimpleNamespace):
    """A module with some of its names replaced."""

    def __init__(self, module: Any, **names: Any) -> None:
        super().__init__(**names)
        self.__dict__["_module"] = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_module"], name)


def _seed_cryptography(stack: contextlib.ExitStack) -> None:
    """Keys and serial numbers come from a counter; signatures are those of RFC 6979."""
    counter = iter(range(1, 1_000_000))
    sign = x509.CertificateBuilder.sign

    def number() -> int:
        return int.from_bytes(hashlib.sha256(f"number {next(counter)}".encode()).digest()[:19], "big")

    def generate(curve: Any, backend: Any = None) -> Any:
        scalar = int.from_bytes(hashlib.sha256(f"key {next(counter)}".encode()).digest(), "big")
        return ec.derive_private_key(scalar % (P256_ORDER - 1) + 1, curve)

    def sign_alike(self: Any, private_key: Any, algorithm: Any, **kwargs: Any) -> Any:
        more: dict[str, Any] = {"ecdsa_deterministic": True} if isinstance(private_key, ec.EllipticCurvePrivateKey) else {}
        return sign(self, private_key, algorithm, **kwargs, **more)

    for place, name, substitute in (
        (ec, "generate_private_key", generate),
        (x509, "random_serial_number", number),
        (x509.CertificateBuilder, "sign", sign_alike),
    ):
        stack.callback(setattr, place, name, getattr(place, name))
        setattr(place, name, substitute)
