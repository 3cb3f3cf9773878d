"""Runs a program on a machine that lacks something: python3 without.py namespaces,landlock -- PROGRAM ARGS

The kernel itself refuses, by a filter that the program and all that come of it inherit.
"""
import ctypes, os, platform, struct, sys

X86 = platform.machine() == "x86_64"
UNSHARE, CLONE, CLONE3 = (272, 56, 435) if X86 else (97, 220, 435)
LANDLOCK = (444, 445, 446)
NEW_NAMESPACES = 0x7E020080
EPERM, ENOSYS = 1, 38
LOAD, EQUAL, ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06
ALLOW, FAIL = 0x7FFF0000, 0x00050000


def step(code, jump_true, jump_false, value):
    return struct.pack("HBBI", code, jump_true, jump_false, value)


def refuse(number, error):
    return [step(EQUAL, 0, 1, number), step(RETURN, 0, 0, FAIL | error)]


wanted, dashes, *command = sys.argv[1:]
assert dashes == "--"
steps = [step(LOAD, 0, 0, 0)]
if "landlock" in wanted.split(","):
    for number in LANDLOCK:
        steps += refuse(number, ENOSYS)
if "namespaces" in wanted.split(","):
    # The flags of clone3 lie in memory, where a filter cannot look: whoever calls it is sent to clone.
    steps += refuse(UNSHARE, EPERM) + refuse(CLONE3, ENOSYS)
    steps += [
        step(EQUAL, 0, 3, CLONE),
        step(LOAD, 0, 0, 16),
        step(ANY_BIT, 0, 1, NEW_NAMESPACES),
        step(RETURN, 0, 0, FAIL | EPERM),
    ]
steps.append(step(RETURN, 0, 0, ALLOW))
text = ctypes.create_string_buffer(b"".join(steps))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(text)))
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.addressof(program), 0, 0) == 0, os.strerror(ctypes.get_errno())
os.execvp(command[0], command)
