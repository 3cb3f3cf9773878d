"""Tries to reach a process outside by every call that takes a process, a key or a socket's path.

Runs inside. One line of JSON per attempt, and the number of attempts at the end. What it says of
itself is compared with what the neighbour says of itself.
"""
import ctypes
import itertools
import json
import os
import socket
import struct
import sys

N = json.loads(sys.argv[1])
PID = N["pid"]
X86 = os.uname().machine == "x86_64"
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
libc.shmat.restype = ctypes.c_void_p
count = 0
NR = {  # x86_64 first, aarch64 second
    "prlimit64": (302, 261), "setpriority": (141, 140), "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118), "sched_setattr": (314, 274), "sched_setaffinity": (203, 122),
    "ioprio_set": (251, 30), "migrate_pages": (256, 238), "move_pages": (279, 239),
    "process_mrelease": (448, 448), "pidfd_open": (434, 434), "kill": (62, 129), "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240), "pidfd_send_signal": (424, 424),
    "shmget": (29, 194), "semget": (64, 190), "msgget": (68, 186), "setpgid": (109, 154),
}


def call(name, *args):
    ctypes.set_errno(0)
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    result = libc.syscall(ctypes.c_long(NR[name][0 if X86 else 1]), *words)
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return result


def attempt(name, body):
    global count
    count += 1
    try:
        gained = body()
        succeeded, detail = bool(gained), str(gained)[:100]
    except BaseException as error:
        succeeded, detail = False, f"{type(error).__name__}: {error}"[:100]
    print(json.dumps({"attempt": name, "succeeded": succeeded, "detail": detail}), flush=True)


def done(name, *args):
    return lambda: call(name, *args) is not None


new = struct.pack("QQ", 0, 0)
for resource in range(16):
    attempt(f"limit {resource} of the neighbour", done("prlimit64", PID, resource, new, None))
attempt("the processor limit of the neighbour, with flags in the high half", done("prlimit64", PID | 1 << 32, 0, new, None))
# In a PID namespace all of a user's processes are those inside.
everybody = sys.argv[2] == "landlock"
for which, who in [(0, PID), (1, PID)] + [(2, os.getuid()), (2, 0)] * everybody:
    attempt(f"priority of kind {which}, {who}", done("setpriority", which, who, 15))
for which, who in [(1, PID), (2, PID)] + [(3, os.getuid()), (3, 0)] * everybody:
    attempt(f"input priority of kind {which}, {who}", done("ioprio_set", which, who, 3 << 13))
for policy in (0, 3, 5):
    attempt(f"scheduler {policy} of the neighbour", done("sched_setscheduler", PID, policy, struct.pack("i", 0)))
attempt("scheduler parameters of the neighbour", done("sched_setparam", PID, struct.pack("i", 0)))
attempt("scheduler attributes of the neighbour", done("sched_setattr", PID, struct.pack("IIQiIQQQ", 48, 3, 0, 5, 0, 0, 0, 0), 0))
attempt("processors of the neighbour", done("sched_setaffinity", PID, 8, struct.pack("Q", 1)))
attempt("pages of the neighbour, to another node", done("migrate_pages", PID, 8, struct.pack("Q", 1), struct.pack("Q", 1)))
attempt("pages of the neighbour, one by one", lambda: call("move_pages", PID, 1, struct.pack("Q", 0x400000), None, ctypes.create_string_buffer(8), 0) >= 0)
for number in (0, 1, 10, 15, 18, 19, 23):
    attempt(f"signal {number} to the neighbour", lambda n=number: call("kill", PID, n) is not None and os.path.exists(f"/proc/{PID}") and n)
    attempt(f"signal {number} to its thread", lambda n=number: call("tgkill", PID, PID, n) is not None and n)
