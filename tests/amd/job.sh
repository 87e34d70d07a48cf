#!/bin/bash
# The job on the emulated AMD machine: unpack the tree where it stands on the host, then the tests that need a VM.
set -eu
root=$(cat root)
mkdir -p "$root"
tar -C "$root" -xf tree.tar
rm tree.tar
out=$PWD/out
mapfile -t arguments <arguments
echo "job: $(uname -r), kvm_amd npt=$(cat /sys/module/kvm_amd/parameters/npt), $(stat -fc %T /sys/fs/cgroup)"
[ -c /dev/kvm ] || { echo 'job: no /dev/kvm'; exit 1; }
[ "$(stat -fc %T /sys/fs/cgroup)" = cgroup2fs ] || { echo 'job: /sys/fs/cgroup is not cgroup2'; exit 1; }
cd "$root"
export TMPDIR=/tmp KRUN_TEST_MACHINE=amd
if [ ${#arguments[@]} = 0 ]; then
    arguments=(tests/amd)
fi
.venv/bin/python -m pytest -p no:cacheprovider --junitxml="$out/junit.xml" -o timeout=600 "${arguments[@]}"
