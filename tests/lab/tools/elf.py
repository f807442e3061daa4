# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Whether a program can run in a pod of the lab, whose root holds no dynamic loader and no libc, read from the header of its file."""

from __future__ import annotations

import os
import struct
from pathlib import Path

_MACHINES = {0x3E: ("x86_64", "amd64"), 0xB7: ("aarch64", "arm64"), 0xF3: ("riscv64",), 0x16: ("s390x",), 0x15: ("ppc64le",)}
_INTERPRETER = 3  # PT_INTERP, elf(5)
_HEADER, _ENTRY = 64, 56


def why_not_in_a_pod(path: Path, machine: str = "") -> str:
    """A clause that says why the program cannot run in a pod; "" if nothing is known against it.

    :param machine: of this computer by default.

    Files that are no ELF programs of 64 bits, such as scripts of tests, are not judged.
    """
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER)
            if len(header) < _HEADER or header[:4] != b"\x7fELF" or header[4] != 2:
                return ""
            order = "<" if header[5] == 1 else ">"
            (kind,) = struct.unpack_from(f"{order}H", header, 0x12)
            (start,) = struct.unpack_from(f"{order}Q", header, 0x20)
            size, count = struct.unpack_from(f"{order}HH", header, 0x36)
            file.seek(start)
            table = file.read(min(size * count, 1 << 16))
            here = machine or os.uname().machine
            if kind in _MACHINES and here not in _MACHINES[kind]:
                return f"is a program for {_MACHINES[kind][0]}, and this machine is {here}"
            for place in range(0, len(table) - _ENTRY + 1, max(size, _ENTRY)):
                what, _flags, offset, _virtual, _physical, length = struct.unpack_from(f"{order}IIQQQQ", table, place)
                if what == _INTERPRETER:
                    file.seek(offset)
                    loader = file.read(min(length, 256)).rstrip(b"\0").decode(errors="replace")
                    return f"is linked dynamically and needs {loader}, and the root of a pod holds no loader and no libc"
    except (OSError, ValueError, struct.error):  # ValueError: a header that points behind the end of any file
        return ""
    return ""