info = struct.pack("iiii", 10, 0, -1, 0) + bytes(112)
attempt("a queued signal", done("rt_sigqueueinfo", PID, 10, info))
attempt("a queued signal to its thread", done("rt_tgsigqueueinfo", PID, PID, 10, info))
attempt("a signal through its handle", lambda: call("pidfd_send_signal", call("pidfd_open", PID, 0), 10, None, 0) is not None)
attempt("its memory, at its end", lambda: call("process_mrelease", call("pidfd_open", PID, 0), 0) is not None)
attempt("its process group", done("setpgid", PID, os.getpgid(0)))
# ---- System V, by number and by key
for flags, name in ((0, "for reading and writing"), (0o10000, "for reading")):
    def attach(flags=flags):
        at = libc.shmat(N["shm"], None, flags)
        if at in (None, ctypes.c_void_p(-1).value):
            return None
        if not flags:
            ctypes.memmove(at, b"tampered!", 9)
        return ctypes.string_at(at, 9)
    attempt(f"its shared memory {name}", attach)
attempt("its shared memory by key", lambda: call("shmget", N["key"], 4096, 0) >= 0 and "found")
attempt("its shared memory, described", lambda: libc.shmctl(N["shm"], 2, ctypes.create_string_buffer(256)) >= 0)
attempt("its shared memory, removed", lambda: libc.shmctl(N["shm"], 0, None) >= 0)
attempt("its semaphore, set", lambda: libc.semctl(N["sem"], 0, 16, 7) >= 0)
attempt("its semaphore, raised", lambda: libc.semop(N["sem"], struct.pack("Hhh", 0, 1, 0), 1) >= 0)
attempt("its semaphore, read", lambda: libc.semctl(N["sem"], 0, 12, 0) >= 0 and "read")
attempt("its semaphore by key", lambda: call("semget", N["key"], 1, 0) >= 0 and "found")
attempt("its semaphore, removed", lambda: libc.semctl(N["sem"], 0, 0, 0) >= 0 and "removed")
attempt("a message to its queue", lambda: libc.msgsnd(N["msg"], struct.pack("l", 1) + b"tampered", 8, 0o4000) == 0)
attempt("a message from its queue", lambda: libc.msgrcv(N["msg"], ctypes.create_string_buffer(128), 64, 0, 0o4000) >= 0)
attempt("its queue by key", lambda: call("msgget", N["key"], 0) >= 0 and "found")
attempt("its queue, removed", lambda: libc.msgctl(N["msg"], 0, None) == 0)
# ---- POSIX queues
attempt("its named queue", lambda: (lambda fd: fd >= 0 and libc.mq_send(fd, b"tampered", 8, 0) == 0)(libc.mq_open(N["mq"].encode(), os.O_RDWR | os.O_NONBLOCK)))
attempt("its named queue, removed", lambda: libc.mq_unlink(N["mq"].encode()) == 0)


# ---- datagrams to sockets with a path
def sent(make, path):
    def body():
        s = make()
        s.settimeout(2)
        return s.sendto(b"tampered", path)
    return body


def connected(make, path):
    def body():
        s = make()
        s.settimeout(2)
        s.connect(path)
        return s.send(b"tampered")
    return body


KINDS = {"datagram": socket.SOCK_DGRAM, "raw": socket.SOCK_RAW, "stream": socket.SOCK_STREAM, "packet": socket.SOCK_SEQPACKET}
for path in N["sockets"]:
    # Where the directory is not there, a path leads to nothing; where it is, it must lead to nobody.
    for (name, kind), extra in itertools.product(KINDS.items(), (0, socket.SOCK_NONBLOCK, socket.SOCK_CLOEXEC)):
        pair = lambda kind=kind, extra=extra: socket.socketpair(socket.AF_UNIX, kind | extra)[0]
        single = lambda kind=kind, extra=extra: socket.socket(socket.AF_UNIX, kind | extra)
        for how, make in (("pair", pair), ("socket", single)):
            attempt(f"a {name} {how} ({extra}) sends to {os.path.basename(path)}", sent(make, path))
            attempt(f"a {name} {how} ({extra}) connects to {os.path.basename(path)}", connected(make, path))
print(json.dumps({"end": count}), flush=True)
