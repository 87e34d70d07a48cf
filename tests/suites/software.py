"""Unmodified Debian software: the same script under runc and under krun, on the same root; equal output and exit status is the demand.

`./dev test-suites software [NAME...]` makes the root (build/roots/software, debootstrap and apt-get), runs each case of the table below
and prints the comparison. Every run gets its own overlay over the root, its own namespaces, and a loopback device.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from helpers.bundle import CONFIG
from helpers.runtime import ROOT, SLOW, find

ROOTS = ROOT / "build" / "roots"
GO = Path("/usr/local/go")

#: What docker and podman give a container: enough for su, chown, sshd and the like.
CAPABILITIES = [
    f"CAP_{c}"
    for c in (
        "CHOWN DAC_OVERRIDE FSETID FOWNER MKNOD NET_RAW SETGID SETUID SETFCAP SETPCAP NET_BIND_SERVICE SYS_CHROOT KILL"
        " AUDIT_WRITE"
    ).split()
]


@dataclasses.dataclass(frozen=True)
class Case:
    """One comparison: a bash script whose output (both streams) and exit status are equal under both runtimes."""

    name: str
    packages: str
    script: str
    #: (pattern, replacement) pairs applied to both outputs: what differs from run to run natively, too.
    scrub: tuple[tuple[str, str], ...] = ()
    #: Seconds; the krun side may take this long.
    timeout: float = 60
    #: Part of the subset for tests/integration.
    quick: bool = False


CASES: list[Case] = []


#: For all scripts: wait until something listens on a port of the loopback, until a command succeeds, until one fails.
WAITING = r"""
up() { until_ok eval "(: <>/dev/tcp/127.0.0.1/$1) 2>/dev/null"; }
until_ok() { local i; for i in {1..600}; do "$@" >/dev/null 2>&1 && return; sleep 0.1; done; echo "never: $*"; }
until_not() { local i; for i in {1..600}; do "$@" >/dev/null 2>&1 || return 0; sleep 0.1; done; echo "for ever: $*"; }
"""


def case(name: str, packages: str, script: str, **more: object) -> None:
    CASES.append(Case(name, packages, script.lstrip("\n"), **more))  # type: ignore[arg-type]


# --------------------------------------------------------------------------------------------------- shells and tools

case(
    "bash-words",
    "bash",
    r"""
a=(one "two three" four); a[7]=x; declare -A m=([k]=v [z]="1 2"); b=$'esc\t\x41'
echo "${#a[@]} ${!a[@]} ${a[@]:1:2} ${a[-1]} ${m[k]} ${m[z]} $b"
f() { local IFS=,; echo "$*" "$#" "${FUNCNAME[0]}"; return 3; }; f x y z; echo $?
cat <<X; cat <<'Y'; cat <<<"string $((2**40))"
here $(echo sub) ${a[0]^^}
X
raw $(echo sub)
Y
diff <(seq 3) <(seq 4); echo "status $?"; tee >(wc -c >/tmp/count) <<<hello >/dev/null; sleep 0.3; cat /tmp/count
coproc { read x; echo "got $x"; }; echo hi >&${COPROC[1]}; read -u ${COPROC[0]} y; echo "$y"; wait
printf '%05.2f|%-6s|%q\n' 3.14159 ab 'a b'; [[ abc123 =~ ([a-z]+)([0-9]+) ]] && echo "${BASH_REMATCH[@]}"
mapfile -t lines < <(printf '%s\n' l1 l2 l3); echo "${lines[2]} ${#lines[@]}"; exec 5<>/tmp/rw; echo data >&5; cat /tmp/rw
ulimit -n; umask; set -o pipefail; false | true; echo "pipefail $?"; (exit 9); echo $?; echo $(( 7 / 0 )) ; echo "after $?"
""",
    quick=True,
)
case(
    "bash-jobs",
    "bash",
    r"""
set -m; trap 'echo usr1' USR1; trap 'echo "exit $?"' EXIT; trap 'echo err line' ERR
kill -USR1 $$; sleep 1 & p=$!; sleep 0.05; jobs | sed 's/  */ /g'; kill -STOP $p; sleep 0.2; jobs | sed 's/  */ /g'; kill -CONT $p; sleep 0.2; wait $p; echo "w $?"
sleep 50 & kill -TERM $!; wait $!; echo "term $?"; (sleep 0.1; kill -USR1 $$) & wait; echo "wait $?"; wait
false; (trap '' INT; kill -INT $BASHPID; echo survived); bash -c 'kill -SEGV $$'; echo "segv $?"
bash -c 'for i in 1 2 3 4 5 6; do (sleep $((i*4/10)).$((i*4%10)); exit $i) & done; for i in 1 2 3 4 5 6; do wait -n; echo -n "$? "; done; echo'
timeout 0.3 sleep 5; echo "timeout $?"; timeout -s KILL 0.2 sleep 5; echo "kill $?"
time -p true 2>/dev/null; ( ulimit -t 1; while :; do :; done ); echo "cpu $?"; ( ulimit -f 1; head -c 10000 /dev/zero >/tmp/big ); echo "fsize $?"
exec 3< <(sleep 0.1; echo late); read -t 2 -u 3 x; echo "$x"; read -t 0.1 y < <(sleep 1); echo "read $?"; exit 7
""",
    scrub=((r"(No record of process) \d+", r"\1"),),
    quick=True,
)
case(
    "coreutils",
    "coreutils findutils grep sed gawk diffutils bc",
    r"""
cd /tmp; seq 1000 | shuf --random-source=/bin/ls | sort -n --parallel=4 | md5sum; seq 100 | split -l 30 - s.; wc -l s.*; cat s.* | cksum
dd if=/dev/zero bs=64k count=16 2>/dev/null | sha256sum; truncate -s 1M sparse; du -k sparse; stat -c '%s %b %F' sparse; cp --sparse=always sparse s2; cmp sparse s2
mkdir -p d/e/f; touch d/e/f/{1..50}; ls -R d | wc -l; find d -type f -newer sparse -name '*7' | sort; chmod 640 d/e/f/1; chown 1:2 d/e/f/1; stat -c '%a %u %g' d/e/f/1
ln d/e/f/1 hard; ln -s nowhere dangling; readlink dangling; stat -c %h hard; realpath d/../d/e; mv d/e g; rmdir d; rm -r g; ls; mkfifo p; (echo through >p &); cat p
paste <(seq 3) <(seq 4 6) | tr '\t' : ; join <(printf 'a 1\nb 2\n') <(printf 'a x\nb y\n'); comm -12 <(seq 5) <(seq 3 8); factor 123456789; numfmt --to=iec 1234567
date -u -d @86400 +%F; TZ=Europe/Berlin date -d @1700000000; env -i A=1 env; nice -n 5 nice; nohup true; tac <(seq 3); fold -w 5 <<<abcdefgh; od -c <<<hi; base64 <<<hi; expr 3 + 4
tail -f --pid=$$ /dev/null & kill $!; wait $!; echo $?; : >grow; (for i in 1 2 3; do echo $i; sleep 0.1; done >>grow) & tail -n +1 -f --pid=$! grow; install -m 600 /bin/ls ./ls2; ./ls2 -l ls2 | cut -c1-10
echo 'scale=20; 4*a(1)' | bc -l; gawk 'BEGIN{for(i=0;i<5;i++)s+=i; print s, strftime("%Y",0,1); "echo cmd"|getline x; print x}'; sed -n '2{p;q}' <(seq 5); grep -c . /etc/passwd; xargs -P 4 -n 1 echo < <(seq 8) | sort | tr -d '\n'; echo; timeout 5 yes | head -100000 | wc -l
stdbuf -oL echo line; who; id; tty; hostname; uname -s; test -t 0; echo $?; df /proc | tail -1 | awk '{print $1}'; sync; pathchk /tmp; mktemp -u XXX >/dev/null; ls -la /proc/self/fd | wc -l; cat /proc/self/comm; sha512sum /usr/bin/* 2>/dev/null | sort | md5sum; nproc
""",
    quick=True,
)
case(
    "archives",
    "tar xz-utils zstd gzip bzip2",
    r"""
cd /tmp; tar -cf a.tar -C / usr/lib/python3 etc 2>/dev/null; xz -T4 -1 -k a.tar; zstd -q -T4 -k a.tar; gzip -k a.tar; for z in xz zst gz; do tar -tf a.tar.$z | wc -l; done
xz -T4 -dc a.tar.xz | cmp - a.tar && zstd -q -dc a.tar.zst | cmp - a.tar && gzip -dc a.tar.gz | cmp - a.tar && echo same
mkdir x; tar -xf a.tar.xz -C x; diff -r --no-dereference /etc x/etc && echo equal; tar -czf - -C x . | tar -tzf - | wc -l; tar --zstd -cf b.tzst x && tar -xf b.tzst -O x/etc/passwd | md5sum; sha1sum a.tar.zst
""",
    timeout=120,
)
case(
    "processes",
    "procps psmisc util-linux",
    r"""
sleep 100 & sleep 101 & cd /tmp; sleep 0.3
ps -eo ppid,comm,args --sort pid; ps aux >ps.out; awk '{print $1, $11, $12}' ps.out | sort; pgrep -a sleep | cut -d' ' -f2-; pidof sleep | wc -w; ps -o pid= -p $$ ; ps -C sleep -o args=
top -b -n1 | sed -n '1,7p' | cut -c1-5; top -b -n1 | tail -n +8 | awk '{print $2, $NF}' | sort; free -b | awk 'NR==1 || NR==3'; free | awk '/Mem/{print $2}'; nproc; vmstat | head -2 | tail -1; uptime | cut -c1
readlink /proc/self/exe; ls /proc/self/task | wc -l; ls /proc/self/fd | wc -l; tr '\0' ' ' </proc/$!/cmdline; echo; cat /proc/$!/comm; grep -E '^(Name|State|PPid|Threads|NoNewPrivs|Seccomp|SigPnd|SigBlk|SigIgn|SigCgt|Cap...)' /proc/self/status; grep -E '^(Name|State|PPid|Uid)' /proc/$!/status; ldd /bin/ls | sed 's/(0x.*//' | sort
pkill -f 'sleep 10[01]'; wait; sleep 0.1; pgrep -c sleep; head -1 /proc/self/mountinfo | awk '{print $5}'; cat /proc/self/oom_score_adj; grep -c processor /proc/cpuinfo; getconf _NPROCESSORS_ONLN; getconf PAGESIZE; getconf ARG_MAX; w | tail -n +2; watch -v | head -1; sysctl kernel.ostype; killall -V 2>&1 | head -1; sleep 77 & sleep 0.3; killall sleep; wait $!; echo $?
""",
    quick=True,
)
#: What the processes of a container see of each other in /proc: each monitor answers for its payload (view/ask.h).
#: States are compared as classes: a live process is S, R or D from one moment to the next (and awake where its monitor was asked).
#: Statuses are printed after `wait`: the shell says that a job has ended when it notices, before an `echo` or after it.
#: The last line waits for the `cat` that all output goes through: the end of the shell, which is the init, kills it.
case(
    "foreign-proc",
    "procps lsof psmisc iproute2 dpkg perl util-linux",
    r"""
exec </dev/null > >(cat) 2>&1; c=$!; cd /tmp; sleep 100 & p=$!; until_ok pgrep -xf 'sleep 100'
ps -eo stat,nlwp,comm --sort pid | grep sleep | sed 's/^[SRD]/live/'; lsof -p $p 2>/dev/null | awk '{print $1,$4,$5}' | sort | uniq -c; readlink /proc/$p/exe /proc/$p/cwd /proc/$p/root; ls /proc/$p/fd /proc/$p/fdinfo /proc/$p/task | wc -l; pwdx $p | sed 's/^[0-9]*/N/'
fuser -v /usr/bin/sleep 2>&1 | awk '{print $NF}'; fuser /tmp 2>&1 | grep -c $p; pmap $p | awk '{print $3,$4}' | grep -v '^[^ ]* \[$'; pmap -x $p | awk '/sleep|libc|ld-/{print $NF}'; pstree -a $p; grep -E '^(Threads|NoNewPrivs|Seccomp|SigIgn|SigCgt)' /proc/$p/status; tr '\0' '\n' </proc/$p/environ | sort; cat /proc/$p/fdinfo/0 | head -2; stat -L -c '%n %F %s' /proc/$p/exe | cut -d' ' -f2-; lsns -n -p $p | awk '{print $2}'; ls -l /proc/$p/fd | cut -c1-10
perl -e 'use IO::Socket; $s = IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1:7777"); unlink "/tmp/gone"; open F, "+>/tmp/gone"; print F "still here"; F->flush; unlink "/tmp/gone"; sleep 100' & q=$!; until_ok eval 'readlink /proc/$q/fd/4 | grep deleted'
ss -ltnp | sed 's/pid=[0-9]*/pid=N/'; lsof -ni :7777 | awk '{print $1,$4,$5,$8,$9,$10}'; fuser 7777/tcp 2>/dev/null | wc -w; cat /proc/$q/fd/4; readlink /proc/$q/fd/4; cat /proc/$q/root/etc/hostname | wc -l; echo through pid 1 >>/proc/1/fd/1
ps -eLf | awk '/sleep 100/ && !/awk/{print $1,$6,$NF}' | sort; ps aux | awk '/sleep 100/ && !/awk/{sub(/^[SRD]/, "live", $8); print $1,$8,$NF}' | sort; top -b -n1 | awk '/sleep|perl/{print $2,$NF}' | sort
sleep 98 & z=$!; perl -e '$0 = "parent"; fork or exit; sleep 97' & y=$!; until_ok pgrep -xf 'sleep 98'; kill -STOP $z; until_ok eval "ps -o stat= -p $z | grep T && ps -o stat= --ppid $y | grep Z"
ps aux | awk '/sleep 98|parent/ && !/awk/{sub(/^[SRD]/, "live", $8); print $1,$8,$11,$12}' | sort; kill -CONT $z; until_not eval "ps -o stat= -p $z | grep T"; ps -o stat= -p $z | sed 's/^[SRD]/live/'; kill $z $y; wait $z; echo $?; wait $y; echo $?
su -s /bin/sh nobody -c 'sleep 60 & until [ "$(cat /proc/$!/comm)" = sleep ]; do sleep 0.1; done; readlink /proc/$!/exe /proc/1/exe; ls -l /proc/$!/fd | cut -c1-10; find /proc/$!/fd | wc -l; lsof -p $! 2>/dev/null | awk "{print \$4,\$5}" | grep -v mem; ls /proc/1/fd 2>&1 | sed "s/.*: //"; kill $!; wait $! 2>/dev/null'
killall -s USR1 /usr/bin/sleep; r=$?; wait $p; echo $r; start-stop-daemon --stop --exec /usr/bin/perl; r=$?; wait $q; echo $r; sleep 77 & until_ok pidof sleep; start-stop-daemon --status --exec /bin/sleep; echo $?; pidof sleep | wc -w; kill $!
wait $!; exec >&- 2>&-; wait $c
""",
    scrub=((r"line \d+: +\d+ (User|Terminated)", r"\1"),),
    quick=True,
)
case(
    "daemons",
    "dpkg cron procps util-linux",
    r"""
