# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A parser of foreign bytes as fuzzing sees it: what may come of any input, in what time, and how a violation is reported."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from tests.collection_path import CHECKOUT

CORPUS: Final = CHECKOUT / "tests" / "fuzz" / "corpus"
INPUT_LIMIT: Final = 64 * 1024  # bytes of an input that fuzzing makes
NOTHING_LOST: Final = 20_000  # characters of a result that need no input


class Form(StrEnum):
    """Form of a parser's input, by which it is mutated."""

    BYTES = "bytes"
    JSON = "json"
    YAML = "yaml"


class Defect(Exception):
    """Violation of what holds for a parser. The message says which, and for which parser."""


@dataclass(frozen=True, kw_only=True)
class Parser:
    """A parser, and what holds for each of its inputs."""

    name: str  # that of its folder in the corpus
    writer: str  # who controls the bytes
    files: tuple[str, ...]  # files with decoders that it runs, below the checkout
    parse: Callable[[bytes], object]
    form: Form = Form.BYTES
    raises: tuple[type[Exception], ...] = ()  # the errors that callers handle
    seconds: float = 2.0  # of CPU time, for an input of INPUT_LIMIT
    growth: int = 40  # characters of the printed result for each byte of input
    memory: int = 256  # MiB by which all inputs of the corpus, with their mutations, may make the process grow
    tries: int = 150  # mutations in a usual run of the tests

    def check(self, data: bytes) -> None:
        """Parse an input and judge the result.

        :raises Defect: when anything is raised but the errors that callers handle, or when it takes more than its bounds.
        """
        started = time.process_time()
        try:
            result = self.parse(data)
            printed = len(repr(result))  # a result that cannot be printed fails later, where no caller expects it
        except self.raises:
            printed = 0
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            raise Defect(f"{self.name}: {type(error).__name__} in {Path(where.filename).name}:{where.lineno}") from error
        spent = time.process_time() - started
        if spent > self.seconds:
            raise Defect(f"{self.name}: {spent:.1f} s of CPU time for {len(data)} bytes, more than {self.seconds:g}")
        if printed > NOTHING_LOST + self.growth * len(data):
            raise Defect(f"{self.name}: {printed} characters come of {len(data)} bytes")

    @property
    def corpus(self) -> tuple[Path, ...]:
        """Kept inputs, sorted by name."""
        return tuple(sorted(path for path in (CORPUS / self.name).glob("*") if path.is_file()))


def parser(name: str, writer: str, *files: str, **bounds: Any) -> Callable[[Callable[[bytes], object]], Parser]:
    """Make a parser of the function below it. Files are below the engine, and those of the operator below the checkout."""
    whole = tuple(file if file.startswith("operator/") else f"plugins/module_utils/{file}" for file in files)
    return lambda parse: Parser(name=name, writer=writer, files=whole, parse=parse, **bounds)
