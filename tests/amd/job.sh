#!/bin/bash
# The job on the emulated AMD machine: unpack the tree where it stands on the host, then one part of what needs a VM.
# part: corpus, pytest or script; arguments: those of pytest or of the script, one a line.
set -u
root=$(cat root)
part=$(cat part)
mkdir -p "$root"
tar -C "$root" -xf tree.tar || exit 125
rm tree.tar
job=$PWD
export OUT=$job/out
mapfile -t arguments <arguments
echo "job: $part, $(uname -r), kvm_amd npt=$(cat /sys/module/kvm_amd/parameters/npt), $(stat -fc %T /sys/fs/cgroup)," \
    "pid 1 is $(cat /proc/1/comm)"
[ -c /dev/kvm ] || { echo 'job: no /dev/kvm'; exit 125; }
[ "$(stat -fc %T /sys/fs/cgroup)" = cgroup2fs ] || { echo 'job: /sys/fs/cgroup is not cgroup2'; exit 125; }
export PATH=/usr/sbin:/usr/bin:/sbin:/bin PYTHONPATH=$root:$(echo "$root"/.venv/lib/python3*/site-packages) PYTHONDONTWRITEBYTECODE=
export KRUN_TEST_RUNTIMES=$(cat runtimes) KRUN_TEST_SLOW=10 KRUN_TEST_MACHINE=emulated
KRUN_TEST_CALLS=$(cat calls)
export KRUN_TEST_CALLS
cd "$root"
case $part in
corpus)
    # To the console as it goes: when the machine hangs, its last line says where.  The host judges (verdict.py).
    "$job/corpus/run.sh" -s 4 -w 5 "$root/.venv/bin/python" -S -m krun.kvm.direct ${KRUN_TEST_CALLS:+--local --sockets} 2>&1 | tee "$OUT/corpus.log"
    ;;
pytest)
    exec .venv/bin/python -m pytest --color=no --junitxml="$OUT/junit.xml" -o timeout=900 --basetemp=/var/tmp/pytest -o tmp_path_retention_policy=failed "${arguments[@]}"
    ;;
script)
    exec bash "$job/script.sh" "${arguments[@]}"
    ;;
esac