start-stop-daemon --start --background --make-pidfile --pidfile /tmp/d.pid --exec /bin/sleep -- 500; sleep 0.2; start-stop-daemon --status --pidfile /tmp/d.pid; echo "status $?"
ps -o args -p $(cat /tmp/d.pid) | tail -1; start-stop-daemon --stop --pidfile /tmp/d.pid --retry 5; echo "stop $?"; start-stop-daemon --status --pidfile /tmp/d.pid; echo "status $?"
setsid sleep 300 & sleep 0.5; ps -eo sid,pgid,pid,comm | awk '/sleep/{print ($1==$2 && $2==$3)}'; cron; sleep 0.3; pgrep -c cron; crontab -l; echo "* * * * * echo x" | crontab -; crontab -l; kill $(cat /var/run/crond.pid)
flock /tmp/lock -c 'flock -n /tmp/lock true || echo locked'; script -qc 'tty; stty size; echo in a terminal' /tmp/typescript </dev/null; logger -s hello 2>&1 | sed 's/.*: //'; lscpu | grep -c 'Model name'; lsns -n 2>/dev/null | wc -l; taskset -pc $$ | sed 's/.*: //' ; chrt -p $$ | sed 's/.*: //'; ionice; prlimit --nofile -o SOFT,HARD; unshare -U true; echo "unshare $?"; nsenter -t $$ -u true 2>/dev/null; echo "nsenter $?"; ipcmk -M 1000 >/dev/null; ipcs -m | wc -l; choom -p $$ | sed 's/.*: *//' ; mountpoint /proc; getopt -o ab: -- -a -b x y; su -s /bin/sh nobody -c 'id; echo $HOME; kill -0 1'; echo $?; setpriv --reuid 7 --regid 8 --clear-groups id; runuser -u daemon -- id -un
""",
    scrub=((r"/dev/pts/\d+", "/dev/pts/N"),),
)
case(
    "terminal",
    "tmux screen util-linux",
    r"""
export TERM=screen LC_ALL=C.UTF-8; tmux -f /dev/null new-session -d -x 80 -y 24 'bash --norc'; sleep 0.7; tmux send-keys 'PS1=; clear; echo $((6*7)); tput cols; stty size' Enter; sleep 1; tmux capture-pane -p | sed '/^$/d'
tmux split-window 'cat'; tmux list-panes -F '#{pane_width}x#{pane_height} #{pane_current_command}'; tmux resize-window -x 100 -y 30; sleep 0.3; tmux send-keys -t 0.0 'clear; stty size' Enter; sleep 0.7; tmux capture-pane -t 0.0 -p | sed '/^$/d'; tmux send-keys -t 0.0 'sleep 100' Enter; sleep 0.5; tmux send-keys -t 0.0 C-c; sleep 0.3; tmux send-keys -t 0.0 'clear; echo st $?' Enter; sleep 0.5; tmux capture-pane -t 0.0 -p | sed '/^$/d'; tmux kill-server; echo "tmux $?"
mkdir -p /run/screen; chmod 777 /run/screen; screen -dmS s bash --norc; sleep 1; screen -S s -X stuff $'echo $((8*9)) >/tmp/scr; tty >>/tmp/scr\n'; sleep 1; sed 's/[0-9]*$/&/' /tmp/scr | head -1; screen -ls | grep -c '(Detached)'; screen -S s -X quit; echo "screen $?"
script -qec 'bash --norc -ic "set -m; sleep 0.1 & fg >/dev/null; echo fg \$?; jobs"' /dev/null </dev/null
""",
    scrub=(("\r", ""), (r"(?m)^\[1\] \d+$", "[1]")),
)
case(
    "editors",
    "vim man-db less file",
    r"""
cd /tmp; printf 'alpha\nbeta\ngamma\n' >t; vim -u NONE -es -c '%s/a/A/g' -c 'normal Gofoo' -c 'wq' t; cat t; vim -u NONE -es -c 'r !echo from shell' -c 'w! out' -c 'q!' ; cat out
mkdir -p m/man1; printf '.TH T 1 d\n.SH NAME\nt \\- test page\n.SH DESCRIPTION\nSome words here.\n' >m/man1/t.1; MANPATH=/tmp/m MANWIDTH=60 man -P cat t 2>/dev/null | cat; man -l m/man1/t.1 2>/dev/null | grep -c words; file -b /bin/ls t | cut -c1-30; less -FX t </dev/null | cat; man --version | head -1
""",
)

# ------------------------------------------------------------------------------------------------------- languages

case(
    "perl",
    "perl",
    r"""
cat >/tmp/t.pl <<'E'
use strict; use warnings; use POSIX qw(:sys_wait_h); use Socket; use IO::Select; use Time::HiRes qw(sleep ualarm); use Fcntl qw(:flock); use Storable; use Digest::SHA 'sha1_hex'; $|=1;
my $pid=fork; if(!$pid){exit 5} waitpid $pid,0; print "fork ",$?>>8,"\n"; open(my $p,"-|","seq 5") or die; print "pipe ",join(",",map{chomp;$_}<$p>),"\n"; close $p; print `echo back; exit 3`, $?>>8, "\n";
$SIG{ALRM}=sub{die "alarm\n"}; eval{ualarm 200000; select undef,undef,undef,5}; print "eval $@"; my $n=0; $SIG{CHLD}=sub{while((my $k=waitpid(-1,WNOHANG))>0){$n++}}; for(1..10){my $c=fork; exit 0 unless $c} my $t=time; sleep 0.02 while $n<10 && time-$t<20; print "reaped $n\n"; $SIG{CHLD}='DEFAULT';
socketpair(my $i,my $o,AF_UNIX,SOCK_STREAM,PF_UNSPEC); syswrite $i,"ping"; sysread $o,my $x,10; print "$x\n"; socket(my $s,PF_INET,SOCK_STREAM,6); setsockopt $s,SOL_SOCKET,SO_REUSEADDR,1; bind $s,sockaddr_in(0,INADDR_LOOPBACK); listen $s,5; my($port)=sockaddr_in(getsockname $s); if(!fork){accept(my $c,$s); print $c "served\n"; exit} socket(my $d,PF_INET,SOCK_STREAM,6); connect $d,sockaddr_in($port,INADDR_LOOPBACK) or die; print scalar <$d>; wait;
my %h=map{$_=>$_**2}1..1000; my $sum=0; $sum+=$_ for values %h; print "$sum\n"; print sha1_hex(join ",",sort{$a<=>$b}keys %h),"\n"; local $SIG{SEGV}=sub{print "segv\n"}; kill SEGV=>$$; my $r=eval{local $SIG{__DIE__}; 1/0}; print $@; store \%h,"/tmp/h"; print scalar keys %{retrieve "/tmp/h"},"\n"; open my $l,">","/tmp/l"; print flock($l,LOCK_EX|LOCK_NB)?"locked\n":"no\n"; print join("|",sort glob "/etc/pass*"),"\n"; printf "%s %s\n",$0,(stat "/etc/passwd")[2]; $0="renamed"; open my $c,"<","/proc/self/cmdline"; my $z=<$c>; $z=~s/\0.*//s; print "$z\n"; exec "echo","exec","ed";
E
perl /tmp/t.pl; perl -MConfig -e 'print $Config{useithreads}?"t\n":"n\n"'; perl -Mthreads -e 'print join(",",map{$_->join}map{my $i=$_;threads->create(sub{$i*2})}1..8),"\n"'; bash -c "perl -e 'kill 9,\$\$'" ; echo $?; perldoc -V 2>/dev/null | head -1
""",
    quick=True,
)
case(
    "python-basics",
    "python3",
    r"""
cat >/tmp/t.py <<'E'
import asyncio, concurrent.futures as cf, ctypes, faulthandler, hashlib, json, mmap, multiprocessing as mp, os, queue, random, select, signal, socket, sqlite3, subprocess, sys, tempfile, threading, time
def sq(x): return x * x
def main():
    print(sys.version_info[:2], subprocess.run(["sh", "-c", "echo out; exit 4"], capture_output=True))
    with cf.ThreadPoolExecutor(20) as e: print(sum(e.map(sq, range(500))))
    for how in ("fork", "spawn", "forkserver"):
        with mp.get_context(how).Pool(3) as p: print(how, sum(p.map(sq, range(100))))
    q = mp.Queue(); p = mp.Process(target=q.put, args=({"a": [1, 2]},)); p.start(); print(q.get(), p.join(), p.exitcode)
    lock, n = threading.Lock(), [0]
    def work():
        for _ in range(2000):
            with lock: n[0] += 1
    ts = [threading.Thread(target=work) for _ in range(50)]; [t.start() for t in ts]; [t.join() for t in ts]; print(n)
    async def serve():
        async def h(r, w): w.write((await r.readline()).upper()); await w.drain(); w.close()
        s = await asyncio.start_server(h, "127.0.0.1", 0)
        async def one(i):
            r, w = await asyncio.open_connection(*s.sockets[0].getsockname()); w.write(b"hello %d\n" % i); x = await r.read(); w.close(); return x
        print((await asyncio.gather(*(one(i) for i in range(50))))[-1]); s.close()
        p = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1); print(await p.communicate(b"x" * 10))
    asyncio.run(serve())
    signal.signal(signal.SIGALRM, lambda *a: print("alarm")); signal.setitimer(signal.ITIMER_REAL, 0.1); time.sleep(0.3)
