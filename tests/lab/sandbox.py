# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Launcher of every process of a lab. It is started once per process and gone as soon as the process runs, because it becomes it.

It must start fast: this is a third of what a command in a container costs. So it imports the smallest modules alone, others only where they
are needed, and Python finds it compiled (LAUNCHER in processes.py).

    sandbox exec -- PROGRAM ARGS…             the process dies with its parent
    sandbox run SPEC CONTAINER -- PROGRAM…    the same, inside a container of a pod
    sandbox connect SPEC PORT                 pipe standard input and output to 127.0.0.1:PORT inside the pod

SPEC is a file in Python's marshal format, which needs no import: ``{"netns": path or null, "root": empty folder,
"binds": [[source, target, readOnly], …], "dirs": [path, …], "links": [[target, path], …],
"containers": {name: {"env": {…}, "mounts": [[source, target, readOnly], …]}}}``. On a node with a real agent it also has
``"node": {"cgroup": path}``.
Exit status 127: PROGRAM is not in the container; 126: the container could not be made.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import sys

TYPE_CHECKING = False  # as of typing, whose import costs as much as the start of Python
if TYPE_CHECKING:
    import socket
    from typing import Any, NoReturn

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWNET = 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
MS_RELATIME = 1 << 21
PR_SET_PDEATHSIG = 1
SIGKILL = 9  # module signal imports enum
# Flags that a mount inherited from a more privileged namespace keeps: a remount must name them again (mount_namespaces(7)).
_KEPT = {
    os.ST_NOSUID: MS_NOSUID,
    os.ST_NODEV: MS_NODEV,
    os.ST_NOEXEC: 8,
    os.ST_NOATIME: 1024,
    os.ST_NODIRATIME: 2048,
    os.ST_RELATIME: MS_RELATIME,
}

PROC = "/.proc"
"""Where a node's processes have procfs itself."""

libc = ctypes.CDLL(None, use_errno=True)


def check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    """mount(2). Raises OSError that names the target."""
    check(libc.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data.encode()), f"mount on {target}")


def bind(source: str, target: str, read_only: bool) -> None:
    """Bind ``source`` (file or folder) on ``target``, which is created."""
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "a", encoding="ascii"):
            pass
    mount(source, target, "none", MS_BIND | MS_REC)
    if read_only:
        have = os.statvfs(target).f_flag
        kept = sum(flag for shown, flag in _KEPT.items() if have & shown)
        mount("none", target, "none", MS_BIND | MS_REMOUNT | MS_RDONLY | kept)


def enter_network(path: str | None) -> None:
    """Move this thread to the network namespace at ``path``, or to a new, empty one."""
    if path is None:
        check(libc.unshare(CLONE_NEWNET), "unshare the network namespace")
        return
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        check(libc.setns(handle, CLONE_NEWNET), f"enter the network namespace {path}")
    finally:
        os.close(handle)


