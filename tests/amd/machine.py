"""An emulated AMD machine: QEMU's TCG with SVM, a stock Debian kernel with kvm-amd, a pure cgroup v2.

Slow (Python about 15 times, creating a VM 10-40 ms) but a true kvm_amd.  npt=1 is hardware nested paging; npt=0 is KVM's
shadow paging, which shows the missing TLB flushes that TCG hides with npt=1.  Keep it at one CPU: with two, QEMU 7.2
sometimes hangs.  It has no AVX-512 and no Intel VMX.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CACHE = ROOT / "build" / "amdvm"
#: What the machine is made of: when one of these changes, it is built again.
SOURCES = ("build.sh", "extract_vmlinux.py", "initrd-init", "vm-init")


class MachineError(Exception):
    """The machine itself failed: it did not boot, or ended without running the job to its end."""


def built() -> Path:
    """The directory with kernel, initrd and root disk; made (70 s, 1.6 GB) when missing or older than its sources."""
    stamp = CACHE / "stamp"
    want = "".join((HERE / name).read_text() for name in SOURCES)
    if not (stamp.exists() and stamp.read_text() == want):
        print("amd: building the emulated machine, about 70 s", flush=True)
        subprocess.run([str(HERE / "build.sh"), str(CACHE)], check=True)
        stamp.write_text(want)
    return CACHE


def run(
    job: Path,
    out: Path,
    *,
    npt: str = "1",
    job_timeout: int = 600,
    machine_timeout: int = 900,
    memory: int = 2048,
) -> int:
    """Boot, run job/job.sh as root, unpack what it wrote under ./out into `out`; its exit status."""
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
        command += ["-append", f"console=ttyS0 quiet panic=-1 npt={npt} jobtimeout={job_timeout}"]
        try:
            status = subprocess.run(command, stdin=subprocess.DEVNULL, timeout=machine_timeout).returncode
        except subprocess.TimeoutExpired:
            raise MachineError(f"the machine (npt={npt}) did not end within {machine_timeout} s") from None
        subprocess.run(["tar", "-C", str(out), "-xf", str(out_img)], stderr=subprocess.DEVNULL)
    if status != 0 or not (out / "rc").exists():
        raise MachineError(f"the machine (npt={npt}) failed, QEMU status {status}, no job status")
    return int((out / "rc").read_text())
