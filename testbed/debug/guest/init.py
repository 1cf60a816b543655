"""Process 1 of a debug kernel; see ../boot. Runs the tests one after another."""

from __future__ import annotations

import ctypes
import importlib
import os
import signal
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path

HERE = Path(__file__).parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE))
os.environ.update(PATH="/usr/sbin:/usr/bin:/sbin:/bin", HOME="/run", TMPDIR="/run", LC_ALL="C.UTF-8")

libc = ctypes.CDLL(None, use_errno=True)


def mount(kind: str, where: str) -> None:
    if libc.mount(kind.encode(), where.encode(), kind.encode(), 0, None):
        raise OSError(ctypes.get_errno(), f"mount {kind} on {where}")


def end() -> None:
    """QEMU ends where the machine would start again."""
    sys.stdout.flush()
    libc.reboot(0x01234567)


def main(kind: str, onrampd: str, share: str, *tests: str) -> None:
    for what, where in (
        ("proc", "/proc"),
        ("sysfs", "/sys"),
        ("devtmpfs", "/dev"),
        ("tmpfs", "/run"),
        ("bpf", "/sys/fs/bpf"),
        ("debugfs", "/sys/kernel/debug"),
    ):
        mount(what, where)
    console = os.open("/dev/console", os.O_RDWR)
    for standard in range(3):
        os.dup2(console, standard)
    os.environ.update(ONRAMPD=onrampd, SHARE=share, TC_LIB_DIR=str(HERE.parents[2] / "datapath" / "tc"))

    import kernel
    from net import gone, run

    kernel.say(f"Linux {os.uname().release} with {kind}, {os.cpu_count()} processors")
    # What the kernel says goes to the log too, and only there.
    Path("/proc/sys/kernel/printk").write_text("8")
    run("ip link set lo up")
    kernel.load()
    # How the kernel boots is not what is tested.
    kernel.messages()
    names = tests or sorted(file.stem.removeprefix("test_") for file in HERE.glob("test_*.py"))
    failed = []
    for name in names:
        began = time.monotonic()
        try:
            said = importlib.import_module(f"test_{name}").test(kind)
            kernel.check()
        except Exception as problem:
            traceback.print_exc()
            failed.append(name)
            # Nothing of it stays for the next one.
            with suppress(OSError):
                os.kill(-1, signal.SIGKILL)
            gone()
            said = f"FAILED: {str(problem) or type(problem).__name__}"
        kernel.say(f"{name}: {said} ({time.monotonic() - began:.0f} s)")
    try:
        kernel.unload()
        kernel.programs()
        kernel.check()
        if kind == "kasan":
            kernel.leaks()
    except Exception as problem:
        traceback.print_exc()
        failed.append("the end")
        kernel.say(f"at the end: FAILED: {problem}")
    kernel.say(f"failed: {', '.join(failed)}" if failed else "all held")


try:
    main(*sys.argv[1:])
except BaseException:
    traceback.print_exc()
finally:
    end()
