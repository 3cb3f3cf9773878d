"""A network namespace with loopback and nothing else, for this process and all that it starts."""
import ctypes
import errno
import fcntl
import os
import shutil
import socket
import struct
import sys

INSIDE = "COUNTERSIGN_REHEARSAL_INSIDE"
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4


def enter():
    """Starts this program again inside; returns only there."""
    if os.environ.get(INSIDE) != "yes":
        tool = shutil.which("unshare")
        if tool is None:
            sys.exit("real-agents: unshare (util-linux) is not installed")
        # An ordinary user makes the namespace in a user namespace, as the same user.
        user = [] if os.geteuid() == 0 else ["--user", "--map-current-user", "--keep-caps"]
        os.environ[INSIDE] = "yes"
        os.execv(tool, [tool, *user, "--net", "--", sys.executable, *sys.argv])
    del os.environ[INSIDE]
    raise_loopback()
    ctypes.CDLL(None).prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    prove()


def raise_loopback():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh", b"lo", 0)
        flags = struct.unpack("16sh", fcntl.ioctl(any_socket, SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh", b"lo", flags | IFF_UP))


def prove():
    """Nothing may be rehearsed where the outside can be reached."""
    others = [name for _, name in socket.if_nameindex() if name != "lo"]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        reached = probe.connect_ex(("192.0.2.1", 9))
    if others and has_address(others) or reached not in (errno.ENETUNREACH, errno.EHOSTUNREACH):
        sys.exit("real-agents: the network namespace is not closed; nothing was started")


def has_address(names):
    """Kernels may make tunnel devices in every namespace; they are down, and without routes."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for name in names:
            request = struct.pack("16sh", name.encode(), 0)
            if struct.unpack("16sh", fcntl.ioctl(any_socket, SIOCGIFFLAGS, request))[1] & IFF_UP:
                return True
    return False
