# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Fuzzing of all parsers, one after the other, in the minutes that are given: ``make fuzz`` (FUZZ_MINUTES, FUZZ_PARSERS, FUZZ_SEED).

Prints per parser the engine, the inputs tried and the defects; the seed repeats the run. An input that shows a defect is kept in the
corpus.
"""

from __future__ import annotations

import argparse
import re
import secrets
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Final

from tests.collection_path import CHECKOUT
from tests.fuzz.engine import HANG, SCRATCH, keep
from tests.fuzz.parsers import PARSERS

SETTLING: Final = 600  # seconds that a process may take beyond its time, on a busy machine: imports with instrumentation, one last input


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of fuzzing one parser. ``defects`` are sentences, with the kept input."""

    engine: str = "none"
    tried: int = 0
    defects: tuple[str, ...] = ()


def outcome_of(name: str, output: str, status: int) -> Outcome:
    """Return what a process of ``tests.fuzz.engine`` said and left behind."""
    engine = re.search(r"^engine=(\w+)", output, re.MULTILINE)
    tried = re.search(r"^tried=(\d+)", output, re.MULTILINE) or re.search(r"^stat::number_of_executed_units: *(\d+)", output, re.MULTILINE)
    defects = re.findall(r"^defect=(.*)$", output, re.MULTILINE)
    if status and not defects:  # a hang, too much memory, a signal: libFuzzer has written the input itself
        left = sorted((SCRATCH / "artifacts").glob(f"{name}-*"))
        kept = [keep(PARSERS[name], path.read_bytes()) for path in left]
        last = next((line for line in reversed(output.splitlines()) if line.strip()), "")
        defects = [f"{path.relative_to(CHECKOUT)} {name}: ended with status {status}" for path in kept] or [
            f"{name}: ended with status {status} and left no input; last line: {last[:200]}"
        ]
    return Outcome(engine=engine[1] if engine else "none", tried=int(tried[1]) if tried else 0, defects=tuple(dict.fromkeys(defects)))


def fuzz(name: str, seconds: float, seed: int) -> Outcome:
    """Fuzz one parser in a process of its own."""
    for path in (SCRATCH / "artifacts").glob(f"{name}-*"):
        path.unlink()
    command = [sys.executable, "-m", "tests.fuzz.engine", name, str(seconds), str(seed)]
    process = subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    try:
        output, _ = process.communicate(timeout=seconds + HANG + SETTLING)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        output, _ = process.communicate()
    (SCRATCH / f"{name}.log").write_text(output, encoding="utf-8")
    return outcome_of(name, output, process.returncode)


def main() -> int:
    """Fuzz the parsers and print a table. The status is 1 if there is a defect."""
    arguments = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    arguments.add_argument("parsers", nargs="*", choices=[*PARSERS, []], help="parsers to fuzz; all if none is named")
    arguments.add_argument("--minutes", type=float, default=10.0, help="in all, shared equally")
    arguments.add_argument("--seed", type=int, default=None, help="of an earlier run, to repeat it")
    given = arguments.parse_args()
    names, seed = given.parsers or list(PARSERS), given.seed if given.seed is not None else secrets.randbelow(2**31 - 1) + 1
    SCRATCH.mkdir(parents=True, exist_ok=True)
    seconds = max(1.0, given.minutes * 60 / len(names))
    defects: list[str] = []
    print(f"{len(names)} parsers, {seconds:.0f} s each, seed {seed}", flush=True)
    for name in names:
        started = time.monotonic()
        found = fuzz(name, seconds, seed)
        spent = time.monotonic() - started
        print(f"{name:<16} {found.engine:<8} {found.tried:>9} inputs {len(found.defects)} new findings {spent:>5.0f} s", flush=True)
        for defect in found.defects:
            print(f"    {defect}", flush=True)
        defects += found.defects
    if defects:
        print("Repeat a finding: make test-fast ARGS='-k kept_inputs'; or the whole run: FUZZ_SEED and FUZZ_PARSERS of make fuzz.")
    return 1 if defects else 0


if __name__ == "__main__":
    sys.exit(main())
