#!/bin/sh
# AppArmor for real: runc and krun under the same profiles, their output must be equal. In the emulated machine:
#   apt-get download apparmor && dpkg -x apparmor_*.deb build/aa && cp build/aa/sbin/apparmor_parser build/bin/
#   ./dev test-amd script=tests/amd/apparmor.sh append="apparmor=1 security=apparmor"
set -u
exec >"$OUT/log" 2>&1
work=$(mktemp -d)
[ -d /sys/kernel/security/apparmor ] || mount -t securityfs securityfs /sys/kernel/security
cat >"$work/profiles" <<'P'
profile confined flags=(attach_disconnected,mediate_deleted) {
  network,
  capability,
  file,
  umount,
  signal,
  deny /etc/secret rw,
  deny mount,
}
P
: >"$work/parser.conf"
build/bin/apparmor_parser --config-file="$work/parser.conf" -K -r "$work/profiles" || exit 1

bundle() { # PROFILE EXPRESSION: a bundle with /etc/secret
    .venv/bin/python - "$work/$1" "$2" <<'P'
import sys
from pathlib import Path
sys.path.insert(0, "tests")
from helpers.bundle import Bundle
b = Bundle(Path(sys.argv[1]))
(b.rootfs / "etc/secret").write_text("secret\n")
exec(sys.argv[2])
b.write()
P
}

look='cat /proc/self/attr/current /etc/secret; echo $?; head -n 1 /etc/passwd; ls / | wc -l; cat /proc/self/attr/apparmor/current'
# Up to the hint that krun adds, and without the runtime's name and the time.
plain() { sed -e 's/^time="[^"]*"//' -e 's/\brunc\b/RT/g; s/\bkrun\b/RT/g' -e 's/unable to apply apparmor profile: //' \
    -e 's/error during container init: //' -e 's/: the profile .* is not loaded//'; }

for profile in confined unconfined nope; do
    bundle $profile "b.shell('''$look'''); b.process['apparmorProfile'] = '$profile'"
done
bundle none "b.args('sleep', '1000'); b.process['noNewPrivileges'] = False"
for rt in runc build/bin/krun; do
    name=$(basename $rt)
    {
        for profile in confined unconfined nope; do
            echo "== run $profile"
            $rt --root "$work/state" run -b "$work/$profile" c1 </dev/null
            echo "status $?"
        done
        $rt --root "$work/state" run -d -b "$work/none" c2 </dev/null >/dev/null 2>&1
        for profile in confined nope; do
            echo "== exec $profile"
            $rt --root "$work/state" exec --apparmor $profile c2 sh -c "$look" </dev/null
            echo "status $?"
        done
        $rt --root "$work/state" delete -f c2
    } 2>&1 | plain | tee "$work/$name.out"
done
grep -q 'confined (enforce)' "$work/krun.out" && grep -q "can't open '/etc/secret'" "$work/krun.out" || exit 1
cmp "$work/runc.out" "$work/krun.out"
