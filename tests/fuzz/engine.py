# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Fuzzing of one parser in a process of its own: ``python -m tests.fuzz.engine NAME SECONDS SEED``. It ends at the first defect.

With atheris (libFuzzer), mutations that reach new code are kept and mutated further; hangs and growth within C are noticed as well.
Without it, kept inputs are mutated at random. Prints lines ``key=value`` on standard output: engine, tried, and defect with its input.
"""

from __future__ import annotations

import hashlib
import importlib
import sys
import time
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

from tests.collection_path import CHECKOUT
from tests.fuzz.parser import CORPUS, INPUT_LIMIT, Defect

if TYPE_CHECKING:
    from tests.fuzz.parser import Parser

SCRATCH: Final = CHECKOUT / ".build" / "fuzz"
HANG: Final = 60  # seconds of one input; the bound on CPU time is the parser's own
MEMORY: Final = 3072  # MiB of the process


def keep(parser: Parser, data: bytes) -> Path:
    """Write an input that shows a defect into the corpus, and return its path. It is replayed by ``make test`` from then on."""
    path = CORPUS / parser.name / f"found-{hashlib.sha256(data).hexdigest()[:12]}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def smallest(parser: Parser, data: bytes, *, tries: int = 2000) -> bytes:
    """Return a shorter input that shows a defect too: parts are taken away as long as there is one."""
    size = max(1, len(data) // 2)
    while size and tries > 0:
        place = 0
        while place < len(data) and tries > 0:
            shorter, tries = data[:place] + data[place + size :], tries - 1
            if _is_defect(parser, shorter):
                data = shorter
            else:
                place += size
        size //= 2
    return data


def _is_defect(parser: Parser, data: bytes) -> bool:
    try:
        parser.check(data)
    except Defect:
        return True
    return False


def report(parser: Parser, data: bytes, defect: Defect) -> None:
    """Keep the input, made as small as is quickly possible, and print both."""
    started = time.monotonic()
    path = keep(parser, smallest(parser, data) if len(data) < INPUT_LIMIT and time.monotonic() - started < 1 else data)
    print(f"defect={path.relative_to(CHECKOUT)} {defect}", flush=True)


def at_random(parser: Parser, seconds: float, seed: int) -> None:
    """Mutate kept inputs until the time is up or a defect is found."""
    from tests.fuzz.mutations import mutated

    corpus, random, tried = [path.read_bytes() for path in parser.corpus], Random(seed), 0
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        data, tried = mutated(random, corpus, parser.form), tried + 1
        try:
            parser.check(data)
        except Defect as defect:
            report(parser, data, defect)
            break
    print(f"tried={tried}", flush=True)


def by_coverage(atheris: Any, parser: Parser, seconds: float, seed: int) -> None:
    """Hand the parser to libFuzzer. It ends the process: 0 when the time is up, another status after a defect."""
    from tests.fuzz.mutations import mutated

    kept = [path.read_bytes() for path in parser.corpus]
    grown = SCRATCH / "corpus" / parser.name  # what reaches new code, for the next run; not part of the repository
    grown.mkdir(parents=True, exist_ok=True)
    (SCRATCH / "artifacts").mkdir(exist_ok=True)

    def test_one_input(data: bytes) -> None:
        try:
            parser.check(data)
        except Defect as defect:
            report(parser, data, defect)
            raise

    def mutate(data: bytes, longest: int, chosen: int) -> bytes:
        random = Random(chosen)
        if random.random() < 0.3:
            return bytes(atheris.Mutate(data, longest))
        return mutated(random, [data, *random.sample(kept, min(2, len(kept)))], parser.form)[:longest]

    options = {
        "max_total_time": max(1, int(seconds)),
        "seed": seed,
        "timeout": HANG,
        "rss_limit_mb": MEMORY,
        "max_len": INPUT_LIMIT,
        "print_final_stats": 1,
        "artifact_prefix": f"{SCRATCH / 'artifacts'}/{parser.name}-",
    }
    flags = [f"-{name}={value}" for name, value in options.items()]
    atheris.Setup([parser.name, *flags, str(grown), str(CORPUS / parser.name)], test_one_input, custom_mutator=mutate)
    atheris.Fuzz()


def main() -> int:
    """Fuzz one parser."""
    name, seconds, seed = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
    try:
        atheris: Any = importlib.import_module("atheris")  # not in the lock of development: see requirements/fuzz.in
    except ImportError:
        atheris = None
    if atheris is None:
        from tests.fuzz.parsers import PARSERS

        print("engine=random", flush=True)
        at_random(PARSERS[name], seconds, seed)
        return 0
    with atheris.instrument_imports(include=["ansible_collections.edge_portal.cilium_mesh.plugins.module_utils", "mesh_operator"]):
        from tests.fuzz.parsers import PARSERS
    print("engine=atheris", flush=True)
    by_coverage(atheris, PARSERS[name], seconds, seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
