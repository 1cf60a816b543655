"""The kernel's reports, the module, leaks."""

from __future__ import annotations

import ctypes
import os
import re
import struct
import time
from pathlib import Path

#: What begins a report.
REPORT = re.compile(
    r"BUG:|WARNING:|KASAN|UBSAN|ODEBUG|possible (circular|recursive)|possible irq lock|inconsistent lock|"
    r"suspicious RCU|bad unlock|INFO: (rcu|task|lockdep)|rcu: INFO|self-detected stall|soft lockup|Oops|"
    r"general protection|Objects remaining|unregister_netdevice: waiting|refcount_t|ref_tracker:|"
    r"leaked|list_(add|del) corruption|Call Trace"
)
#: A race is the gate's if it is in one of its functions; the kernel has others, of its own.
RACE = "KCSAN: data-race in "

_libc = ctypes.CDLL(None, use_errno=True)
_log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)


def say(text: str) -> None:
    for line in text.splitlines():
        os.write(1, f"\nGUEST: {line}\n".encode())


def messages() -> list[str]:
    """What the kernel has said since the last time."""
    lines: list[str] = []
    while True:
        try:
            record = os.read(_log, 8192).decode(errors="replace")
        except BlockingIOError:
            return lines
        lines.append(record.partition(";")[2].partition("\n")[0])


def check() -> None:
    """Raises if the kernel has reported anything since the last time."""
    new = messages()
    for line in new:
        if RACE in line:
            if "onramp" in line:
                raise AssertionError(line)
        elif REPORT.search(line) and not _of_a_race(new, line):
            raise AssertionError(f"the kernel says: {line}")


def _of_a_race(lines: list[str], line: str) -> bool:
    """A call trace is part of KCSAN's report, and not one itself."""
    return "Call Trace" in line and any(RACE in other for other in lines)


def load() -> None:
    module = os.open(f"{os.environ['SHARE']}/sch_onramp.ko", os.O_RDONLY)
    if _libc.syscall(313, module, b"", 0):  # finit_module
        raise OSError(ctypes.get_errno(), "sch_onramp does not load")
    os.close(module)


def unload() -> None:
    """The last qdisc goes after a grace period, and so the module."""
    for _ in range(100):
        if not _libc.syscall(176, b"sch_onramp", os.O_NONBLOCK):  # delete_module
            return
        time.sleep(0.1)
    raise OSError(ctypes.get_errno(), "sch_onramp does not unload")


def leaks() -> None:
    """Two scans, since an object is reported only if it has not changed in between."""
    file = Path("/sys/kernel/debug/kmemleak")
    for _ in range(2):
        time.sleep(6)
        file.write_text("scan")
    # What the kernel lost while it booted is not ours.
    found = [
        one for one in file.read_text().split("unreferenced object ")[1:] if '"swapper/0", pid 0' not in one
    ]
    if found:
        print(*found, sep="\n")
        raise AssertionError(f"{len(found)} leaks")


SOCKET_FILTER, SCHED_CLS = 1, 3


def program(kind: int, answer: int = 0) -> int:
    """An eBPF program that always gives this answer: its file."""
    code = ctypes.create_string_buffer(struct.pack("=QQ", answer << 32 | 0xB7, 0x95))
    license = ctypes.create_string_buffer(b"GPL")
    load = struct.pack("=IIQQ", kind, 2, ctypes.addressof(code), ctypes.addressof(license)) + bytes(104)
    file = _libc.syscall(321, 5, ctypes.create_string_buffer(load), 128)
    if file < 0:
        raise OSError(ctypes.get_errno(), "bpf")
    return int(file)


def programs() -> None:
    """No program is left: whoever had one, the gate too, has let go of it."""
    for _ in range(100):
        last = ctypes.create_string_buffer(bytes(128))
        # BPF_PROG_GET_NEXT_ID
        if _libc.syscall(321, 11, last, 128) < 0:
            return
        time.sleep(0.1)
    raise AssertionError(f"program {struct.unpack_from('=4xI', last)[0]} is left")
