# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Compare the locked packages with the database of known vulnerabilities, by pip-audit: ``make audit``.

The status is 1 where a package has a known vulnerability, and where pip-audit fails for a reason of its own. Where the database does not
answer, nothing is known: then the last line says so with the reason, and the status is 0.

    python requirements/audit.py [LOCK...]
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
LOCKS = ("operator", "image", "operator-build", "build", "collections", "fuzz", "dev")
AWAY = re.compile(
    r"ConnectionError|ConnectTimeout|ReadTimeout|ProxyError|NameResolutionError|Failed to resolve|timed out|SSLError"
    r"|(?:[Ss]tatus|HTTP|Error:?) ?(?:code )?(?:403|407|429|50[0-9])\b"
)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What is known of one lock. ``vulnerable`` and ``unknown`` are sentences, ``away`` the reason why the database was not asked."""

    checked: int = 0
    vulnerable: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    away: str = ""
    failed: str = ""


def verdict_of(stdout: str, stderr: str, status: int) -> Verdict:
    """Return the verdict from the output of ``pip-audit --format json`` and its exit status."""
    try:
        rows = json.loads(stdout)["dependencies"]
    except (ValueError, KeyError, TypeError):
        last = next((line.strip() for line in reversed(stderr.splitlines()) if line.strip()), f"status {status}")
        found = AWAY.search(stderr)
        return Verdict(away=f"the database of vulnerabilities does not answer ({found[0]})") if found else Verdict(failed=last[:300])
    unknown = tuple(f"{row['name']}: {row['skip_reason']}" for row in rows if row.get("skip_reason"))
    checked = [row for row in rows if not row.get("skip_reason")]
    if rows and not checked:  # an index without this part of its interface answers for every package that it does not know it
        return Verdict(away=f"the package index has no data about vulnerabilities, of none of {len(rows)} packages")
    vulnerable = tuple(
        f"{row['name']} {row['version']}: {hole['id']}, fixed in {', '.join(hole['fix_versions']) or 'no version yet'}"
        for row in checked
        for hole in row["vulns"]
    )
    return Verdict(checked=len(checked), vulnerable=vulnerable, unknown=unknown)


def audit(lock: Path) -> Verdict:
    """Ask about each package of a lock. Nothing is installed or downloaded but answers about the packages."""
    options = ["--disable-pip", "--require-hashes", "--format", "json", "--progress-spinner", "off"]
    command = [sys.executable, "-m", "pip_audit", "-r", str(lock), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return verdict_of(done.stdout, done.stderr, done.returncode)


def main() -> int:
    """Audit the locks and print a line for each."""
    names = sys.argv[1:] or [str(FOLDER / f"{name}.txt") for name in LOCKS]
    found: dict[str, Verdict] = {}
    for name in names:
        found[name] = audit(Path(name))
        if found[name].away:
            break  # it would not answer about the next one either
    for name, verdict in found.items():
        for sentence in (*verdict.vulnerable, *verdict.unknown):
            print(f"{name}: {sentence}")
        if verdict.failed:
            print(f"{name}: pip-audit failed: {verdict.failed}")
    away = next((verdict.away for verdict in found.values() if verdict.away), "")
    if any(verdict.vulnerable or verdict.unknown or verdict.failed for verdict in found.values()):
        print("audit: FAILED")
        return 1
    checked = sum(verdict.checked for verdict in found.values())
    print(f"audit: NOT DONE: {away}" if away else f"audit: {checked} packages have no known vulnerability")
    return 0


if __name__ == "__main__":
    sys.exit(main())
