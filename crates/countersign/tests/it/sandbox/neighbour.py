"""Another process of the person's, outside of the sandbox, with everything that it could be reached by.

Says on stdout, as one line of JSON, how; then waits for the end of stdin and says what changed.
"""
import ctypes
import json
import os
import resource
import socket
import sys

libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
IPC_CREAT, IPC_RMID = 0o1000, 0
shown_socket, hidden_socket = sys.argv[1], sys.argv[2]


def fail(what):
    raise OSError(ctypes.get_errno(), what)


def made(number, what):
    return number if number >= 0 else fail(what)


key = os.getpid() & 0x7FFFFFF | 0x10000000
shm = made(libc.shmget(key, 4096, IPC_CREAT | 0o666), "shmget")
memory = libc.shmat(shm, None, 0)
ctypes.memmove(memory, b"untouched", 9)
sem = made(libc.semget(key, 1, IPC_CREAT | 0o666), "semget")
msg = made(libc.msgget(key, IPC_CREAT | 0o666), "msgget")
queue = f"/neighbour-{os.getpid()}"


class MqAttr(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_long), ("maxmsg", ctypes.c_long), ("msgsize", ctypes.c_long),
                ("curmsgs", ctypes.c_long), ("pad", ctypes.c_long * 4)]


mq = libc.mq_open(queue.encode(), os.O_RDWR | os.O_CREAT | os.O_NONBLOCK, 0o666, ctypes.byref(MqAttr(0, 4, 64, 0)))
sockets = []
for path in (shown_socket, hidden_socket):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    s.bind(path)
    os.chmod(path, 0o777)
    s.setblocking(False)
    sockets.append(s)


def state():
    attr = MqAttr()
    if mq >= 0:
        libc.mq_getattr(mq, ctypes.byref(attr))
    received = []
    for path, s in zip((shown_socket, hidden_socket), sockets):
        try:
            received.append([path, s.recv(64).decode()])
        except BlockingIOError:
            pass
    return {
        "limits": [resource.getrlimit(n) for n in range(16)],
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "affinity": sorted(os.sched_getaffinity(0)),
        "policy": os.sched_getscheduler(0),
        "ioprio": libc.syscall(252 if os.uname().machine == "x86_64" else 31, 1, 0),
        "memory": ctypes.string_at(memory, 9).decode(errors="replace"),
        "semaphore": libc.semctl(sem, 0, 12, 0),
        "messages": libc.msgrcv(msg, ctypes.create_string_buffer(128), 64, 0, 0o4000) >= 0,
        "queued": attr.curmsgs,
        "received": received,
    }


before = state()
print(json.dumps({"pid": os.getpid(), "key": key, "shm": shm, "sem": sem, "msg": msg, "mq": queue,
                  "sockets": [shown_socket, hidden_socket]}), flush=True)
sys.stdin.read()
after = state()
libc.shmctl(shm, IPC_RMID, None)
libc.semctl(sem, 0, IPC_RMID, 0)
libc.msgctl(msg, IPC_RMID, None)
libc.mq_unlink(queue.encode())
print(json.dumps({k: [before[k], after[k]] for k in before if before[k] != after[k]}), flush=True)
