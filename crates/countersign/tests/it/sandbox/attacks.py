"""Tries to get out of the sandbox, one way after another, and says what came of each.

Runs inside. One line of JSON per attempt: {"attempt": NAME, "succeeded": BOOL, "detail": TEXT}.
Whatever an attempt is not sure about, the test outside looks at once more: the checkout, the
canaries, the helper and the victim.
"""
import ctypes
import errno
import fcntl
import json
import os
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys

G = json.load(open(sys.argv[1]))
CHECKOUT, HOME, SCRATCH = G["checkout"], G["home"], G["scratch"]
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
RESULTS = []
X86 = os.uname().machine == "x86_64"
NR = {  # x86_64 first, aarch64 second
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "unshare": (272, 97), "setns": (308, 268), "ptrace": (101, 117), "bpf": (321, 280),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "keyctl": (250, 219),
    "add_key": (248, 217), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425), "open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264),
    "init_module": (175, 105), "kexec_load": (246, 104), "reboot": (169, 142), "swapon": (167, 224),
    "clock_settime": (227, 112), "settimeofday": (164, 170), "sethostname": (170, 161),
    "syslog": (103, 116), "clone3": (435, 435), "clone": (56, 220), "open_tree": (428, 428),
    "fsopen": (430, 430), "move_mount": (429, 429), "mount_setattr": (442, 442),
    "pidfd_getfd": (438, 438), "fanotify_init": (300, 262), "quotactl": (179, 60),
    "acct": (163, 89), "fchmodat2": (452, 452), "setxattrat": (463, 463), "kcmp": (312, 272),
    "memfd_create": (319, 279), "pidfd_open": (434, 434), "process_madvise": (440, 440),
}


def call(name, *args):
    number = NR[name][0 if X86 else 1]
    args = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *args)
    if result < 0:
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")
    return result


# Unconfined, these would reach beyond the ground.
UNCONFINED = sys.argv[2:] == ["unconfined"]
BEYOND = {"kill the first process", "type into the controlling terminal", "fork without end"}


def restore():
    """Unconfined, what one attempt spoiled must not fail the next."""
    backup = SCRATCH + "/../backup"
    if not os.path.exists(backup):
        shutil.copytree(CHECKOUT, backup)
    for path in (CHECKOUT, CHECKOUT + "-moved", SCRATCH):
        shutil.rmtree(path, ignore_errors=True)
    os.mkdir(SCRATCH)
    shutil.copytree(backup, CHECKOUT)
    os.chdir("/")


def attempt(name):
    def run(body):
        if UNCONFINED:
            if name in BEYOND:
                return body
            restore()
        try:
            gained = body()
            succeeded, detail = bool(gained), "" if gained is None else str(gained)[:200]
        except BaseException as error:  # a refusal may take any form
            succeeded, detail = False, f"{type(error).__name__}: {error}"[:200]
        RESULTS.append(name)
        print(json.dumps({"attempt": name, "succeeded": succeeded, "detail": detail}), flush=True)
        return body
    return run


def in_child(body):
    """In a process of its own, so that what it breaks is only itself. True if it says so."""
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(7 if body() else 0)
        except BaseException:
            os._exit(0)
    _, status = os.waitpid(pid, 0)
    return os.WIFEXITED(status) and os.WEXITSTATUS(status) == 7


def b(path):
    return os.fsencode(path)


FILE = os.path.join(CHECKOUT, "src.txt")
# ---- the checkout: content, names, links


def write(path, flags=os.O_WRONLY):
    fd = os.open(path, flags, 0o644)
    os.write(fd, b"tampered")
    os.close(fd)
    return path


