"""The ./dev demo and the end of ./dev install: busybox-static in a VM by krun; shows that it was in one and how long each stage took."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KRUN = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "bin" / "krun"
SCRIPT = """echo "hello from $(hostname), pid $$, $(uname -sm)"
echo "processes in here:"; ps -o pid,comm
echo "a pipe: $(seq 1 1000 | sort -rn | head -n 3 | tr '\\n' ' ')"
sleep 1000
"""
LAST = "a pipe:"  # the last line of the script's


def busybox_root(root: Path) -> None:
    for name in ("bin", "dev", "etc", "proc", "sys", "tmp"):
        (root / name).mkdir(parents=True)
    shutil.copy2("/bin/busybox", root / "bin" / "busybox")
    for name in subprocess.check_output(["/bin/busybox", "--list"], text=True).split():
        if name != "busybox":
            (root / "bin" / name).symlink_to("busybox")


def krun(
    state: Path, *args: str, quiet: bool = False, stdout: int | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run krun as a person would; its time goes behind the command."""
    begin = time.monotonic()
    done = subprocess.run(
        [str(KRUN), "--root", str(state), *args], stdin=subprocess.DEVNULL, stdout=stdout, env={}
    )
    if not quiet:
        print(f"$ krun {' '.join(args)}   [{(time.monotonic() - begin) * 1000:.1f} ms]", flush=True)
    if done.returncode:
        sys.exit(f"demo: krun {args[0]} failed with status {done.returncode}")
    return done


def vm_descriptors(pid: int) -> list[str]:
    found = []
    for fd in sorted(os.listdir(f"/proc/{pid}/fd"), key=int):
        name = os.readlink(f"/proc/{pid}/fd/{fd}")
        if "kvm" in name:
            found.append(f"/proc/{pid}/fd/{fd} -> {name}")
    return found


def memory(pid: int) -> str:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    table = dict(line.split(":") for line in lines[1:])
    return f"Rss {table['Rss'].strip()}, Pss {table['Pss'].strip()}"


def main() -> None:
    if os.geteuid() != 0:
        sys.exit("demo: run it as root: sudo ./dev demo")
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        sys.exit("demo: /dev/kvm is missing or closed: krun needs KVM (load kvm_intel or kvm_amd)")
    with tempfile.TemporaryDirectory(prefix="krun-demo-") as tmp:
        state, bundle = Path(tmp, "state"), Path(tmp, "bundle")
        busybox_root(bundle / "rootfs")
        krun(state, "spec", "--bundle", str(bundle), quiet=True)
        config = json.loads((bundle / "config.json").read_text())
        config["process"]["terminal"] = False
        config["hostname"] = "in-a-vm"
        config["process"]["args"] = ["/bin/sh", "-c", SCRIPT]
        (bundle / "config.json").write_text(json.dumps(config, indent=1))
        pid_file = Path(tmp, "pid")
        output, program = os.pipe()
        krun(state, "create", "--bundle", str(bundle), "--pid-file", str(pid_file), "demo", stdout=program)
        os.close(program)
        pid = int(pid_file.read_text())
        try:
            print("\ncreated; the program has not started, but its virtual machine exists:")
            found = vm_descriptors(pid)
            print("\n".join(f"  {line}" for line in found), flush=True)
            if not any("kvm-vm" in line for line in found):
                sys.exit("demo: no VM in the container's process")
            print()
            krun(state, "start", "demo")
            with open(output) as lines:
                for line in lines:
                    print(line, end="")
                    if line.startswith(LAST):
                        break
            print(f"\nthe host's process {pid} is krun's monitor: {memory(pid)}\n", flush=True)
            krun(state, "exec", "demo", "/bin/echo", "exec: one more VM, in the same namespaces")
        finally:
            os.kill(pid, signal.SIGKILL)
            krun(state, "delete", "--force", "demo", quiet=True)
        config["process"]["args"] = ["true"]
        (bundle / "config.json").write_text(json.dumps(config))
        print()
        for _ in range(3):
            krun(state, "run", "--bundle", str(bundle), "demo-true")
        print("\nits stages, in milliseconds:", flush=True)
        krun(state, "--debug", "run", "--bundle", str(bundle), "demo-true", quiet=True)


main()