def crash(code): r = subprocess.run([sys.executable, "-X", "faulthandler", "-c", code], capture_output=True, text=True); print(r.returncode, r.stderr.splitlines()[:1])
if __name__ == "__main__":
    crash("import ctypes; ctypes.string_at(8)"); crash("import os; os.abort()"); crash("f=lambda: f(); f()"); crash("import os,signal; os.kill(os.getpid(), signal.SIGFPE)")
    main()
    m = mmap.mmap(-1, 1 << 20); m[5:8] = b"abc"; print(m[5:8], m.size())
    with tempfile.TemporaryDirectory() as d: f = os.path.join(d, "f"); open(f, "wb").write(os.urandom(100000)); print(os.stat(f).st_size, os.sendfile(os.open(d + "/g", 65), os.open(f, 0), 0, 5000))
    pid, fd = os.forkpty() if hasattr(os, "forkpty") else (0, 0)
    if pid == 0: print("tty", os.isatty(0)); os._exit(3)
    print(os.read(fd, 100), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    r, w = os.pipe(); p = select.epoll(); p.register(r); os.write(w, b"1"); print(p.poll(1) == [(r, 1)])
    c = sqlite3.connect(":memory:"); c.execute("create table t(a)"); c.executemany("insert into t values(?)", ((i,) for i in range(10000))); print(c.execute("select sum(a) from t").fetchone())
    print(hashlib.sha256(b"x" * 10**6).hexdigest()[:8], os.cpu_count(), len(os.sched_getaffinity(0)), time.get_clock_info("monotonic").resolution, os.path.basename(os.readlink("/proc/self/exe")))
    try: x = [0] * 10; x[10]
    except IndexError as e: print(e)
    print(open("/proc/self/status").readline().strip(), threading.stack_size(), os.getpid() == threading.get_native_id(), sorted(os.listdir("/proc/self/fd"))[:3])
E
python3 /tmp/t.py 2>&1; echo "status $?"
""",
    timeout=120,
    quick=True,
)
case(
    "python-venv",
    "python3 python3-venv python3-pip python3-setuptools python3-wheel",
    r"""
cd /tmp; mkdir -p pkg/hello_krun; echo 'VERSION = "1.0"
def main(): print("hello from the wheel", VERSION)' >pkg/hello_krun/__init__.py
cat >pkg/setup.py <<'E'
from setuptools import setup
setup(name="hello-krun", version="1.0", packages=["hello_krun"], entry_points={"console_scripts": ["hello-krun=hello_krun:main"]})
E
cd pkg; python3 setup.py -q bdist_wheel 2>/dev/null; ls dist; python3 -m venv /tmp/v && /tmp/v/bin/pip install --no-index dist/*.whl 2>&1 | tail -1; /tmp/v/bin/hello-krun; /tmp/v/bin/python -c 'import sys, hello_krun; print(sys.prefix, hello_krun.__file__)'; /tmp/v/bin/pip list 2>/dev/null; /tmp/v/bin/pip uninstall -qy hello-krun; /tmp/v/bin/python -c 'import hello_krun' 2>&1 | tail -1
""",
    timeout=180,
    scrub=((r"pip +[\d.]+", "pip V"),),
    quick=True,
)
case(
    "ruby",
    "ruby",
    r"""
cat >/tmp/t.rb <<'E'
require 'socket'; require 'open3'; require 'timeout'; require 'tempfile'; require 'json'; $stdout.sync = true
puts (1..20).map { |i| Thread.new { sleep 0.01; i * i } }.map(&:value).sum; puts `echo hi`; p fork { exit 3 }.then { |x| Process.wait x; $?.exitstatus }; o, s = Open3.capture2e('tr a-z A-Z', stdin_data: 'abc'); p o, s.success?
begin; Timeout.timeout(0.2) { sleep 5 }; rescue Timeout::Error => e; puts e.class; end; trap('USR1') { puts 'usr1' }; Process.kill('USR1', Process.pid); sleep 0.1
s = TCPServer.new('127.0.0.1', 0); t = Thread.new { c = s.accept; c.puts c.gets.upcase; c.close }; c = TCPSocket.new('127.0.0.1', s.addr[1]); c.puts 'net'; puts c.gets; t.join; q = Queue.new; ths = 5.times.map { |i| Thread.new { 100.times { |j| q << i * j } } }; ths.each(&:join); p q.size; f = Fiber.new { Fiber.yield 1; 2 }; p f.resume, f.resume
r = Ractor.new { Ractor.receive * 2 } rescue nil; (r.send(21); p r.take) if r; GC.stress = false; a = 200000.times.map { |i| i.to_s }; a = nil; GC.start; p GC.count > 0; def rec(n) = rec(n + 1); begin; rec(0); rescue SystemStackError => e; puts e.class; end; p JSON.parse('{"a":[1,2]}'), 2**200; pid = spawn('exit 6'); Process.wait pid; p $?.exitstatus; IO.popen(['cat', '-n'], 'r+') { |io| io.puts 'x'; io.close_write; print io.read }; at_exit { puts 'bye' }; Process.clock_gettime(Process::CLOCK_MONOTONIC) > 0 or raise; p ObjectSpace.count_objects[:TOTAL] > 0; exit 5
E
ruby -W0 /tmp/t.rb; echo "status $?"; ruby -e 'Process.kill :SEGV, $$; sleep' >/dev/null 2>&1; echo $?
""",
)
case(
    "node",
    "nodejs",
    r"""
cat >/tmp/t.js <<'E'
const {Worker, isMainThread, workerData, parentPort} = require('worker_threads'), cp = require('child_process'), fs = require('fs'), http = require('http'), net = require('net'), crypto = require('crypto'), zlib = require('zlib'), os = require('os'), assert = require('assert');
if (!isMainThread) { let s = 0; for (let i = 0; i < 1e6; i++) s += i % workerData.n; Atomics.add(new Int32Array(workerData.sab), 0, 1); parentPort.postMessage(s); return; }
(async () => {
  const sab = new SharedArrayBuffer(4); const r = await Promise.all([3, 5, 7, 11].map(n => new Promise((ok, no) => new Worker(__filename, {workerData: {n, sab}}).on('message', ok).on('error', no)))); console.log(r, new Int32Array(sab)[0]);
  console.log(cp.execSync('echo sync; exit 0').toString(), cp.spawnSync('sh', ['-c', 'echo e >&2; kill -9 $$']).signal, await new Promise(ok => cp.exec('exit 3', e => ok(e.code)))); const c = cp.spawn('cat'); c.stdin.end('through cat'); for await (const d of c.stdout) console.log(`${d}`);
  await fs.promises.mkdir('/tmp/nd', {recursive: true}); await Promise.all([...Array(50).keys()].map(i => fs.promises.writeFile(`/tmp/nd/${i}`, 'x'.repeat(i)))); console.log(fs.readdirSync('/tmp/nd').length, fs.statSync('/tmp/nd/49').size); const w = fs.watch('/tmp/nd'); const ev = new Promise(ok => w.once('change', (t, f) => ok(t + f))); fs.writeFileSync('/tmp/nd/new', '1'); console.log(await ev); w.close();
  const srv = http.createServer((q, s) => { let b = ''; q.on('data', d => b += d); q.on('end', () => s.end(`${q.method} ${q.url} ${b.length}`)); }); await new Promise(ok => srv.listen(0, '127.0.0.1', ok)); const get = i => new Promise(ok => { const q = http.request({port: srv.address().port, host: '127.0.0.1', path: '/' + i, method: 'POST'}, s => { let b = ''; s.on('data', d => b += d); s.on('end', () => ok(b)); }); q.end('y'.repeat(i * 1000)); }); console.log((await Promise.all([...Array(40).keys()].map(get))).join().length, await get(7)); srv.close();
  const n = net.createServer(s => s.pipe(s)).listen('/tmp/sock', () => { const k = net.connect('/tmp/sock', () => k.write('echo')); k.on('data', d => { console.log(`${d}`); k.end(); n.close(); }); }); await new Promise(ok => n.on('close', ok));
  console.log(zlib.gunzipSync(zlib.gzipSync('z'.repeat(1e5))).length, await new Promise(ok => crypto.pbkdf2('p', 's', 1000, 8, 'sha1', (e, k) => ok(k.toString('hex')))), crypto.createHash('sha256').update('a').digest('hex').slice(0, 8)); function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); } console.log(fib(27), os.cpus().length, process.argv.length); process.on('SIGUSR2', () => console.log('usr2')); process.kill(process.pid, 'SIGUSR2'); await new Promise(ok => setTimeout(ok, 100)); try { null.x } catch (e) { console.log(e.message) } const f = () => f(); try { f() } catch (e) { console.log(e.message) }
  const m = new WebAssembly.Module(Uint8Array.from([0,97,115,109,1,0,0,0,1,7,1,96,2,127,127,1,127,3,2,1,0,7,7,1,3,97,100,100,0,0,10,9,1,7,0,32,0,32,1,106,11])); console.log(new WebAssembly.Instance(m).exports.add(40, 2)); try { new WebAssembly.Memory({initial: 1}).grow(100); console.log('grown'); } catch (e) { console.log(e.message); } const ch = cp.fork('/tmp/child.js'); ch.send({a: 1}); ch.on('message', m => { console.log(m); ch.disconnect(); }); ch.on('exit', (c, s) => console.log('child', c, s)); process.on('exit', c => console.log('exit', c)); process.exitCode = 4;
})();
E
echo "process.on('message', m => process.send({got: m, tty: process.stdout.isTTY}))" >/tmp/child.js; node /tmp/t.js; echo "status $?"; node -e 'process.abort()' 2>/dev/null; echo $?; node --max-old-space-size=30 -e 'const a=[]; for(;;) a.push(new Array(1000).fill({}))' >/dev/null 2>&1; echo "oom $?"
""",
    timeout=180,
)
case(
    "java",
    "openjdk-17-jdk-headless",
    r"""
mkdir -p /tmp/j; cd /tmp/j; cat >T.java <<'E'
import java.util.*; import java.util.concurrent.*; import java.util.concurrent.atomic.*; import java.net.*; import java.io.*; import java.nio.*; import java.nio.file.*; import java.nio.channels.*;
public class T {
  static int len(String s) { return s.length(); } static long hot(int n) { long s = 0; for (int i = 0; i < n; i++) s += (i ^ (s << 1)) % 7; return s; } static int depth(int n) { return depth(n + 1) + 1; }
  public static void main(String[] a) throws Exception {
    long s = 0; for (int i = 0; i < 300; i++) s += hot(20000); System.out.println("jit " + s); int npe = 0; for (int i = 0; i < 50000; i++) try { len(i % 100 == 0 ? null : "x"); } catch (NullPointerException e) { npe++; } System.out.println("npe " + npe);
    try { Object o = null; o.hashCode(); } catch (NullPointerException e) { System.out.println(e.getMessage()); } try { depth(0); } catch (StackOverflowError e) { System.out.println("stack"); } try { System.out.println(1 / (a.length)); } catch (ArithmeticException e) { System.out.println(e.getMessage()); }
    AtomicInteger n = new AtomicInteger(); Thread[] ts = new Thread[100]; for (int i = 0; i < 100; i++) { ts[i] = new Thread(() -> { for (int k = 0; k < 1000; k++) n.incrementAndGet(); }); ts[i].start(); } for (Thread t : ts) t.join(); System.out.println("threads " + n); long g = 0; for (int i = 0; i < 200000; i++) { byte[] b = new byte[4096]; b[i % 4096] = 1; g += b.length; } List<byte[]> keep = new ArrayList<>(); try { for (;;) keep.add(new byte[1 << 20]); } catch (OutOfMemoryError e) { int k = keep.size(); keep = null; System.out.println("oom " + (k > 20 && k < 64) + " gc " + g); } System.gc();
    Process p = new ProcessBuilder("sh", "-c", "cat; exit 3").start(); p.getOutputStream().write("to child".getBytes()); p.getOutputStream().close(); System.out.println(new String(p.getInputStream().readAllBytes()) + " " + p.waitFor()); ServerSocket ss = new ServerSocket(0, 5, InetAddress.getLoopbackAddress()); Thread srv = new Thread(() -> { try (Socket c = ss.accept()) { c.getOutputStream().write(c.getInputStream().read() + 1); } catch (IOException e) { e.printStackTrace(); } }); srv.start(); try (Socket c = new Socket(ss.getInetAddress(), ss.getLocalPort())) { c.getOutputStream().write(41); System.out.println("net " + c.getInputStream().read()); }
    ExecutorService ex = Executors.newFixedThreadPool(8); List<Future<Integer>> fs = new ArrayList<>(); for (int i = 0; i < 50; i++) { int k = i; fs.add(ex.submit(() -> k * k)); } int t = 0; for (Future<Integer> f : fs) t += f.get(); ex.shutdown(); System.out.println("pool " + t + " " + java.util.stream.IntStream.range(0, 100000).parallel().mapToLong(i -> i).sum()); Path f = Files.createTempFile("k", "f"); try (FileChannel ch = FileChannel.open(f, StandardOpenOption.READ, StandardOpenOption.WRITE)) { MappedByteBuffer m = ch.map(FileChannel.MapMode.READ_WRITE, 0, 1 << 16); m.putInt(100, 77); m.force(); System.out.println("map " + m.getInt(100) + " " + ch.size()); } Object lock = new Object(); Thread w = new Thread(() -> { synchronized (lock) { try { lock.wait(50); } catch (InterruptedException e) { } } System.out.println("waited"); }); w.start(); w.join(); Thread sl = new Thread(() -> { try { Thread.sleep(100000); } catch (InterruptedException e) { System.out.println("interrupted"); } }); sl.start(); sl.interrupt(); sl.join(); Runtime.getRuntime().addShutdownHook(new Thread(() -> System.out.println("hook"))); System.out.println(Runtime.getRuntime().availableProcessors() + " " + System.getProperty("os.name")); System.exit(6);
  }
}
E
javac T.java && for gc in Serial G1 Parallel; do java -Xmx64m -XX:+Use${gc}GC T; echo "$gc $?"; done; java -Xint -Xmx64m -version 2>&1 | head -1; java -Xshare:off -XX:TieredStopAtLevel=1 -Xmx64m T >/dev/null; echo $?; java -XX:+PrintFlagsFinal -version 2>/dev/null | grep -E ' (MaxHeapSize|ParallelGCThreads|UseSerialGC|UseAVX) '; echo 'System.out.println(6*7)' | timeout 60 jshell -s - ; jar --version; echo 'public class S { public static void main(String[] a) throws Exception { System.out.println("up"); Thread.sleep(100000); } }' >S.java; javac S.java; java -Xmx64m S >dump & p=$!; until grep -qs up dump; do sleep 0.1; done; kill -QUIT $p; until grep -qs '^Heap' dump; do sleep 0.1; done; grep -cE 'Full thread dump|Reference Handler' dump; kill $p; wait $p; echo "term $?"; java -Xmx64m S >dump2 & p=$!; until grep -qs up dump2; do sleep 0.1; done; kill -SEGV $p; wait $p; echo "segv $?"; grep -c 'SIGSEGV (0xb)' hs_err*.log
""",
    scrub=((r"(?m)^[A-Z][a-z]{2} \d+, \d{4} [\d:]+ [AP]M ", ""), (r"(?m)^#.*\n", "")),
    timeout=240,
)
case(
    "go",
    "git ca-certificates",
    r"""
export PATH=/usr/local/go/bin:$PATH HOME=/tmp GOFLAGS=-mod=mod GOTOOLCHAIN=local GOPROXY=off CGO_ENABLED=0; mkdir -p /tmp/g; cd /tmp/g; cat >go.mod <<'E'
module k
go 1.20
E
cat >main.go <<'E'
package main
import ("bytes"; "context"; "fmt"; "io"; "net/http"; "net/http/httptest"; "os"; "os/exec"; "os/signal"; "runtime"; "runtime/debug"; "sync"; "sync/atomic"; "syscall"; "time")
type node struct { v int; next *node }
func deref(n *node) (s string) { defer func() { if r := recover(); r != nil { s = fmt.Sprint(r) } }(); return fmt.Sprint(n.v) }
func spin(stop *int32) { for atomic.LoadInt32(stop) == 0 { } }
func deep(n int) int { var b [1000]byte; b[n%1000] = 1; if n == 0 { return int(b[0]) }; return deep(n-1) + 1 }
func main() {
  var wg sync.WaitGroup; var n int64; for i := 0; i < 100; i++ { wg.Add(1); go func(i int) { defer wg.Done(); for j := 0; j < 1000; j++ { atomic.AddInt64(&n, 1); if j%100 == 0 { runtime.Gosched() } } }(i) }; wg.Wait(); fmt.Println("goroutines", n); fmt.Println(deref(nil)); for i := 0; i < 1000; i++ { deref(nil) }
  func() { defer func() { fmt.Println(recover()) }(); var a []int; i := 5; _ = a[i] }(); func() { defer func() { fmt.Println(recover()) }(); z := 0; fmt.Println(1 / z) }(); fmt.Println(deep(20000)); for i := 0; i < 50; i++ { _ = bytes.Repeat([]byte("x"), 1<<20) }; runtime.GC(); debug.FreeOSMemory()
  var stop int32; for i := 0; i < runtime.GOMAXPROCS(0)+2; i++ { go spin(&stop) }; time.Sleep(50 * time.Millisecond); runtime.GC(); atomic.StoreInt32(&stop, 1); fmt.Println("preempted")
  s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello ", r.URL.Path) })); ch := make(chan string, 50); for i := 0; i < 50; i++ { go func(i int) { r, err := http.Get(fmt.Sprint(s.URL, "/", i)); if err != nil { ch <- err.Error(); return }; b, _ := io.ReadAll(r.Body); r.Body.Close(); ch <- string(b) }(i) }; t := 0; for i := 0; i < 50; i++ { t += len(<-ch) }; s.Close(); fmt.Println("http", t)
  o, err := exec.Command("sh", "-c", "echo child; exit 3").CombinedOutput(); fmt.Println(string(o), err); ctx, c := context.WithTimeout(context.Background(), 100*time.Millisecond); defer c(); fmt.Println(exec.CommandContext(ctx, "sleep", "10").Run()); _, err = exec.Command("/nonexistent").Output(); fmt.Println(err); q := make(chan os.Signal, 1); signal.Notify(q, syscall.SIGUSR1); syscall.Kill(os.Getpid(), syscall.SIGUSR1); fmt.Println(<-q); tk := time.NewTicker(5 * time.Millisecond); for i := 0; i < 5; i++ { <-tk.C }; fmt.Println(runtime.NumCPU(), runtime.GOOS); var p *node; if len(os.Args) > 1 { fmt.Println(p.next.v) }
}
E
go version | cut -d' ' -f1-2; go build -o k . && ./k; echo "status $?"; ./k crash 2>&1 | grep -E '^panic|signal' | sed 's/pc=.*//'; GODEBUG=asyncpreemptoff=1 true; cat >k_test.go <<'E'
package main
import "testing"
func TestX(t *testing.T) { if deep(10) < 10 { t.Fatal() } }
func BenchmarkX(b *testing.B) { for i := 0; i < b.N; i++ { deep(10) } }
E
go test . | cut -f1-2; go run . >/dev/null; echo "run $?"
""",
    timeout=400,
)

# ----------------------------------------------------------------------------------------------------- building things

case(
    "gcc-make",
    "gcc make libc6-dev g++",
    r"""
mkdir -p /tmp/b; cd /tmp/b; for i in $(seq 12); do echo "int f$i(int x){return x*$i;}" >f$i.c; done; echo '#include <stdio.h>
#include <pthread.h>
extern int '$(seq -s, -f 'f%g(int)' 12)'; static void*t(void*p){return p;} int main(void){pthread_t h;pthread_create(&h,0,t,0);pthread_join(h,0);printf("%d\n",f1(1)+f12(2));return 0;}' >m.c
printf 'O=$(patsubst %%.c,%%.o,$(sort $(wildcard *.c)))\nm: $O\n\t@$(CC) -o $@ $^ -pthread\n%%.o: %%.c\n\t@$(CC) -O2 -c -o $@ $<\nclean:\n\trm -f *.o m\n' >Makefile; make -s -j4 && ./m; make; make -n clean | head -1; echo '#include <iostream>
#include <map>
#include <thread>
#include <stdexcept>
int main(){std::map<int,int>m; for(int i=0;i<1000;i++)m[i]=i; std::thread t([&]{m[0]=5;}); t.join(); try{throw std::runtime_error("thrown");}catch(std::exception&e){std::cout<<e.what()<<m[0]<<m.size()<<std::endl;} }' >c.cc; g++ -O1 -g -o c c.cc && ./c; gcc -fsanitize=undefined -x c - -o u <<<'int main(int c,char**v){return (c<<31)/ -1 ? 0:1;}' && ./u; echo "ubsan $?"; printf 'int main(){int*p=0;return *p;}' | gcc -x c - -o s && ./s; echo "segv $?"; echo 'int main( {' | gcc -x c - 2>&1 | tail -1; size m | tail -1 | awk '{print $1>0}'; objdump -d m | grep -c ret; strip m && ./m; ar rc l.a *.o; nm l.a | grep -c ' T '
""",
    timeout=180,
    quick=True,
)
case(
    "source-package",
    "gcc make libc6-dev dpkg-dev",
    r"""
cd /tmp; cp -a /usr/src/krun-zlib z; cd z; ./configure >/dev/null && make -s -j2 2>&1 | tail -2; make -s check 2>&1 | grep -E 'OK|FAIL'; ./minigzip <zlib.h | ./minigzip -d | cmp - zlib.h && echo same; cp -a /usr/src/krun-lua /tmp/l; cd /tmp/l; echo '#define DEB_HOST_MULTIARCH "x86_64-linux-gnu"' >src/lua5.4-deb-multiarch.h; gcc -O1 -DLUA_USE_LINUX -o lua $(ls src/*.c | grep -v luac.c) -lm -ldl -Wl,-E 2>&1 | grep -c error; ./lua -e 'local t={} for i=1,1e6 do t[i]=i end print(#t, _VERSION) print(pcall(error,"x")) local c=coroutine.wrap(function() for i=1,3 do coroutine.yield(i) end end) print(c(),c(),c()) print(io.popen("echo p"):read("a")) print(select(2,pcall(function() local function f() return 1+f() end f() end)):sub(1,40)) collectgarbage()'; cp -a /usr/src/krun-hello /tmp/h; cd /tmp/h; ./configure -q >/dev/null 2>&1; echo "configure $?"; make -s -j2 ACLOCAL=: AUTOCONF=: AUTOMAKE=: AUTOHEADER=: HELP2MAN=: MAKEINFO=: >/dev/null 2>&1; ./hello; ./hello -g Goodbye; ./hello --version | head -1
""",
    timeout=400,
)
case(
    "musl-static",
    "musl-tools busybox-static",
    r"""
cd /tmp; cat >t.c <<'E'
#include <stdio.h>
#include <pthread.h>
#include <unistd.h>
#include <sys/wait.h>
#include <stdlib.h>
#include <signal.h>
#include <spawn.h>
#include <time.h>
#include <string.h>
static __thread int v; static void *f(void *p) { v = (int)(long)p; return (void *)(long)(v * 2); } static void h(int s) { write(1, "sig\n", 4); } extern char **environ;
int main(void) { pthread_t t[20]; long s = 0; void *r; for (long i = 0; i < 20; i++) pthread_create(&t[i], 0, f, (void *)i); for (int i = 0; i < 20; i++) pthread_join(t[i], &r), s += (long)r; printf("%ld\n", s); fflush(stdout); signal(SIGUSR1, h); raise(SIGUSR1); pid_t p; char *a[] = {"sh", "-c", "exit 3", 0}; int st; posix_spawn(&p, "/bin/sh", 0, 0, a, environ); waitpid(p, &st, 0); printf("%d\n", WEXITSTATUS(st)); fflush(stdout); if (!fork()) _exit(4); wait(&st); printf("%d %d\n", WEXITSTATUS(st), system("exit 5") >> 8); char *m = malloc(50 << 20); memset(m, 1, 50 << 20); free(m); pthread_t c; pthread_create(&c, 0, (void *(*)(void *))pause, 0); usleep(10000); pthread_cancel(c); pthread_join(c, &r); printf("%d\n", r == PTHREAD_CANCELED); struct timespec ts; return clock_gettime(CLOCK_MONOTONIC, &ts); }
E
musl-gcc -o d t.c && ./d; musl-gcc -static -o s t.c && ./s; echo $?; gcc -static-pie -o sp t.c 2>/dev/null && ./sp; gcc -static -o st t.c && ./st; B=/bin/busybox; for i in 1 2 3; do $B sh -c 'echo $((1+1)) | busybox cat; busybox ls / | busybox wc -l'; done; $B ash -c 'for i in $(busybox seq 5); do (exit $i) & wait $!; echo $?; done; trap "echo t" EXIT; busybox vi --help 2>&1 | busybox head -1'; $B httpd -p 127.0.0.1:8080 -h /etc; $B sleep 0.3; $B wget -qO- http://127.0.0.1:8080/hostname; $B nc -l -p 9000 >/tmp/n & $B sleep 0.3; echo nc | $B nc 127.0.0.1 9000; wait; cat /tmp/n; $B top -b -n1 | head -1 | cut -c1-4; $B ps | $B wc -l >/dev/null; $B find /etc -name passwd; $B dd if=/dev/zero bs=1M count=5 2>/dev/null | $B md5sum
""",
    timeout=120,
)
case(
    "git",
    "git",
    r"""
cd /tmp; export GIT_AUTHOR_DATE=@1700000000+0000 GIT_COMMITTER_DATE=@1700000000+0000 GIT_CONFIG_COUNT=3 GIT_CONFIG_KEY_0=user.name GIT_CONFIG_VALUE_0=n GIT_CONFIG_KEY_1=user.email GIT_CONFIG_VALUE_1=e@x GIT_CONFIG_KEY_2=init.defaultBranch GIT_CONFIG_VALUE_2=main
git init -q r; cd r; for i in $(seq 30); do for j in $(seq 20); do echo $i$j >f$j; done; git add -A; git commit -qm "c $i"; done; git rev-parse HEAD; git log --oneline | wc -l; git checkout -q -b side HEAD~10; echo side >s; git add s; git commit -qm side; git merge -q -m merge main 2>&1 | tail -1; git log --graph --oneline | head -5; git worktree add -q ../wt main; git worktree list | wc -l; git stash list; git gc -q --aggressive; git count-objects -v | grep -E '^(count|packs)'; git fsck 2>&1 | grep -v dangling; git clone -q file:///tmp/r /tmp/c; git -C /tmp/c log --oneline | wc -l; git clone -q --bare . /tmp/bare.git; cd /tmp/c; git remote add b /tmp/bare.git; echo new >n; git add n; git commit -qm n; git push -q b HEAD:new; git -C /tmp/bare.git rev-parse new; git grep -c 5 | wc -l; git blame -s f1 | head -1; git archive HEAD | tar -t | wc -l; git rebase -q HEAD~1; git bisect start -q HEAD HEAD~5 2>&1 | head -1; git bisect run sh -c 'exit 0' 2>&1 | tail -1; git status -s; (git daemon --base-path=/tmp --export-all --listen=127.0.0.1 --port=9418 & echo $! >/tmp/gd); sleep 0.5; git clone -q git://127.0.0.1/bare.git /tmp/net; git -C /tmp/net log --oneline | wc -l; kill $(cat /tmp/gd); git -C /tmp/net format-patch -1 --stdout | git -C /tmp/c apply --check; echo $?
""",
    timeout=180,
    quick=True,
)

# ------------------------------------------------------------------------------------------------- data and servers

case(
    "sqlite3",
    "sqlite3",
    r"""
cd /tmp; sqlite3 t.db "pragma journal_mode=wal; create table t(a integer primary key, b text, c real); begin; with recursive n(x) as (select 1 union all select x+1 from n where x<200000) insert into t select x, printf('%08x', x*7919%1000003), x/3.0 from n; commit; create index i on t(b); select count(*), sum(a), max(b), round(sum(c)) from t; pragma integrity_check; pragma wal_checkpoint(truncate); vacuum; delete from t where a%2; select count(*) from t;"
for i in 1 2 3 4; do sqlite3 -cmd '.timeout 20000' t.db "begin immediate; update t set c=c+1 where a<1000; commit;" & done; wait; sqlite3 t.db 'select round(sum(c)) from t where a<1000'; sqlite3 t.db .dump | md5sum; sqlite3 t.db 'pragma mmap_size=100000000; select count(distinct b) from t' ; mkfifo hold; sqlite3 -cmd 'begin exclusive' t.db <hold & exec 9>hold; echo '.shell touch locked' >&9; until_ok test -e locked; sqlite3 t.db 'update t set c=0 where a=2'; echo $?; exec 9>&-; wait; ls -l t.db | cut -d' ' -f1; sqlite3 :memory: ".mode box" "select json_extract('{\"a\":[1,2]}','$.a[1]') x, sqrt(2) r"
""",
    timeout=120,
    quick=True,
)
case(
    "redis",
    "redis-server redis-tools",
    r"""
cd /tmp; redis-server --enable-debug-command yes --port 6379 --daemonize yes --dir /tmp --save '' --appendonly yes --logfile /tmp/redis.log --io-threads 2 >/dev/null; for i in $(seq 50); do redis-cli ping >/dev/null 2>&1 && break; sleep 0.1; done
redis-cli set k v; redis-cli get k; redis-benchmark -q -n 2000 -c 20 -t set,get,lpush,lrange_100,mset 2>&1 | tr '\r' '\n' | grep -c 'requests per second'; redis-cli dbsize; redis-cli debug populate 20000 key 100; redis-cli bgsave; for i in $(seq 100); do redis-cli info persistence | grep -q 'rdb_bgsave_in_progress:0' && break; sleep 0.1; done; redis-cli info persistence | grep -E 'rdb_last_bgsave_status|aof_last_bgrewrite' | tr -d '\r'; redis-cli bgrewriteaof; sleep 1; for i in $(seq 100); do redis-cli info persistence | grep -q 'aof_rewrite_in_progress:0' && break; sleep 0.1; done; redis-cli info persistence | grep aof_last_bgrewrite_status | tr -d '\r'; redis-cli eval 'local s=0 for i=1,100000 do s=s+i end return s' 0; redis-cli config get maxmemory | tail -1; redis-cli --pipe < <(for i in $(seq 1000); do echo "SET p$i $i"; done) | tail -1; redis-cli get p1000; redis-cli shutdown save; sleep 0.5; redis-server --enable-debug-command yes --port 6379 --daemonize yes --dir /tmp --appendonly yes --logfile /tmp/redis2.log >/dev/null; sleep 1; redis-cli dbsize; redis-cli info server | grep -E 'redis_mode|multiplexing' | tr -d '\r'; redis-cli memory doctor | head -1; redis-check-rdb /tmp/dump.rdb | tail -1 | cut -c1-25; redis-cli debug segfault 2>&1 | head -1; sleep 1; grep -c 'crashed by signal: 11' /tmp/redis2.log; grep -iE 'warning|error' /tmp/redis.log | sed 's/.*# //' | cut -c1-60
""",
    timeout=150,
    quick=True,
)
case(
    "nginx",
    "nginx-light apache2-utils wrk",
    r"""
mkdir -p /tmp/w/sub; cd /tmp/w; echo index >index.html; head -c 1000000 /dev/zero >big; cat >/tmp/n.conf <<'E'
user www-data; worker_processes 2; pid /tmp/n.pid; error_log /tmp/err.log; events { worker_connections 256; } http { access_log /tmp/acc.log; sendfile on; gzip on; server { listen 127.0.0.1:8080 reuseport; root /tmp/w; location = /s { return 204; } location /p { proxy_pass http://127.0.0.1:8080/sub/; } autoindex on; } }
E
chmod -R a+rX /tmp/w; nginx -t -c /tmp/n.conf 2>&1 | tail -1; nginx -c /tmp/n.conf; sleep 0.5; ps -eo user,args | grep -c '[n]ginx: worker'; ab -q -n 2000 -c 20 http://127.0.0.1:8080/ 2>&1 | grep -E 'Complete|Failed|Document Length'; ab -q -k -n 500 -c 5 http://127.0.0.1:8080/big 2>&1 | grep -E 'Complete|Failed|Document Length'; wrk -t2 -c20 -d2 http://127.0.0.1:8080/ | grep -cE 'Requests/sec'; wrk -t2 -c20 -d1 http://127.0.0.1:8080/nope | grep -cE 'Non-2xx'; echo sub >/tmp/w/sub/f; chmod a+r /tmp/w/sub/f; exec 3<>/dev/tcp/127.0.0.1/8080; printf 'GET /p/f HTTP/1.0\r\n\r\n' >&3; tail -1 <&3; nginx -c /tmp/n.conf -s reload; sleep 0.5; ps -eo user,args | grep -c '[n]ginx: worker'; kill -USR1 $(cat /tmp/n.pid); sleep 0.2; nginx -c /tmp/n.conf -s quit; sleep 0.7; pgrep -c nginx; grep -vE 'nope' /tmp/err.log | grep -cE 'alert|emerg|crit'
""",
    scrub=((r"(?m)^[\d/]+ [\d:]+ (\[notice\]) [\d#]+", r"\1"),),
    timeout=120,
)
case(
    "postgres",
    "postgresql-15",
    r"""
export PATH=/usr/lib/postgresql/15/bin:$PATH LC_ALL=C; mkdir /tmp/pg; chown postgres /tmp/pg; P() { su postgres -s /bin/bash -c "export PATH=$PATH; $1"; }; P 'initdb -D /tmp/pg/d -A trust' | grep -cE 'ok$'; P "pg_ctl -D /tmp/pg/d -o '-k /tmp -c listen_addresses=127.0.0.1 -c max_parallel_workers_per_gather=2' -l /tmp/pg/log -w start" | tail -1
P 'createdb -h /tmp b; pgbench -h /tmp -q -i -s 2 b' 2>&1 | grep -c done; P 'pgbench -h /tmp -c 4 -j 2 -t 100 b' 2>/dev/null | grep -E 'actually|failed'; P "psql -h 127.0.0.1 -At b" <<'E'
select count(*) from pgbench_accounts; select sum(abalance) = (select sum(bbalance) from pgbench_branches) from pgbench_accounts; create table t as select g, md5(g::text) m from generate_series(1,50000) g; create index on t(m); analyze t; set parallel_setup_cost=0; set parallel_tuple_cost=0; set min_parallel_table_scan_size=0; select count(*), max(m) from t where m > '8'; explain (costs off) select count(*) from t; select pg_cancel_backend(pg_backend_pid()); set statement_timeout=200; select pg_sleep(5); set statement_timeout=0; do $$ begin perform 1/0; exception when division_by_zero then raise notice 'caught'; end $$; copy (select * from t limit 2) to program 'cat >/tmp/pg/out'; begin; lock t; select pid > 0 from pg_locks limit 1; rollback; checkpoint; vacuum full t; select name, setting from pg_settings where name in ('dynamic_shared_memory_type', 'shared_memory_type', 'max_connections'); \watch_off
E
P 'pg_dump -h /tmp b' | grep -c '^[0-9]'; P 'pg_ctl -D /tmp/pg/d -m immediate stop' | tail -1; P "pg_ctl -D /tmp/pg/d -o '-k /tmp' -l /tmp/pg/log -w start" | tail -1; P 'psql -h /tmp -Atc "select count(*) from t" b'; kill -9 $(pgrep -f 'checkpointer'); sleep 0.5; until_ok P 'psql -h /tmp -Atc "select 1" b'; P 'psql -h /tmp -Atc "select count(*) from t" b'; P 'pg_ctl -D /tmp/pg/d -m fast stop' | tail -1; ipcs -m | wc -l; grep -c PANIC /tmp/pg/log
""",
    timeout=240,
)
case(
    "openssl",
    "openssl",
    r"""
cd /tmp; openssl speed -seconds 1 -bytes 1024 sha256 2>/dev/null | grep -c sha256; openssl speed -seconds 1 -multi 2 ecdsap256 2>&1 | grep -c 'ecdsa (nistp256)'; openssl req -x509 -newkey rsa:2048 -nodes -keyout k.pem -out c.pem -days 1 -subj /CN=localhost 2>/dev/null; openssl x509 -in c.pem -noout -subject; openssl verify -CAfile c.pem c.pem; echo data | openssl dgst -sha256 -sign k.pem -out s; echo data | openssl dgst -sha256 -verify <(openssl x509 -in c.pem -noout -pubkey) -signature s; echo secret | openssl enc -aes-256-gcm -pass pass:x -pbkdf2 2>&1 | head -1; echo secret | openssl enc -aes-256-cbc -pass pass:x -pbkdf2 | openssl enc -d -aes-256-cbc -pass pass:x -pbkdf2; openssl rand -hex 8 | wc -c; openssl s_server -accept 127.0.0.1:4433 -cert c.pem -key k.pem -www -quiet & sleep 0.7; echo Q | openssl s_client -connect 127.0.0.1:4433 -CAfile c.pem 2>/dev/null | grep -E '^Verification|^New,' | sort -u; kill $!; openssl genpkey -algorithm ed25519 | openssl pkey -noout -text | head -1; openssl dhparam -check -in /dev/null 2>/dev/null; echo $?; openssl version -c | cut -d: -f1
""",
    timeout=120,
)
case(
    "ssh",
    "openssh-server openssh-client",
    r"""
cd /tmp; mkdir -p /run/sshd /root/.ssh; chmod 700 /root/.ssh; for t in rsa ecdsa ed25519; do ssh-keygen -q -t $t -N '' -f k_$t; ssh-keygen -l -f k_$t | awk '{print $1, $NF}'; done; cp k_ed25519.pub /root/.ssh/authorized_keys; cp k_ecdsa hostkey; chmod 600 hostkey
/usr/sbin/sshd -p 2222 -h /tmp/hostkey -o ListenAddress=127.0.0.1 -o PidFile=/tmp/sshd.pid -o UsePAM=no -E /tmp/sshd.log; sleep 0.7; S="ssh -p 2222 -i k_ed25519 -o StrictHostKeyChecking=no -o UserKnownHostsFile=/tmp/kh -o LogLevel=ERROR root@127.0.0.1"; $S 'echo remote; id -u; exit 5'; echo "ssh $?"; echo input | $S cat; $S -tt 'tty >/dev/null && stty size >/dev/null; echo tty $?' | tr -d '\r'; seq 100000 | $S md5sum; scp -q -P 2222 -i k_ed25519 -o StrictHostKeyChecking=no -o UserKnownHostsFile=/tmp/kh /etc/passwd root@127.0.0.1:/tmp/pw; cmp /etc/passwd /tmp/pw && echo scp; echo 'ls /etc/hostname' | sftp -q -b - -P 2222 -i k_ed25519 -o StrictHostKeyChecking=no -o UserKnownHostsFile=/tmp/kh root@127.0.0.1 2>&1 | tail -1; for i in 1 2 3 4; do $S "echo $i" & done | sort; wait; $S -f -N -L 2300:127.0.0.1:2222; sleep 0.3; head -c 7 </dev/tcp/127.0.0.1/2300; echo; eval $(ssh-agent) >/dev/null; ssh-add -q k_rsa; ssh-add -l | wc -l; ssh-agent -k >/dev/null; $S 'kill -9 $$'; echo $?; cut -c1-60 /tmp/sshd.log | grep -ciE 'fatal|error'; kill $(cat sshd.pid)
""",
    timeout=120,
)
case(
    "apt",
    "apt dpkg dpkg-dev apt-utils",
    r"""
mkdir -p /tmp/repo /tmp/p/DEBIAN /tmp/p/usr/share/kt; cd /tmp; printf 'Package: kt\nVersion: 1.0\nArchitecture: all\nMaintainer: n <n@x>\nDescription: test\n' >p/DEBIAN/control; printf '#!/bin/sh\necho "postinst $1"\n' >p/DEBIAN/postinst; chmod 755 p/DEBIAN/postinst; echo data >p/usr/share/kt/data; dpkg-deb -b p repo/kt_1.0_all.deb >/dev/null; (cd repo && dpkg-scanpackages -m . 2>/dev/null >Packages && gzip -k Packages && apt-ftparchive release . >Release); rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/*; echo 'deb [trusted=yes] file:/tmp/repo ./' >/etc/apt/sources.list; apt-get update 2>&1 | grep -vE '^(Get|Ign|Fetched)' ; apt-cache policy kt | head -3; apt-get install -y --no-install-recommends kt 2>&1 | grep -E 'Setting|postinst|newly'; cat /usr/share/kt/data; dpkg -L kt | tail -1; dpkg -s kt | grep Status; apt-get remove -y kt 2>&1 | grep -E 'Removing'; dpkg -l | wc -l; dpkg --verify coreutils; echo "verify $?"; apt-get check >/dev/null; echo $?; dpkg-query -W -f '${Package}\n' 'bas*'; apt-mark showhold; dpkg --audit
""",
    timeout=180,
)

# ------------------------------------------------------------------------------------- more servers, more run times

case(
    "mariadb",
    "mariadb-server",
    r"""
cd /tmp; mkdir d; chown mysql d; mariadb-install-db --user=mysql --datadir=/tmp/d --skip-test-db >/dev/null 2>&1; echo "install $?"
start() { mariadbd --user=mysql --datadir=/tmp/d --socket=/tmp/s --pid-file=/tmp/pid --bind-address=127.0.0.1 --port=3307 --innodb-buffer-pool-size=32M 2>>/tmp/err & until_ok mariadb-admin -S /tmp/s ping; }
start; M="mariadb -S /tmp/s -N"; $M -e 'select version() like "10.%"; create database b; create user u@"127.0.0.1" identified by "p"; grant all on b.* to u@"127.0.0.1"'
$M b -e 'create table t(a int primary key auto_increment, b varchar(40), c double, key(b)) engine=innodb; create table n(v int); insert into n values (0); insert into t(b, c) select md5(seq), seq / 3 from seq_1_to_5000; select count(*), round(sum(c)), max(b) from t; select @@version_compile_machine'
for i in 1 2 3 4; do mariadb -h 127.0.0.1 -P 3307 -uu -pp b -e "$(printf 'update n set v = v + 1;%.0s' {1..50})" & done; wait $(jobs -p | tail -n +2); $M b -e 'select v from n; show status like "Innodb_row_lock_time_avg"' | head -1
$M b --force -e 'start transaction; insert into t(b) values ("x"); rollback; select count(*) from t; select sleep(0.1); set statement max_statement_time=0.2 for select sleep(5); delimiter //
create procedure p() begin declare i int default 0; while i < 100 do insert into n values (i); set i = i + 1; end while; end//
delimiter ;
call p(); select count(*) from n; check table t; optimize table n; select 1/0; select nothing from t' 2>&1
mariadb-dump -S /tmp/s b | grep -c 'INSERT INTO'; $M -e 'show processlist' | wc -l; kill -9 $(cat /tmp/pid); wait 2>/dev/null; start; $M b -e 'select count(*) from t; select v from n limit 1'; grep -c 'Starting crash recovery' /tmp/err; mariadb-admin -S /tmp/s shutdown; wait; echo "end $?"; grep -ciE 'signal|assert' /tmp/err
""",
    timeout=240,
)
case(
    "php-fpm",
    "php-fpm php-cli nginx-light apache2-utils",
    r"""
mkdir -p /tmp/w; cd /tmp/w; chmod 755 /tmp /tmp/w; echo '<?php $s = 0; for ($i = 0; $i < 1000; $i++) $s += $i; header("X-K: 1"); echo $_SERVER["REQUEST_METHOD"], " ", $s, " ", strlen(file_get_contents("php://input")), " ", $_GET["q"] ?? "-", "\n";' >i.php
printf '[global]\npid=/tmp/f.pid\nerror_log=/tmp/f.log\n[w]\nuser=www-data\ngroup=www-data\nlisten=/tmp/f.sock\nlisten.owner=www-data\npm=dynamic\npm.max_children=4\npm.start_servers=2\npm.min_spare_servers=1\npm.max_spare_servers=3\n' >/tmp/f.conf; php-fpm8.2 -y /tmp/f.conf; until_ok test -S /tmp/f.sock
echo 'user www-data; worker_processes 1; pid /tmp/n.pid; error_log /tmp/e.log; events {} http { server { listen 127.0.0.1:8081; root /tmp/w; location ~ \.php { include /etc/nginx/fastcgi_params; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; fastcgi_pass unix:/tmp/f.sock; } } }' >/tmp/n.conf; nginx -c /tmp/n.conf 2>/dev/null; up 8081
req() { exec 3<>/dev/tcp/127.0.0.1/8081; printf "$1" >&3; tail -1 <&3; }; req 'GET /i.php?q=7 HTTP/1.0\r\n\r\n'; req 'POST /i.php HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello'; ab -q -n 300 -c 8 http://127.0.0.1:8081/i.php 2>&1 | grep -E 'Complete|Failed|Non-2xx'; kill -USR2 $(cat /tmp/f.pid); until_ok grep -q execvp /tmp/f.log; until_ok eval "req 'GET /i.php HTTP/1.0\r\n\r\n' | grep GET"; req 'GET /i.php?q=8 HTTP/1.0\r\n\r\n'; kill -QUIT $(cat /tmp/f.pid); nginx -c /tmp/n.conf -s quit 2>/dev/null; until_not pgrep 'php-fpm|nginx'
cat >/tmp/t.php <<'E'
<?php $p = pcntl_fork(); if (!$p) exit(3); pcntl_waitpid($p, $s); echo pcntl_wexitstatus($s), "\n"; pcntl_async_signals(true); pcntl_signal(SIGALRM, fn() => print("alarm\n")); pcntl_alarm(1); sleep(3); $r = proc_open(["tr", "a-z", "A-Z"], [["pipe", "r"], ["pipe", "w"]], $io); fwrite($io[0], "through"); fclose($io[0]); echo stream_get_contents($io[1]), "\n"; proc_close($r);
function fib($n) { return $n < 2 ? $n : fib($n - 1) + fib($n - 2); } echo fib(22), "\n"; $g = (function () { for ($i = 0; $i < 3; $i++) yield $i => $i ** 2; })(); foreach ($g as $k => $v) echo "$k=$v "; try { intdiv(1, 0); } catch (DivisionByZeroError $e) { echo $e->getMessage(), "\n"; } $pair = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0); fwrite($pair[0], "x\n"); echo fgets($pair[1]); echo hash("sha256", str_repeat("a", 1 << 20)), "\n", json_encode(unserialize(serialize([1, ["a" => null]]))), "\n"; echo count(array_map(null, range(1, 300000))), " ", memory_get_peak_usage() > 1 << 20, "\n"; ini_set("memory_limit", "8M"); $a = []; while (1) $a[] = str_repeat("z", 4096);
E
php -d display_errors=stderr /tmp/t.php 2>&1 | sed 's/allocated.*//'; php -d opcache.enable_cli=1 -d opcache.jit_buffer_size=16M -d opcache.jit=tracing -r 'for ($i = $s = 0; $i < 3000000; $i++) $s = ($s * 31 + $i) % 1000003; echo $s, "\n";'; php -S 127.0.0.1:8090 -t /tmp/w >/dev/null 2>&1 & up 8090; exec 3<>/dev/tcp/127.0.0.1/8090; printf 'GET /i.php HTTP/1.0\r\n\r\n' >&3; tail -1 <&3; kill $!
""",
    timeout=150,
)
case(
    "erlang",
    "erlang-base elixir",
    r"""
mkdir -p /tmp/e; cd /tmp/e; cat >t.erl <<'E'
-module(t).
-export([main/0]).
ring(0, First) -> First ! done, ok;
ring(N, First) -> P = spawn(fun() -> receive go -> ring(N - 1, First) end end), P ! go.
crash() -> process_flag(trap_exit, true), P = spawn_link(fun() -> 1 = length([]) end), receive {'EXIT', P, {{badmatch, V}, _}} -> V end.
main() -> error_logger:tty(false),
    io:format("~p~n", [erlang:system_info(schedulers)]), ring(20000, self()), receive done -> io:format("ring~n") end, io:format("~p~n", [crash()]),
    Pids = [spawn_monitor(fun() -> exit(lists:sum(lists:seq(1, I))) end) || I <- lists:seq(1, 500)], io:format("~p~n", [lists:sum([receive {'DOWN', R, _, _, V} -> V end || {_, R} <- Pids])]),
    Port = open_port({spawn, "tr a-z A-Z"}, [stream, eof]), port_close(Port), io:format("~s", [os:cmd("echo from a port; exit 3")]),
    {ok, L} = gen_tcp:listen(0, [binary, {active, false}, {ip, {127, 0, 0, 1}}]), {ok, N} = inet:port(L), spawn(fun() -> {ok, S} = gen_tcp:accept(L), {ok, D} = gen_tcp:recv(S, 0), gen_tcp:send(S, [D, "back"]), gen_tcp:close(S) end),
    {ok, C} = gen_tcp:connect({127, 0, 0, 1}, N, [binary, {active, false}]), ok = gen_tcp:send(C, "there and "), io:format("~p~n", [gen_tcp:recv(C, 14)]), T = ets:new(x, [public]), [ets:insert(T, {I, I * I}) || I <- lists:seq(1, 50000)], io:format("~p~n", [ets:info(T, size)]),
    ok = file:write_file("f", binary:copy(<<"x">>, 1000000)), {ok, B} = file:read_file("f"), io:format("~p ~p~n", [byte_size(B), erlang:crc32(B)]), {ok, Tr} = timer:send_after(50, tick), receive tick -> io:format("tick~n") end, _ = Tr, garbage_collect(), io:format("~p~n", [lists:foldl(fun(X, A) -> (X * A + 1) rem 1000003 end, 1, lists:seq(1, 1000000))]), halt(5).
E
erlc t.erl; erl -noshell -s t main; echo "status $?"; erl -noshell +S 4:4 -eval 'io:format("~p~n", [erlang:system_info(schedulers)]), halt(0).'; elixir -e 'IO.inspect(Enum.sum(Task.async_stream(1..200, &(&1 * &1)) |> Enum.map(fn {:ok, v} -> v end))); {:ok, a} = Agent.start(fn -> 0 end); for _ <- 1..100, do: Agent.update(a, & &1 + 1); IO.inspect(Agent.get(a, & &1)); IO.puts(String.upcase("straße")); raise "down"' 2>&1 | head -4; epmd -daemon; erl -noshell -sname a -eval 'receive stop -> halt(0) end.' & until_ok eval 'epmd -names | grep -q "name a"'; erl -noshell -sname b -eval 'H = lists:last(string:split(atom_to_list(node()), "@")), io:format("~p~n", [net_adm:ping(list_to_atom("a@" ++ H))]), halt(0).'; kill -9 $!; wait $!; until_not eval 'epmd -names | grep -q "name a"'; epmd -kill
""",
    scrub=(
        (r"(?m)^Killed$\n", ""),
        (r"(?m)^epmd:.*\n", ""),
        (r"#?PID<[\d.]+>|<0\.\d+\.0>", "PID"),
        (r"==== .* ===", "===="),
        (r"[\d:.]+ \[error\]", "[error]"),
    ),
    timeout=120,
)
case(
    "ffmpeg",
    "ffmpeg",
    r"""
cd /tmp; F="ffmpeg -nostdin -v error -y"; $F -f lavfi -i testsrc=d=2:s=320x240:r=25 -f lavfi -i sine=d=2 -c:v libx264 -preset veryfast -threads 2 -c:a aac -flags +bitexact -fflags +bitexact a.mp4; echo "encode $?"; ffprobe -v error -show_entries stream=codec_name,nb_frames,width -of csv a.mp4; $F -i a.mp4 -map 0:v -f framemd5 - | tail -2; $F -i a.mp4 -c:v libvpx-vp9 -deadline realtime -cpu-used 8 -threads 2 -t 1 -an b.webm; echo "vp9 $?"; $F -i a.mp4 -vf scale=160:120,hue=s=0 -c:v mjpeg -q:v 5 -f image2pipe - | md5sum; $F -i a.mp4 -ac 1 -ar 8000 -f s16le - | wc -c; $F -i a.mp4 -c:v libx265 -x265-params log-level=none -t 0.4 c.mp4; ffprobe -v error -count_frames -show_entries stream=nb_read_frames -of csv c.mp4 | head -1; $F -i none.mp4 x.mp4 2>&1 | tail -1; $F -cpuflags 0 -i a.mp4 -map 0:v -f framemd5 - | tail -1
""",
    timeout=180,
)
case(
    "rsync",
    "rsync openssh-server openssh-client",
    r"""
cd /tmp; mkdir -p /run/sshd /root/.ssh src; chmod 700 /root/.ssh; ssh-keygen -q -t ed25519 -N '' -f k; ssh-keygen -q -t ed25519 -N '' -f hostkey; cp k.pub /root/.ssh/authorized_keys; cp -a /etc src/; for i in $(seq 300); do echo $i >src/f$i; done; truncate -s 3M src/sparse; ln src/f1 src/hard; ln -s f2 src/soft; head -c 2000000 /dev/zero | tr '\0' x >src/big
/usr/sbin/sshd -p 2223 -h /tmp/hostkey -o ListenAddress=127.0.0.1 -o PidFile=/tmp/sshd.pid -o UsePAM=no; up 2223; E="ssh -p 2223 -i k -o StrictHostKeyChecking=no -o UserKnownHostsFile=/tmp/kh -o LogLevel=ERROR"; rsync -aHSz -e "$E" --stats src/ root@127.0.0.1:/tmp/dst/ | grep -E 'Number of (files|created|reg)'; diff -r --no-dereference src dst && echo same; echo more >>src/big; rm src/f9; touch -d @2000000000 src src/big; rsync -aHi --delete -e "$E" src/ root@127.0.0.1:/tmp/dst/ | sort; rsync -a -e "$E" root@127.0.0.1:/tmp/dst/etc/ back/; diff -r --no-dereference src/etc back && echo back; stat -c %h dst/hard; du -k dst/sparse | cut -f1; rsync --version | head -1; printf '[m]\npath=/tmp/src\nuse chroot=no\n' >d.conf; rsync --daemon --no-detach --port 8730 --address 127.0.0.1 --config d.conf & up 8730; rsync rsync://127.0.0.1:8730/m/f5 /tmp/got; cat /tmp/got; rsync -e "$E" root@127.0.0.1:/none . 2>&1 | head -1; kill $! $(cat sshd.pid)
""",
    timeout=120,
)
case(
    "core-gdb",
    "gdb gcc libc6-dev binutils",
    r"""
mkdir -p /tmp/c; cd /tmp/c; cat >t.c <<'E'
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
struct thing { int number; const char *name; double half; } global = {42, "answer", 0.5};
static void *other(void *p) { for (;;) pause(); return p; }
static int deep(int n, int *p) { char local[16]; strcpy(local, "on the stack"); return n ? deep(n - 1, p) + local[0] : *p; }
int main(int argc, char **argv) { pthread_t t[3]; for (int i = 0; i < 3; i++) pthread_create(&t[i], 0, other, 0); usleep(200000); if (argc > 1) abort(); return deep(3, (int *)0x123); }
E
gcc -g -O0 -pthread t.c -o t; ulimit -c unlimited; ./t; echo "status $?"; ls core* | wc -l; C=$(ls core* | head -1); gdb -nx -q -batch -ex 'bt' -ex 'info threads' -ex 'p global' -ex 'p $_siginfo.si_signo' -ex 'p $_siginfo._sifields._sigfault.si_addr' -ex 'frame 2' -ex 'p (char *)local' -ex 'p n' -ex 'x/2i $pc' -ex 'info registers rip' -ex 'p $ymm0.v8_float[0]' -ex 'info sharedlibrary' -ex 'thread apply all bt 1' ./t $C 2>&1 | sed -E 's/0x[0-9a-f]{8,}/ADDR/g; s/LWP [0-9]+/LWP/g; s/New LWP.*//; /^$/d'; rm -f core*; ./t x 2>/dev/null; echo "status $?"; C=$(ls core* | head -1); gdb -nx -q -batch -ex bt ./t $C 2>&1 | grep -cE 'abort|main'; readelf -n $C | grep -oE 'NT_[A-Z_]+' | sort | uniq -c | head -3; file -b $C 2>/dev/null | cut -c1-30; eu-stack --version 2>/dev/null | head -1; gdb -nx -q -batch -ex 'list main' -ex 'info line deep' -ex 'ptype struct thing' -ex 'disassemble deep' ./t | md5sum | cut -c1-4 | wc -c
""",
    scrub=(
        (r"(?m)^\[New.*\n", ""),
        (r"\(core dumped\) ", ""),
        (r"warning: Unexpected size of section.*\n", ""),
        (r"\.reg-xstate/\d+", ".reg-xstate/LWP"),
        (r"Thread ADDR", "Thread"),
        (r"(?m)^.*Current thread is.*\n", ""),
    ),
    timeout=90,
)
case(
    "sanitizers",
    "gcc g++ libc6-dev",
    r"""
mkdir -p /tmp/s; cd /tmp/s; cat >a.c <<'E'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <limits.h>
int main(int argc, char **argv) { char *p = malloc(10); int i = argc - 2; switch (argv[1][0]) { case 'o': return p[10 + argc - 2]; case 'u': free(p); return p[3]; case 's': { char b[8]; memset(b, 1, 8 + argc); return b[0]; } case 'd': free(p); free(p); return 0; case 'n': return *(volatile int *)(long)(argc - 2); case 'i': i = INT_MAX; i += argc; printf("%d\n", i); break; case 'z': printf("%d\n", 1 << (30 + argc)); break; } free(p); puts("fine"); return 0; }
E
gcc -g -O1 -fsanitize=address,undefined a.c -o a; export ASAN_OPTIONS=detect_leaks=0; for k in o u s d n i z f; do ./a $k 2>&1 | grep -E 'ERROR: AddressSanitizer|runtime error|fine|^-?[0-9]+$' | sed -E 's/0x[0-9a-f]+/ADDR/g; s/==[0-9]+==//; s/ T[0-9]+\)/)/'; echo "$k ${PIPESTATUS[0]}"; done
cat >b.cc <<'E'
#include <atomic>
#include <iostream>
#include <stdexcept>
#include <thread>
#include <vector>
int main() { std::atomic<long> n{0}; std::vector<std::thread> v; for (int i = 0; i < 8; i++) v.emplace_back([&] { for (int k = 0; k < 10000; k++) n++; }); for (auto &t : v) t.join(); std::cout << n << "\n"; try { throw std::runtime_error("thrown"); } catch (std::exception &e) { std::cout << e.what() << "\n"; } std::thread([] { try { std::vector<int>().at(3); } catch (std::out_of_range &) { std::cout << "range\n"; } }).join(); thread_local int x = 5; std::cout << x << "\n"; throw 7; }
E
g++ -g -O1 -fsanitize=address b.cc -o b -pthread; ./b 2>&1 | head -5; g++ -O2 b.cc -o c -pthread; ./c 2>&1 | head -5; g++ -O1 -pg b.cc -o d -pthread && ./d >/dev/null 2>&1; echo "$?"; gcc -fsanitize=undefined -fsanitize-undefined-trap-on-error a.c -o e && ./e i; echo "trap $?"; gcc -O1 --coverage a.c -o f && ./f f && ls *.gcda
""",
    scrub=((r"line \d+:\s+\d+", "line N: P"), (r"\(core dumped\) ", "")),
    timeout=120,
)
case(
    "valgrind",
    "valgrind gcc libc6-dev libc6-dbg",
    r"""
mkdir -p /tmp/v; cd /tmp/v; printf '#include <stdlib.h>\n#include <stdio.h>\nint main(void) { char *p = malloc(10); p[10] = 1; puts("ran"); if (p[3]) puts("set"); return 0; }\n' >t.c; gcc -g t.c -o t; valgrind -q --leak-check=full ./t 2>&1 | sed -E 's/==[0-9]+==//; s/0x[0-9A-F]+/ADDR/g'; valgrind -q --tool=none /bin/ls / | wc -l; valgrind -q --tool=cachegrind --cachegrind-out-file=/dev/null ./t 2>/dev/null; printf '#include <pthread.h>\nint n; void *f(void *p) { for (int i = 0; i < 100; i++) n++; return p; }\nint main(void) { pthread_t a, b; pthread_create(&a, 0, f, 0); pthread_create(&b, 0, f, 0); pthread_join(a, 0); pthread_join(b, 0); return n != 200; }\n' >r.c; gcc -g r.c -o r -pthread; valgrind -q --tool=helgrind ./r 2>&1 | grep -c 'Possible data race'; valgrind -q --trace-children=yes sh -c 'ls / | wc -l; kill -9 $$'; echo "status $?"
""",
    scrub=((r"line \d+:\s+\d+", "line N: P"),),
    timeout=180,
)
case(
    "java-gcs",
    "openjdk-17-jdk-headless",
    r"""
mkdir -p /tmp/j; cd /tmp/j; cat >G.java <<'E'
import java.util.*;
public class G { static volatile Object sink; public static void main(String[] a) throws Exception { Thread[] ts = new Thread[4]; long[] sums = new long[4]; for (int i = 0; i < 4; i++) { int k = i; ts[i] = new Thread(() -> { Map<Integer, byte[]> m = new HashMap<>(); for (int n = 0; n < 40000; n++) { m.put(n % 500, new byte[n % 2000]); if (n % 1000 == 0) sums[k] += m.size(); sink = new int[n % 100]; } }); ts[i].start(); } for (Thread t : ts) t.join(); System.gc(); System.out.println(Arrays.stream(sums).sum()); var q = new java.lang.ref.ReferenceQueue<Object>(); var w = new java.lang.ref.PhantomReference<>(new Object(), q); for (int i = 0; i < 50 && q.poll() == null; i++) { System.gc(); Thread.sleep(20); } System.out.println("phantom"); String s = ""; for (int i = 0; i < 300; i++) s += i; System.out.println(s.length()); } }
E
javac G.java; for o in -XX:+UseSerialGC -XX:+UseParallelGC -XX:+UseG1GC -XX:+UseZGC -XX:+UseShenandoahGC '-XX:+UnlockExperimentalVMOptions -XX:+UseEpsilonGC -Xmx1g' '-XX:-UseCompressedOops' '-XX:+UseLargePages' '-XX:+AlwaysPreTouch -Xms128m' '-XX:+UseG1GC -XX:+UseStringDeduplication'; do java -Xmx192m $o G 2>&1; echo "$o $?"; done
java -Xmx64m -XX:NativeMemoryTracking=summary -XX:+UnlockDiagnosticVMOptions -XX:+PrintNMTStatistics G 2>&1 | grep -cE 'Java Heap|Thread '; java -XX:+UseSerialGC -Xss256k -Xmx32m G | tail -1; java -Xshare:dump -XX:SharedArchiveFile=/tmp/j/a.jsa >/dev/null 2>&1; java -XX:SharedArchiveFile=/tmp/j/a.jsa -Xshare:on -Xmx64m G | head -1; (java -Xmx64m G >/dev/null & P=$!; sleep 0.5; jcmd $P VM.version >/dev/null 2>&1; wait $P; echo "jcmd $?")
""",
    scrub=(
        (r"(?m)^OpenJDK 64-Bit Server VM warning: .*\n", ""),
        (r"(?m)^\[[\d.]+s\]", "[time]"),
    ),
    timeout=300,
)
case(
    "node-cluster",
    "nodejs apache2-utils",
    r"""
cat >/tmp/c.js <<'E'
const cluster = require('cluster'), http = require('http'), cp = require('child_process'), {Worker, MessageChannel, isMainThread, parentPort, receiveMessageOnPort} = require('worker_threads');
if (cluster.isPrimary) {
  let up = 0, ended = 0; for (let i = 0; i < 3; i++) cluster.fork({N: i});
  cluster.on('listening', () => { if (++up === 3) { const ab = cp.spawnSync('ab', ['-q', '-n', '600', '-c', '12', 'http://127.0.0.1:8083/']); console.log(`${ab.stdout}`.match(/Complete.*|Failed.*/g).join('; ')); const w = Object.values(cluster.workers); w[0].process.kill('SIGKILL'); w[1].send('bye'); w[2].disconnect(); } });
  cluster.on('exit', (w, c, s) => { console.log('exit', w.id, c, s); if (++ended === 3) threads(); });
} else { http.createServer((q, s) => s.end('w' + process.env.N)).listen(8083, '127.0.0.1'); process.on('message', () => process.exit(7)); }
function threads() {
  const src = `const {parentPort, workerData} = require('worker_threads'); let s = 0; for (let i = 0; i < 200000; i++) s = (s * 31 + i) % 65521; parentPort.postMessage([workerData, s]); if (workerData === 3) throw new Error('thrown'); if (workerData === 4) process.exit(9);`;
  let left = 8; const got = []; for (let i = 0; i < 8; i++) { const w = new Worker(src, {eval: true, workerData: i}); w.on('message', m => got.push(m)); w.on('error', e => got.push([i, e.message])); w.on('exit', c => { got.push([i, 'exit ' + c]); if (!--left) { console.log(JSON.stringify(got.sort((a, b) => a[0] - b[0] || `${a[1]}`.localeCompare(`${b[1]}`)))); rest(); } }); }
}
function rest() { const {port1, port2} = new MessageChannel(); port1.postMessage({a: new Uint8Array(3)}); console.log(receiveMessageOnPort(port2).message.a.length); const sab = new SharedArrayBuffer(8), v = new Int32Array(sab); new Worker(`const {workerData} = require('worker_threads'); const v = new Int32Array(workerData); Atomics.store(v, 0, 1); Atomics.notify(v, 0);`, {eval: true, workerData: sab}); console.log(Atomics.wait(v, 0, 0, 20000), v[0]); const t = new Worker('for (;;);', {eval: true}); t.on('online', async () => { console.log('terminated', await t.terminate()); console.log(cp.spawnSync(process.execPath, ['-e', 'process.kill(process.pid, "SIGTERM"); setInterval(() => {}, 1000)']).signal); const c = cp.fork('/tmp/h.js', {serialization: 'advanced'}); c.on('message', m => { console.log(m instanceof Map, m.get('x')); c.kill(); }); c.on('exit', (a, b) => console.log(a, b)); c.send(new Map([['x', 1n]])); }); }
E
echo "process.on('message', m => process.send(m))" >/tmp/h.js; node /tmp/c.js; echo "status $?"
""",
    timeout=120,
)
case(
    "python-science",
    "python3-numpy python3-scipy python3-uvloop",
    r"""
cat >/tmp/n.py <<'E'
import numpy as np, scipy.linalg, scipy.fft, scipy.optimize, scipy.sparse.linalg, multiprocessing as mp, threading, hashlib, sys, asyncio, uvloop, os, signal, ctypes
r = np.random.default_rng(1)
a = r.standard_normal((300, 300)); b = a @ a.T
print(hashlib.sha256(r.integers(0, 1 << 60, 100000).tobytes()).hexdigest()[:12], np.allclose(np.linalg.inv(b) @ b, np.eye(300), atol=1e-6), np.allclose(scipy.linalg.expm(np.zeros((4, 4))), np.eye(4)))
x = np.arange(1 << 16, dtype=np.float64); print(np.allclose(scipy.fft.ifft(scipy.fft.fft(x)).real, x), scipy.optimize.minimize(lambda v: ((v - 3) ** 2).sum(), np.zeros(5)).success, (x.astype(np.float32) * 2).sum() == np.float32(2) * x.astype(np.float32).sum(), x.astype(np.int32).cumsum(dtype=np.int64)[-1])
s = scipy.sparse.random(200, 200, 0.05, random_state=1) + scipy.sparse.eye(200) * 10; print(np.allclose(s @ scipy.sparse.linalg.spsolve(s.tocsc(), np.ones(200)), 1))
res = [None] * 4
def work(i): res[i] = float(np.linalg.svd(np.full((60, 60), i + 1.0))[1][0])
t = [threading.Thread(target=work, args=(i,)) for i in range(4)]; [k.start() for k in t]; [k.join() for k in t]; print([round(v, 6) for v in res])
def sq(i): return float(np.sqrt(np.float64(i)) ** 2)
m = np.memmap("/tmp/mm", dtype=np.int64, mode="w+", shape=(1000,)); m[:] = np.arange(1000); m.flush(); print(int(np.memmap("/tmp/mm", dtype=np.int64, mode="r").sum()))
with np.errstate(all="ignore"): print(np.float64(1) / np.float64(0), np.float64(0) / np.float64(0))
try: np.empty(1 << 60, dtype=np.int8)
except MemoryError as e: print(str(e)[:24])
async def main():
    async def h(rd, w): w.write(await rd.readexactly(5)); await w.drain(); w.close()
    srv = await asyncio.start_server(h, "127.0.0.1", 0); port = srv.sockets[0].getsockname()[1]
    async def one():
        rd, w = await asyncio.open_connection("127.0.0.1", port); w.write(b"hello"); d = await rd.read(); w.close(); return d
    print(len(await asyncio.gather(*(one() for _ in range(60)))), type(asyncio.get_running_loop()).__module__); srv.close()
    p = await asyncio.create_subprocess_shell("read x; echo got $x; exit 4", stdin=-1, stdout=-1); print(await p.communicate(b"in\n"), p.returncode)
    ev = asyncio.Event(); asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, ev.set); os.kill(os.getpid(), signal.SIGUSR1); await asyncio.wait_for(ev.wait(), 20); print(await asyncio.get_running_loop().run_in_executor(None, sq, 9.0)); print(await asyncio.get_running_loop().getaddrinfo("127.0.0.1", 80, type=1))
    try: await asyncio.wait_for(asyncio.sleep(60), 0.05)
    except asyncio.TimeoutError: print("timeout")
if __name__ == "__main__":
    with mp.get_context("fork").Pool(3) as p: print(sum(p.map(sq, range(50))))
    sh = mp.shared_memory.SharedMemory(create=True, size=8000) if hasattr(mp, "shared_memory") else None
    from multiprocessing import shared_memory; sh = shared_memory.SharedMemory(create=True, size=8000); v = np.ndarray((1000,), dtype=np.int64, buffer=sh.buf); v[:] = 1
    def add(name): q = shared_memory.SharedMemory(name=name); np.ndarray((1000,), dtype=np.int64, buffer=q.buf)[:500] += 1; q.close()
    p = mp.Process(target=add, args=(sh.name,)); p.start(); p.join(); print(int(v.sum())); del v; sh.close(); sh.unlink()
    uvloop.install(); asyncio.run(main())
E
OPENBLAS_NUM_THREADS=2 python3 /tmp/n.py; echo "status $?"
""",
    timeout=150,
)
case(
    "accounts",
    "passwd login util-linux",
    r"""
useradd -m -s /bin/bash -u 1500 -G daemon krun; echo "useradd $?"; id krun; echo 'krun:secret' | chpasswd; echo "chpasswd $?"; getent shadow krun | cut -c1-8; su krun -s /bin/bash -c 'id -un; cd; pwd; umask; touch f; ls -l f | cut -d" " -f1,3,4; kill -0 1; ulimit -c'; su - krun -c 'echo $HOME $USER; whoami'; groupadd -g 1600 g; usermod -aG g krun; id -Gn krun; su krun -c 'cat /etc/shadow' 2>&1; echo "shadow $?"; passwd -S krun | cut -d' ' -f1,2; chage -M 30 krun; chage -l krun | grep -c 30; passwd -l krun >/dev/null; passwd -S krun | cut -d' ' -f2; userdel -r krun; echo "userdel $?"; getent passwd krun; echo $?; login --version | head -1; chsh -s /bin/sh daemon; getent passwd daemon; pwck -r 2>&1 | tail -1; vipw --version 2>&1 | head -1; last -F 2>/dev/null | tail -1 | cut -c1-4; lastlog -u root | wc -l; setpriv --reuid=1 --regid=1 --init-groups sh -c 'id; ping' 2>&1 | head -1; capsh --print 2>/dev/null | head -1; unshare --user --map-root-user sh -c 'id -u; cat /proc/self/uid_map | tr -s " "'; chroot --userspec=2:2 / id -u; stat -c %a /tmp /root; install -o daemon -g g -m 2750 -d /tmp/dd; stat -c '%U %G %a' /tmp/dd
""",
    timeout=60,
)
case(
    "cron-at-inetd",
    "cron at openbsd-inetd netcat-openbsd procps",
    r"""
cd /tmp; printf '127.0.0.1:7007 stream tcp nowait root /bin/cat cat\n127.0.0.1:7008 stream tcp nowait nobody /usr/bin/id id -un\n127.0.0.1:7009 stream tcp nowait root internal daytime\n' >i.conf; inetd -i /tmp/i.conf & up 7007; echo through inetd | nc -N 127.0.0.1 7007; nc -d 127.0.0.1 7008; for i in 1 2 3 4 5; do echo $i | nc -N 127.0.0.1 7007 & done | sort | tr -d '\n'; echo; kill $!; mkdir -p /var/spool/cron/atjobs /var/spool/cron/atspool; atd -b 1; until_ok pgrep -x atd; echo 'echo from at >/tmp/at.out; id -un >>/tmp/at.out' | at now 2>/dev/null; atq | wc -l; until_ok grep -q root /tmp/at.out; cat /tmp/at.out; atq | wc -l; echo 'echo later' | at now + 5 days 2>/dev/null; at -l | wc -l; atrm $(atq | cut -f1); atq | wc -l; pkill -x atd; cron; until_ok pgrep -x cron; pgrep -xc cron; pkill -x cron; mkfifo p; nc -l -U /tmp/ns >p & cat p & c=$!; until_ok test -S /tmp/ns; echo unix | nc -N -U /tmp/ns; wait $c; nc -z 127.0.0.1 9 ; echo "closed $?"; (nc -u -l 127.0.0.1 7010 >udp & U=$!; sleep 0.3; echo datagram | nc -u -w1 127.0.0.1 7010; kill $U); cat udp
""",
    timeout=90,
)
case(
    "memcached-haproxy",
    "memcached haproxy nginx-light apache2-utils netcat-openbsd",
    r"""
cd /tmp; memcached -u nobody -l 127.0.0.1 -p 11222 -t 4 -m 16 & m=$!; up 11222; mc() { printf "$1" | nc -q 1 127.0.0.1 11222 | tr -d '\r'; }; mc 'set k 0 0 5\r\nvalue\r\nget k\r\nincr n 1\r\nset n 0 0 1\r\n5\r\nincr n 4\r\nget n\r\nquit\r\n'; for i in 1 2 3 4; do (for k in $(seq 200); do printf 'incr n 1 noreply\r\n'; done; printf 'quit\r\n') | nc -q 1 127.0.0.1 11222 & j="$j $!"; done; wait $j; mc 'get n\r\nstats settings\r\nquit\r\n' | grep -E '^[0-9]+ *$|num_threads |^809'; kill $m; wait $m; echo "memcached $?"
mkdir w; echo back >w/i; chmod -R a+rX /tmp/w; chmod 755 /tmp; for p in 8101 8102; do echo "worker_processes 1; pid /tmp/n$p.pid; error_log /dev/null; events {} http { access_log off; server { listen 127.0.0.1:$p; root /tmp/w; } }" >n$p.conf; nginx -c /tmp/n$p.conf 2>/dev/null; done; printf 'global\n nbthread 2\n maxconn 200\n stats socket /tmp/h.sock\ndefaults\n mode http\n timeout connect 5s\n timeout client 20s\n timeout server 20s\nfrontend f\n bind 127.0.0.1:8100\n default_backend b\nbackend b\n balance roundrobin\n server a 127.0.0.1:8101 check inter 200\n server c 127.0.0.1:8102 check inter 200\n' >h.cfg; haproxy -f h.cfg -c 2>&1 | tail -1; haproxy -W -f h.cfg -p /tmp/h.pid -D; up 8100; ab -q -n 500 -c 10 http://127.0.0.1:8100/i 2>&1 | grep -E 'Complete|Failed|Non-2xx'; echo 'show stat' | nc -N -U /tmp/h.sock | grep '^b,' | cut -d, -f2,18 | sort; nginx -c /tmp/n8101.conf -s stop 2>/dev/null; until_ok eval "echo 'show stat' | nc -N -U /tmp/h.sock | grep '^b,a' | grep -q DOWN"; ab -q -n 100 -c 5 http://127.0.0.1:8100/i 2>&1 | grep -E 'Complete|Non-2xx'; echo 'show stat' | nc -N -U /tmp/h.sock | grep '^b,a' | cut -d, -f18; kill -USR2 $(cat h.pid); sleep 1; until_ok eval "echo 'show stat' | nc -N -U /tmp/h.sock | grep '^b,a' | grep -q DOWN"; ab -q -n 50 -c 5 http://127.0.0.1:8100/i 2>&1 | grep -E 'Complete|Non-2xx'; kill $(cat h.pid); nginx -c /tmp/n8102.conf -s quit 2>/dev/null; until_not pgrep -x 'haproxy|nginx'; pgrep -xc 'haproxy|nginx'
""",
    scrub=((r",(DOWN|UP)\b.*", r",\1"), (r"\(\d+\) : New worker \(\d+\)", "New worker")),
    timeout=90,
)
case(
    "lisps",
    "sbcl guile-3.0 lua5.4",
    r"""
cd /tmp; cat >t.lisp <<'E'
(defun fib (n) (declare (fixnum n)) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))
(print (fib 25)) (print (expt 2 100)) (handler-case (car 5) (type-error () (print :type)))
(handler-case (/ 1 0) (division-by-zero () (print :zero)))
(let ((l nil)) (dotimes (i 200000) (push (make-array 20) l)) (setf l nil) (gc :full t) (print :gc))
(let* ((n 0) (m (sb-thread:make-mutex)) (ts (loop repeat 8 collect (sb-thread:make-thread (lambda () (dotimes (i 1000) (sb-thread:with-mutex (m) (incf n)) (make-list 10))))))) (mapc #'sb-thread:join-thread ts) (print n))
(handler-case (sb-sys:with-deadline (:seconds 0.1) (sb-thread:wait-on-semaphore (sb-thread:make-semaphore))) (sb-sys:deadline-timeout () (print :deadline)))
(print (with-output-to-string (s) (sb-ext:run-program "/bin/echo" '("child") :output s))) (compile 'fib) (print (funcall (compile nil '(lambda (x) (* x 3))) 14)) (terpri) (sb-ext:exit :code 4)
E
sbcl --script t.lisp 2>&1; echo "status $?"; sbcl --non-interactive --no-userinit --eval '(progn (defun main () (print :saved) (terpri)) (save-lisp-and-die "/tmp/img" :executable t :toplevel (lambda () (main) (sb-ext:exit :code 2))))' >/dev/null 2>&1; ./img; echo "image $?"
cat >t.scm <<'E'
(use-modules (ice-9 threads) (ice-9 popen) (ice-9 rdelim))
(define (fib n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2))))) (display (fib 22)) (newline) (display (apply + (par-map (lambda (x) (* x x)) (iota 200)))) (newline) (display (catch #t (lambda () (car 5)) (lambda (k . a) k))) (newline) (let ((p (open-input-pipe "echo piped"))) (display (read-line p)) (newline)) (let loop ((i 0)) (if (< i 300000) (begin (make-vector 20) (loop (+ i 1))))) (gc) (display (call/cc (lambda (k) (+ 1 (k 42))))) (newline) (let ((p (primitive-fork))) (if (zero? p) (primitive-exit 3) (begin (display (status:exit-val (cdr (waitpid p)))) (newline)))) (sigaction SIGUSR1 (lambda (s) (display "usr1") (newline))) (kill (getpid) SIGUSR1) (usleep 1000) (exit 6)
E
guile --no-auto-compile t.scm; echo "status $?"; lua5.4 -e 'local t = {} for i = 1, 300000 do t[i] = {i} end collectgarbage() print(#t, pcall(error, "e"), coroutine.wrap(function() coroutine.yield(5) end)()) print(select("#", string.gsub(string.rep("ab", 1000), "a", "c")), 2^53, 7 // 2, math.type(1)) print(io.popen("echo popen"):read("a")) local function r() return 1 + r() end print(pcall(r)) os.exit(3)'; echo "lua $?"
""",
    timeout=120,
)


# ---------------------------------------------------------------------------------------------------------- the root


def make_root(packages: set[str], sources: bool = True) -> Path:
    """build/roots/software with these packages: debootstrap's minimal system (shared), then apt-get inside."""
    base, root = ROOTS / "debian", ROOTS / "software"
    ROOTS.mkdir(parents=True, exist_ok=True)
    if not base.exists():
        new = ROOTS / f"debian.{os.getpid()}"
        subprocess.run(
            ["debootstrap", "--variant=minbase", "bookworm", str(new)], check=True, stdout=sys.stderr
        )
        if base.exists():
            shutil.rmtree(new)
        else:
            new.rename(base)
    if not root.exists():
        new = ROOTS / f"software.{os.getpid()}"
        subprocess.run(["cp", "-a", str(base), str(new)], check=True)
        new.rename(root)
    listed = root / "usr" / "share" / "krun-packages"
    have = set(listed.read_text().split()) if listed.exists() else set()
    missing = sorted(packages - have)
    if missing:
        apt = "DEBIAN_FRONTEND=noninteractive LC_ALL=C; export DEBIAN_FRONTEND LC_ALL; "
        apt += "apt-get update -q && apt-get install -qy --no-install-recommends " + " ".join(missing)
        in_root(root, apt)
        listed.write_text("\n".join(sorted(have | packages)) + "\n")
    if sources:
        fetch_sources(root)
    return root


def in_root(root: Path, command: str) -> None:
    """Run a shell command natively in the root, the host's resolver borrowed; daemons of packages stay down."""
    policy = root / "usr" / "sbin" / "policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    shutil.copy("/etc/resolv.conf", root / "etc" / "resolv.conf")
    inner = f'mount -t proc proc "{root}/proc" && chroot "{root}" /bin/sh -c "$1"'
    # A mount namespace of its own: the mount goes with the command.
    with open(ROOTS / "software.log", "ab") as log:
        done = subprocess.run(
            ["unshare", "-m", "sh", "-c", inner, "sh", command], stdout=log, stderr=log, check=False
        )
    if done.returncode:
        raise SystemExit(f"software: a command in the root failed, see {log.name}: {command}")


#: Debian source package -> where its unpacked tree goes.
SOURCES = {"zlib": "krun-zlib", "lua5.4": "krun-lua", "hello": "krun-hello"}


def fetch_sources(root: Path) -> None:
    for package, name in SOURCES.items():
        if not (root / "usr" / "src" / name).exists():
            command = (
                "sed -n 's/^deb /deb-src /p' /etc/apt/sources.list >/etc/apt/sources.list.d/krun-src.list; apt-get -q update;"
                f" cd /usr/src && rm -rf fetch && mkdir fetch && cd fetch && apt-get -q source {package} && mv */ ../{name}"
            )
            in_root(root, command)


# ---------------------------------------------------------------------------------------------------------- running


@dataclasses.dataclass
class Outcome:
    status: int | None  # None: it did not end
    output: str
    seconds: float


class Overlay:
    """A private, writable view of a root; nothing is left of it afterwards."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def __enter__(self) -> Path:
        self.work = Path(tempfile.mkdtemp(prefix="krun-software-"))
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(self.work)], check=True)
        for name in ("upper", "scratch", "rootfs"):
            (self.work / name).mkdir(mode=0o755)
        options = f"lowerdir={self.root},upperdir={self.work}/upper,workdir={self.work}/scratch"
        self.rootfs = self.work / "rootfs"
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, str(self.rootfs)], check=True)
        return self.work

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", str(self.rootfs)], check=False)
        subprocess.run(["umount", str(self.work)], check=False)
        if not os.path.ismount(self.work):
            shutil.rmtree(self.work, ignore_errors=True)


_runs = 0

#: What happens beside a container (perf/figures.py has the load generators).
Beside = Callable[[Path, "subprocess.Popen[bytes]"], str]


def run(runtime: str, root: Path, script: str, timeout: float, beside: Beside | None = None) -> Outcome:
    """One container of `runtime` (a name or a path) over `root` that runs a bash script.

    With `beside`: the container is on the host's network and goes on behind the script until there is a file tmp/stop in its root. `beside` gets
    the root and the runtime's process; what it returns is the output.
    """
    global _runs
    _runs += 1
    id = f"sw{os.getpid()}-{_runs}"
    config = json.loads(json.dumps(CONFIG))
    process = config["process"]
    process["args"] = ["/bin/bash", "/tmp/krun-case.sh"]
    process["env"] = [
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME=/root",
        "LC_ALL=C.UTF-8",
    ]
    process["capabilities"] = dict.fromkeys(("bounding", "effective", "permitted"), CAPABILITIES)
    process["noNewPrivileges"] = False
    # A runaway case must not take the machine with it.
    config["linux"]["resources"].update({"memory": {"limit": 3 << 30}, "pids": {"limit": 2000}})
    process["rlimits"] = [{"type": "RLIMIT_NOFILE", "hard": 4096, "soft": 1024}]
    if GO.is_dir():
        bind = {"destination": str(GO), "type": "bind", "source": str(GO), "options": ["bind", "ro"]}
        config["mounts"].append(bind)
    # One stream: runc copies two pipes, and their order would be chance.
    script = "exec 2>&1\n" + WAITING + script
    if beside:
        config["linux"]["namespaces"] = [n for n in config["linux"]["namespaces"] if n["type"] != "network"]
        config["mounts"] = [m for m in config["mounts"] if m["destination"] != "/sys"]
        script += "\ntouch /tmp/ready; until [ -e /tmp/stop ]; do sleep 0.2; done\n"
    with Overlay(root) as work:
        (work / "rootfs" / "tmp" / "krun-case.sh").write_text(script)
        (work / "config.json").write_text(json.dumps(config))
        state = work / "state"
        base = [str(find(runtime)), "--root", str(state)]
        started = time.monotonic()
        with open(work / "out", "w+b") as out:
            child = subprocess.Popen(
                [*base, "run", "--bundle", str(work), id], stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )
            status: int | None
            text = beside(work / "rootfs", child) if beside else ""
            try:
                status = child.wait(timeout * SLOW)
            except subprocess.TimeoutExpired:
                status = None
                quietly([*base, "kill", id, "KILL"])
                try:
                    child.wait(10)
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.wait()
            seconds = time.monotonic() - started
            quietly([*base, "delete", "--force", id])
            out.seek(0)
            text = text or out.read().decode(errors="replace")
    return Outcome(status, text, seconds)


def quietly(argv: list[str]) -> None:
    """Clean up as well as it goes: what a runtime says about it is not what is compared here."""
    try:
        subprocess.run(argv, capture_output=True, timeout=30 * SLOW, check=False)
    except subprocess.TimeoutExpired:
        pass


#: bash names the process that died of a signal by its number, everywhere.
ALWAYS = ((r"(?m)line \d+: +\d+ (?=[A-Z])", "line N: "),)


def scrubbed(case: Case, output: str) -> str:
    for pattern, replacement in (*ALWAYS, *case.scrub):
        output = re.sub(pattern, replacement, output)
    return output


def compare(case: Case, native: Outcome, krun: Outcome) -> str:
    """Empty when equal, else what differs."""
    said = []
    if krun.status != native.status:
        said.append(f"exit status {krun.status} instead of {native.status}\n")
    a, b = (scrubbed(case, o.output).splitlines(keepends=True) for o in (native, krun))
    said += difflib.unified_diff(a, b, "runc", "krun", n=1)
    return "".join(said)


def all_packages(cases: list[Case]) -> set[str]:
    return {p for c in cases for p in c.packages.split()} | {"bash", "coreutils", "procps"}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="cases (default: all)")
    parser.add_argument("--list", action="store_true", help="print the table")
    parser.add_argument("--show", action="store_true", help="print the outputs, too")
    parser.add_argument(
        "--keep-native", metavar="DIR", type=Path, help="remember runc's outcomes here and use them again"
    )
    args = parser.parse_args()
    cases = [c for c in CASES if not args.names or c.name in args.names]
    if args.list:
        for c in cases:
            print(f"{c.name:<16} {'quick' if c.quick else '':<6} {c.packages}")
        return 0
    unknown = set(args.names) - {c.name for c in CASES}
    if unknown:
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    root = make_root(all_packages(CASES))
    failed = []
    print(f"{'case':<16} {'runc':>8} {'krun':>8}  result", flush=True)
    for c in cases:
        saved = args.keep_native / f"{c.name}.json" if args.keep_native else None
        if saved and saved.exists() and json.loads(saved.read_text())["script"] == c.script:
            native = Outcome(**json.loads(saved.read_text())["outcome"])
        else:
            native = run("runc", root, c.script, c.timeout)
            if saved:
                saved.parent.mkdir(parents=True, exist_ok=True)
                saved.write_text(json.dumps({"script": c.script, "outcome": dataclasses.asdict(native)}))
        krun = run("krun", root, c.script, c.timeout)
        difference = compare(c, native, krun)
        print(
            f"{c.name:<16} {native.seconds:>7.1f}s {krun.seconds:>7.1f}s  {'differs' if difference else 'equal'}",
            flush=True,
        )
        if args.show:
            print(native.output)
        if difference:
            failed.append(c.name)
            print("    " + difference.replace("\n", "\n    "), flush=True)
    print(
        f"{len(cases) - len(failed)} of {len(cases)} equal"
        + (f"; differ: {', '.join(failed)}" if failed else "")
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
