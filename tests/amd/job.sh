#!/bin/bash
# The job on the emulated AMD machine: unpack the tree where it stands on the host, then the tests that need a VM.
# arguments: those of pytest, one a line; none: the corpus, tests/amd and the integration tests that need no engine.
set -u
root=$(cat root)
mkdir -p "$root"
tar -C "$root" -xf tree.tar || exit 125
rm tree.tar
out=$PWD/out corpus=$PWD/corpus
mapfile -t arguments <arguments
echo "job: $(uname -r), kvm_amd npt=$(cat /sys/module/kvm_amd/parameters/npt), $(stat -fc %T /sys/fs/cgroup)"
[ -c /dev/kvm ] || { echo 'job: no /dev/kvm'; exit 125; }
[ "$(stat -fc %T /sys/fs/cgroup)" = cgroup2fs ] || { echo 'job: /sys/fs/cgroup is not cgroup2'; exit 125; }
cd "$root"
export PATH=/usr/sbin:/usr/bin:/sbin:/bin PYTHONPATH=$root:$(echo "$root"/.venv/lib/python3*/site-packages) PYTHONDONTWRITEBYTECODE=
status=0
if [ ${#arguments[@]} = 0 ]; then
    echo 'job: guest corpus'
    # To the console as it goes: when the machine hangs, its last line says where.
    "$corpus/run.sh" -s 4 "$root/.venv/bin/python" -S -m krun.kvm.direct 2>&1 | tee "$out/corpus.log"
    [ "${PIPESTATUS[0]}" = 0 ] || status=1
    arguments=(tests/amd tests/integration)
    for engine in podman docker containerd guest_corpus core software suites fuzz; do
        arguments+=("--ignore=tests/integration/test_$engine.py")
    done
fi
export KRUN_TEST_RUNTIMES=krun KRUN_TEST_SLOW=10 KRUN_TEST_MACHINE=emulated
.venv/bin/python -m pytest --color=no --junitxml="$out/junit.xml" -o timeout=900 "${arguments[@]}" || status=1
exit $status