attempt("overwrite a file of the checkout")(lambda: write(FILE))
attempt("append to a file of the checkout")(lambda: write(FILE, os.O_WRONLY | os.O_APPEND))
attempt("truncate a file of the checkout")(lambda: os.truncate(FILE, 0) is None)
attempt("open a file of the checkout with O_TRUNC, for reading")(lambda: os.open(FILE, os.O_RDONLY | os.O_TRUNC))
attempt("make a file in the checkout")(lambda: write(os.path.join(CHECKOUT, "new"), os.O_WRONLY | os.O_CREAT))
attempt("make an unnamed file in the checkout")(lambda: os.open(CHECKOUT, os.O_TMPFILE | os.O_RDWR, 0o600))
attempt("make a directory in the checkout")(lambda: os.mkdir(os.path.join(CHECKOUT, "newdir")) is None)
attempt("delete a file of the checkout")(lambda: os.unlink(FILE) is None)
attempt("rename a file of the checkout")(lambda: os.rename(FILE, FILE + ".moved") is None)
attempt("move a file out of the checkout")(lambda: os.rename(FILE, os.path.join(SCRATCH, "stolen")) is None)
attempt("move a file over one of the checkout")(lambda: (open(os.path.join(SCRATCH, "over"), "w").close(), os.rename(os.path.join(SCRATCH, "over"), FILE))[1] is None)
attempt("rename the checkout itself")(lambda: os.rename(CHECKOUT, CHECKOUT + "-moved") is None)
attempt("link a file into the checkout")(lambda: (open(os.path.join(SCRATCH, "l"), "w").close(), os.link(os.path.join(SCRATCH, "l"), os.path.join(CHECKOUT, "l")))[1] is None)
attempt("link a file out of the checkout and write through it")(lambda: (os.link(FILE, os.path.join(SCRATCH, "out")), write(os.path.join(SCRATCH, "out")))[1])
attempt("symlink into the checkout")(lambda: os.symlink("/etc/passwd", os.path.join(CHECKOUT, "s")) is None)
attempt("write through a symlink from scratch")(lambda: (os.symlink(FILE, os.path.join(SCRATCH, "sym")), write(os.path.join(SCRATCH, "sym")))[1])
attempt("write through /proc/self/root")(lambda: write("/proc/self/root" + FILE))
attempt("write through /proc/self/cwd")(lambda: (os.chdir(CHECKOUT), write("/proc/self/cwd/src.txt"))[1])
attempt("reopen a reading handle for writing")(lambda: write(f"/proc/self/fd/{os.open(FILE, os.O_RDONLY)}"))
attempt("make a socket in the checkout")(lambda: socket.socket(socket.AF_UNIX).bind(os.path.join(CHECKOUT, "sock")) is None)
attempt("make a pipe in the checkout")(lambda: os.mkfifo(os.path.join(CHECKOUT, "fifo")) is None)
# ---- metadata
attempt("chmod a file of the checkout")(lambda: os.chmod(FILE, 0o777) is None)
attempt("fchmod a file of the checkout")(lambda: os.fchmod(os.open(FILE, os.O_RDONLY), 0o777) is None)
attempt("fchmodat2 a file of the checkout")(lambda: call("fchmodat2", -100, b(FILE), 0o777, 0) == 0)
attempt("chown a file of the checkout")(lambda: os.chown(FILE, os.getuid(), os.getgid()) is None)
attempt("set the times of a file of the checkout")(lambda: os.utime(FILE, (1, 1)) is None)
attempt("set an attribute of a file of the checkout")(lambda: os.setxattr(FILE, "user.x", b"1") is None)
attempt("set flags of a file of the checkout")(lambda: fcntl.ioctl(os.open(FILE, os.O_RDONLY), 0x40086602, struct.pack("l", 0x80)) is not None)
attempt("chmod the directory of the checkout")(lambda: os.chmod(CHECKOUT, 0o700) is None)
# ---- git
GIT = os.path.join(CHECKOUT, ".git")
attempt("write the git configuration")(lambda: write(os.path.join(GIT, "config"), os.O_WRONLY | os.O_APPEND))
attempt("put up a git hook")(lambda: (os.makedirs(os.path.join(GIT, "hooks"), exist_ok=True), write(os.path.join(GIT, "hooks/post-checkout"), os.O_WRONLY | os.O_CREAT))[1])
attempt("move a git ref")(lambda: write(os.path.join(GIT, "refs/heads/change")))
attempt("move HEAD")(lambda: write(os.path.join(GIT, "HEAD")))
attempt("replace the git directory by a pointer")(lambda: os.rename(GIT, GIT + "2") is None)
attempt("commit in the checkout")(lambda: subprocess.run(["git", "-C", CHECKOUT, "-c", "user.name=x", "-c", "user.email=x", "commit", "--allow-empty", "-qm", "x"], capture_output=True).returncode == 0)
attempt("write an object into the mirror")(lambda: write(os.path.join(G["mirror"], "objects/evil"), os.O_WRONLY | os.O_CREAT))
# ---- mounts, roots, namespaces
attempt("remount the checkout for writing")(lambda: call("mount", b"none", b(CHECKOUT), b"", 32 | 4096, None) == 0)
attempt("remount the root for writing")(lambda: call("mount", b"none", b"/", b"", 32, None) == 0)
attempt("bind scratch over the checkout")(lambda: call("mount", b(SCRATCH), b(CHECKOUT), b"", 4096, None) == 0)
attempt("mount memory over the checkout")(lambda: call("mount", b"tmpfs", b(CHECKOUT), b"tmpfs", 0, None) == 0)
attempt("unmount the checkout")(lambda: call("umount2", b(CHECKOUT), 2) == 0)
attempt("pivot the root")(lambda: call("pivot_root", b(SCRATCH), b(SCRATCH)) == 0)
attempt("chroot")(lambda: in_child(lambda: call("chroot", b(SCRATCH)) == 0))
attempt("clone a mount with open_tree")(lambda: call("open_tree", -100, b(CHECKOUT), 1) >= 0)
attempt("make a file system with fsopen")(lambda: call("fsopen", b"tmpfs", 0) >= 0)
attempt("clear read-only with mount_setattr")(lambda: call("mount_setattr", -100, b(CHECKOUT), 0x8000, struct.pack("QQQQ", 0, 1, 0, 0), 32) == 0)
attempt("a new user namespace")(lambda: in_child(lambda: call("unshare", 0x10000000) == 0))
attempt("a new mount namespace")(lambda: in_child(lambda: call("unshare", 0x00020000) == 0))