def enter_root(spec: dict[str, Any], container: dict[str, Any]) -> None:
    """Make the container's root on a tmpfs of a private mount namespace (it vanishes with the process) and move into it."""
    root, node = spec["root"], spec.get("node")
    if node:
        enter_cgroup(node["cgroup"])
    check(libc.unshare(CLONE_NEWNS), "unshare the mount namespace")
    mount("none", "/", "none", MS_REC | MS_PRIVATE)
    mount("tmpfs", root, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=64m")
    if node:
        mount_kernel(root)
    for path in spec["dirs"]:
        os.makedirs(root + path, exist_ok=True)
    for source, target, read_only in [*spec["binds"], *container["mounts"]]:
        bind(source, root + target, read_only)
    for target, path in spec["links"]:
        os.makedirs(os.path.dirname(root + path), exist_ok=True)
        os.symlink(target, root + path)
    os.chroot(root)
    os.chdir("/")


def enter_cgroup(path: str) -> None:
    """Move this process to a cgroup, which is the root of all that it sees: an agent attaches programs there (socket load balancing)."""
    with open(f"{path}/cgroup.procs", "w", encoding="ascii") as file:
        file.write("0")
    check(libc.unshare(CLONE_NEWCGROUP), "unshare the cgroup namespace")


def mount_kernel(root: str) -> None:
    """Mount what an agent reads of the kernel: sysfs of its network, and a /proc of the lab's process ids that names no kernel module.

    A kernel without modules has no /proc/modules, and agents of 1.15 end there ("failed to retrieve loaded modules names",
    pkg/datapath/linux/modules/modules_linux.go). So /proc is a folder of links into the real one.
    """
    for path, kind in (("/sys", "sysfs"), (PROC, "proc")):
        os.makedirs(root + path)
        mount(kind, root + path, kind, MS_NOSUID | MS_NODEV)
    for name in os.listdir(f"{root}{PROC}/sys"):
        if name != "net":  # which is that of the network namespace; agents write to others too (pkg/datapath/loader/base.go)
            bind(f"{root}{PROC}/sys/{name}", f"{root}{PROC}/sys/{name}", True)
    os.makedirs(f"{root}/proc")
    for name in os.listdir(root + PROC):
        if not name.isdigit() and name != "modules":
            os.symlink(f"{PROC}/{name}", f"{root}/proc/{name}")
    os.symlink(f"{PROC}/{os.getpid()}", f"{root}/proc/{os.getpid()}")  # libraries find their network namespace by it
    with open(f"{root}/proc/modules", "x", encoding="ascii"):
        pass


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent is gone; must be the last step before execve, since changes of credentials reset
    it."""
    parent = os.getppid()
    check(libc.prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0), "prctl")
    if os.getppid() != parent:  # it died in between
        os._exit(126)


def become(argv: list[str], env: dict[str, str]) -> NoReturn:
    """Run the program in the place of this process. os.execvpe imports a module, which the container does not have."""
    die_with_parent()
    for folder in [""] if "/" in argv[0] else env.get("PATH", os.defpath).split(os.pathsep):
        try:
            os.execve(os.path.join(folder, argv[0]), argv, env)
        except (FileNotFoundError, NotADirectoryError):
            continue
    raise FileNotFoundError(f"{argv[0]} is not in the container")


def read_spec(path: str) -> dict[str, Any]:
    with open(path, "rb") as file:
        spec: dict[str, Any] = marshal.load(file)
    return spec


def run(spec_path: str, name: str, argv: list[str]) -> NoReturn:
    spec = read_spec(spec_path)
    container = spec["containers"].get(name)
    if container is None:
        raise OSError(f"the pod has no container {name}")
    enter_network(spec["netns"])
    enter_root(spec, container)
    become(argv, container["env"])


def connect(spec_path: str, port: int) -> int:
    """Pipe until either side ends. A port without a listener is exit status 1 with the reason on standard error."""
    import socket
    import threading

    spec = read_spec(spec_path)
    die_with_parent()
    enter_network(spec["netns"])
    with socket.create_connection(("127.0.0.1", port)) as peer:
        threading.Thread(target=_send, args=(peer,), daemon=True).start()
        while data := peer.recv(65536):
            view = memoryview(data)
            while view:
                view = view[os.write(1, view) :]
    return 0


def _send(peer: socket.socket) -> None:
    try:
        while data := os.read(0, 65536):
            peer.sendall(data)
        peer.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def main(argv: list[str]) -> int:
    try:
        if argv[0] == "exec":
            become(argv[2:], dict(os.environ))
        if argv[0] == "connect":
            return connect(argv[1], int(argv[2]))
        run(argv[1], argv[2], argv[4:])
    except FileNotFoundError as error:
        print(f"{argv[0]}: {error}", file=sys.stderr)
        return 127
    except (OSError, IndexError, ValueError) as error:
        print(f"{argv[0] if argv else 'sandbox'}: {error}", file=sys.stderr)
        return 1 if argv and argv[0] == "connect" else 126
