"""An emulated AMD machine: QEMU's TCG with SVM, a stock Debian kernel with kvm-amd, a pure cgroup v2.

Slow (Python about 15 times, creating a VM 10-40 ms) but a true kvm_amd.  npt=1 is hardware nested paging; npt=0 is KVM's
shadow paging, which shows the missing TLB flushes that TCG hides with npt=1.  Keep it at one CPU: with two, QEMU 7.2
sometimes hangs.  It has no AVX-512 and no Intel VMX.
"""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CACHE = Path(os.environ.get("KRUN_AMDVM", ROOT / "build" / "amdvm"))
#: What the machine is made of: when one of these changes, it is built again.
SOURCES = ("build.sh", "extract_vmlinux.py", "initrd-init", "vm-init", "vm-job", "krun-job.service")


class MachineError(Exception):
    """The machine itself failed: it did not boot, or ended without running the job to its end."""


def built() -> Path:
    """The directory with kernel, initrd and root disk; made (2 minutes, 1.5 GB) when missing or older than its sources."""
    stamp = CACHE / "stamp"
    want = "".join((HERE / name).read_text() for name in SOURCES)
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (stamp.exists() and stamp.read_text() == want):
            print("amd: building the emulated machine, about 2 minutes", flush=True)
            subprocess.run([str(HERE / "build.sh"), str(CACHE)], check=True)
            stamp.write_text(want)
    return CACHE


def run(
    job: Path,
    out: Path,
    *,
    npt: str = "1",
    init: str = "",
    append: str = "",
    job_timeout: int = 600,
    machine_timeout: int = 900,
    memory: int = 2048,
) -> int:
    """Boot, run job/job.sh as root, unpack what it wrote under ./out into `out`; its exit status.

    Arguments: npt, kvm_amd's parameter; init, "systemd" for systemd as pid 1; append, more of the kernel's command line;
    time-outs in seconds, memory in MiB. The console goes to standard output and to out/console.log. Errors: MachineError.
    """
    cache = built()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="krun-amd-") as tmp:
        job_tar, out_img = Path(tmp, "job.tar"), Path(tmp, "out.img")
        subprocess.run(["tar", "-C", str(job), "-cf", str(job_tar), "."], check=True)
        os.truncate(job_tar, -(-job_tar.stat().st_size // 512) * 512)
        out_img.touch()
        os.truncate(out_img, 256 << 20)
        command = [
            "qemu-system-x86_64",
            "-accel",
            "tcg,thread=multi",
            "-M",
            "q35",
            "-cpu",
            "max",
            "-smp",
            "1",
        ]
        command += ["-m", str(memory), "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"]
        command += [
            "-serial",
            "stdio",
            "-kernel",
            str(cache / "vmlinux"),
            "-initrd",
            str(cache / "initrd.cpio"),
        ]
        for file, options in (
            (cache / "root.img", "snapshot=on,cache=unsafe"),
            (job_tar, "readonly=on"),
            (out_img, "cache=unsafe"),
        ):
            command += ["-drive", f"file={file},if=virtio,format=raw,{options}"]
        # no_timer_check: on a loaded host the kernel's wait for ten ticks of the timer ends before QEMU has given them.
        kernel = f"console=ttyS0 quiet panic=-1 no_timer_check npt={npt} jobtimeout={job_timeout} krun.init={init} {append}"
        status = _console([*command, "-append", kernel], out / "console.log", machine_timeout)
        if status is None:
            raise MachineError(f"the machine (npt={npt}) did not end within {machine_timeout} s")
        subprocess.run(["tar", "-C", str(out), "-xf", str(out_img)], stderr=subprocess.DEVNULL)
    if status != 0 or not (out / "rc").exists():
        raise MachineError(f"the machine (npt={npt}) failed, QEMU status {status}, no job status")
    return int((out / "rc").read_text())


def _console(command: list[str], log: Path, timeout: int) -> int | None:
    """Run QEMU, its console to standard output and to a file; its status, None when it had to be ended."""
    end = time.monotonic() + timeout
    with (
        open(log, "wb") as copy,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as machine,
    ):
        assert machine.stdout is not None
        console = machine.stdout.fileno()
        while True:
            ready, _, _ = select.select([console], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                machine.kill()
                return None
            data = os.read(console, 65536)
            if not data:
                return machine.wait()
            copy.write(data)
            copy.flush()
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