def born(pid):
    """The child has nothing more to do."""
    if pid == 0:
        os._exit(0)
    return os.waitpid(pid, 0)


attempt("a new user namespace by clone")(lambda: born(call("clone", 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)))
attempt("a new user namespace by clone3")(lambda: born(call("clone3", struct.pack("Q" * 8, 0x10000000, 0, 0, 0, signal.SIGCHLD, 0, 0, 0), 64)))
attempt("enter another namespace")(lambda: in_child(lambda: call("setns", os.open("/proc/1/ns/mnt", os.O_RDONLY), 0) == 0))
# ---- other processes
VICTIM = G["victim"]


def signals(number):
    def body():
        os.kill(VICTIM, number)
        return "signal sent"
    return body


attempt("trace the supervisor")(lambda: call("ptrace", 16, VICTIM, 0, 0) == 0)
attempt("trace the first process")(lambda: call("ptrace", 0x4206, 1, 0, 0) == 0)
attempt("read memory of the supervisor")(lambda: open(f"/proc/{VICTIM}/mem", "rb").read(1) is not None)
attempt("read the environment of the supervisor")(lambda: open(f"/proc/{VICTIM}/environ", "rb").read())
attempt("read the supervisor's root")(lambda: os.listdir(f"/proc/{VICTIM}/root"))
attempt("read the supervisor's directory")(lambda: os.listdir(f"/proc/{VICTIM}/cwd"))
attempt("take a file of the supervisor's")(lambda: os.open(f"/proc/{VICTIM}/fd/0", os.O_RDONLY) or True)
attempt("take a file with pidfd_getfd")(lambda: call("pidfd_getfd", os.pidfd_open(os.getppid()), 1, 0) >= 0)
attempt("read another process with process_vm_readv")(lambda: call("process_vm_readv", os.getppid(), None, 0, None, 0, 0) >= 0)


def parents():
    """Secrets that those above us have in their environment."""
    found = []
    for pid in [p for p in os.listdir("/proc") if p.isdigit()]:
        try:
            if b"OUTSIDE-SECRET" in open(f"/proc/{pid}/environ", "rb").read():
                found.append(pid)
        except OSError:
            pass
    return found


attempt("find the supervisor's secrets in any environment")(parents)
attempt("reach the root of the first process")(lambda: os.path.exists("/proc/1/root" + G["database"]))
# after the rest, because it may be gone then
attempt("stop the supervisor")(signals(signal.SIGSTOP))
attempt("ask the supervisor to end")(signals(signal.SIGTERM))
attempt("signal the supervisor through a pidfd")(lambda: signal.pidfd_send_signal(os.pidfd_open(VICTIM), signal.SIGSTOP) is None)
attempt("kill the first process")(lambda: (os.kill(1, signal.SIGKILL), os.getppid() == 0 or None)[1])
attempt("kill the supervisor")(signals(signal.SIGKILL))
# ---- sockets


def knock(address):
    def body():
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        s.settimeout(2)
        s.connect(address)
        s.sendall(b"write for me")
        return "connected"
    return body


attempt("a socket with a path, to a helper outside")(knock(G["socket"]))
attempt("an abstract socket, to a helper outside")(knock("\0" + G["abstract"]))
attempt("a raw packet socket")(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
attempt("a socket to the hypervisor")(lambda: socket.socket(40, socket.SOCK_STREAM))
attempt("a crypto socket of the kernel")(lambda: socket.socket(38, socket.SOCK_SEQPACKET))
attempt("a netlink socket that is not for routes")(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 9))
attempt("a raw IP socket")(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
if G["network"] == "off":
    def outside():
        s = socket.socket(socket.AF_INET)
        s.settimeout(2)
        s.connect(("127.0.0.1", G["port"]))
        return "connected"
    attempt("the loopback of the machine, with the network off")(outside)

    def datagram():
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.connect(("192.0.2.1", 53))
        return "there is a route"
    attempt("a way out of the machine, with the network off")(datagram)
# ---- the kernel
attempt("io_uring")(lambda: call("io_uring_setup", 8, ctypes.create_string_buffer(256)) >= 0)
attempt("bpf")(lambda: call("bpf", 0, ctypes.create_string_buffer(128), 128) >= 0)
attempt("perf events")(lambda: call("perf_event_open", ctypes.create_string_buffer(128), 0, -1, -1, 0) >= 0)
attempt("userfaultfd")(lambda: call("userfaultfd", 1) >= 0)
attempt("the kernel's keys")(lambda: call("keyctl", 0, -3, 1) >= 0)
attempt("a new key")(lambda: call("add_key", b"user", b"x", b"y", 1, -3) >= 0)
attempt("a file by its handle")(lambda: call("open_by_handle_at", os.open("/", os.O_RDONLY), struct.pack("IiQ", 8, 1, 2), os.O_RDONLY) >= 0)
attempt("the handle of a file")(lambda: call("name_to_handle_at", -100, b(FILE), struct.pack("Ii", 128, 0) + bytes(128), ctypes.create_string_buffer(8), 0) == 0)
attempt("watch the whole file system")(lambda: call("fanotify_init", 0, 0) >= 0)
attempt("a kernel module")(lambda: call("init_module", b"x", 1, b"") == 0)
attempt("another kernel")(lambda: call("kexec_load", 0, 0, None, 0) == 0)
attempt("swap")(lambda: call("swapon", b"/dev/null", 0) == 0)
attempt("the clock")(lambda: call("clock_settime", 0, struct.pack("qq", 1, 0)) == 0)
attempt("the host name")(lambda: call("sethostname", b"x", 1) == 0)
attempt("the kernel's log")(lambda: call("syslog", 3, ctypes.create_string_buffer(64), 64) > 0)
attempt("process accounting")(lambda: call("acct", None) == 0)
attempt("where cores go")(lambda: write("/proc/sys/kernel/core_pattern"))
attempt("a setting of the kernel")(lambda: write("/proc/sys/vm/drop_caches"))
attempt("the magic key")(lambda: write("/proc/sysrq-trigger"))
attempt("the kernel's memory")(lambda: open("/proc/kcore", "rb").read(1))
attempt("a setting in /sys")(lambda: write("/sys/kernel/uevent_helper"))
attempt("a block device")(lambda: (os.mknod(os.path.join(SCRATCH, "disk"), 0o600 | stat.S_IFBLK, os.makedev(254, 0)), "made")[1])
attempt("a character device")(lambda: (os.mknod(os.path.join(SCRATCH, "mem"), 0o600 | stat.S_IFCHR, os.makedev(1, 1)), "made")[1])
attempt("the machine's disk")(lambda: [open("/dev/" + d, "rb") for d in ("vda", "sda", "nvme0n1", "mem", "kmsg") if os.path.exists("/dev/" + d)])
# ---- rights
attempt("become root")(lambda: os.getuid() != 0 and in_child(lambda: os.setuid(0) is None))
attempt("become somebody else")(lambda: in_child(lambda: (os.setgroups([0]), os.setuid(12345))[1] is None))


def status(name):
    for line in open("/proc/self/status"):
        if line.startswith(name + ":"):
            return line.split()[1]


attempt("have capabilities")(lambda: [n for n in ("CapInh", "CapPrm", "CapEff", "CapAmb") if int(status(n), 16)])
attempt("gain rights by a program that has them")(lambda: subprocess.run(["mount", "-t", "tmpfs", "x", SCRATCH], capture_output=True).returncode == 0)
attempt("leave a program that runs as its owner")(lambda: (subprocess.run(["cp", "/bin/true", os.path.join(SCRATCH, "suid")]), os.chmod(os.path.join(SCRATCH, "suid"), 0o4755))[1] is None)
attempt("make a file that runs as its owner")(lambda: bool(os.fstat(os.open(os.path.join(SCRATCH, "suid2"), os.O_CREAT | os.O_WRONLY, 0o6777)).st_mode & 0o6000))
attempt("type into a terminal")(lambda: fcntl.ioctl(0, 0x5412, b"x") is not None)
attempt("type into the controlling terminal")(lambda: fcntl.ioctl(os.open("/dev/tty", os.O_RDWR), 0x5412, b"x") is not None)
attempt("dump core")(lambda: __import__("resource").setrlimit(__import__("resource").RLIMIT_CORE, (1, 1)) is None)
attempt("raise a limit")(lambda: __import__("resource").setrlimit(__import__("resource").RLIMIT_NOFILE, (1 << 20, 1 << 20)) is None)


def run_from_memory():
    fd = call("memfd_create", b"x", 0)
    os.write(fd, open("/bin/sh", "rb").read())
    subprocess.run([f"/proc/self/fd/{fd}", "-c", f"echo tampered > {FILE}"], pass_fds=[fd], capture_output=True)
    return open(FILE).read() != G["content"]


attempt("a program from memory that writes to the checkout")(run_from_memory)


def inherited():
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
        if int(name) > 2 and not target.startswith("/proc") and target != os.path.abspath(sys.argv[1]):
            found.append(target)
    return [t for t in found if t.startswith("/") and t not in OPENED]


OPENED = {FILE, CHECKOUT, "/", "/memfd:x (deleted)"}
attempt("use a file that was left open")(inherited)
# ---- secrets
for name, path in G["secrets"].items():
    attempt("read " + name)(lambda path=path: open(path).read() or None)
attempt("list the person's home")(lambda: [n for n in os.listdir(G["person"]) if n not in (".cargo",)])
attempt("list our data directory")(lambda: [n for n in os.listdir(G["data"]) if n.endswith(".db") or n == "runs"])
attempt("read another ticket's run")(lambda: open(G["other"]).read())
attempt("write beside its own run")(lambda: write(os.path.join(os.path.dirname(HOME), "forged"), os.O_WRONLY | os.O_CREAT))
attempt("forge the proof")(lambda: write(G["proof"], os.O_WRONLY))
attempt("write into the machine's /tmp")(lambda: (write("/tmp/" + G["canary"], os.O_WRONLY | os.O_CREAT), (UNCONFINED or G["level"] == "landlock") and "written")[1])
attempt("write into /etc")(lambda: write("/etc/" + G["canary"], os.O_WRONLY | os.O_CREAT))
attempt("write into /usr")(lambda: write("/usr/" + G["canary"], os.O_WRONLY | os.O_CREAT))
attempt("write into /dev/shm of the machine")(lambda: (write("/dev/shm/" + G["canary"], os.O_WRONLY | os.O_CREAT), (UNCONFINED or G["level"] == "landlock") and "written")[1])
attempt("write into a tool of the person's")(lambda: write(os.path.join(G["person"], ".cargo/bin/cargo"), os.O_WRONLY | os.O_CREAT))
# ---- taking everything


def forks():
    made = []
    try:
        for _ in range(G["processes"] + 200):
            pid = os.fork()
            if pid == 0:
                signal.alarm(30)  # if those who watch over the test are gone
                signal.pause()
                os._exit(0)
            made.append(pid)
        return f"{len(made)} processes"
    finally:
        for pid in made:
            os.kill(pid, signal.SIGKILL)
        for pid in made:
            os.waitpid(pid, 0)


if G["bound_by_the_kernel"]:
    attempt("fork without end")(forks)


def fill(dir, most):
    path = os.path.join(dir, "fill")
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    written = 0
    try:
        while written < most:
            written += os.write(fd, bytes(1 << 20))
        return f"{written >> 20} MiB"
    finally:
        os.close(fd)
        os.unlink(path)


attempt("one file without end")(lambda: fill(SCRATCH, G["file_bytes"] + (8 << 20)))
if G["level"] != "landlock":
    attempt("fill /tmp")(lambda: fill("/tmp", G["tmp_bytes"] + (8 << 20)))
print(json.dumps({"end": len(RESULTS)}), flush=True)
