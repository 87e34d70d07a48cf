"""Figures of real programs, by turns in each runtime: servers under a load generator, builds, languages.

`./dev bench --series servers` measures those with a client, `--series programs` the others. The containers, their root and its packages
are those of the suite `software` (tests/suites/software.py).
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from helpers.runtime import SLOW
from suites import software


@dataclasses.dataclass(frozen=True)
class Figure:
    """A number that a script prints."""

    name: str
    unit: str
    higher_is_better: bool
    packages: str
    #: The last word of its output is the number. With `client` it only starts the server.
    script: str
    timeout: float = 120
    #: A load generator that runs natively (chroot into the same root, same network). It prints the number, and how many requests there were.
    client: str = ""
    #: A Go program of this folder that the host's compiler builds into the root's /usr/local/bin, by the name of its source.
    go: str = ""


_REDIS = "cd /tmp; redis-server --port 17379 --daemonize yes --save '' >/dev/null; until redis-cli -p 17379 ping >/dev/null 2>&1; do sleep 0.1; done"
_REDIS_CLIENT = r"redis-benchmark -p 17379 -q -n {0} {1} | tr '\r' '\n' | sed -n 's/.*: \([0-9.]*\) requests per second.*/\1 {0}/p' | tail -1"
_NGINX = """
cd /tmp; head -c {} /dev/zero >f; echo 'worker_processes 1; pid /tmp/p; error_log /dev/null; events {{}} http {{ access_log off; sendfile on;
keepalive_requests 1000000; server {{ listen 127.0.0.1:17380; root /tmp; }} }}' >n.conf; chmod 755 /tmp; nginx -c /tmp/n.conf; sleep 0.3
"""
_WRK = r"wrk -t1 -c{} -d4 http://127.0.0.1:17380/f | awk '/requests in/{{n = $1}} /^Requests.sec/{{print $2, n}}'"
#: Small answers of languages' run times.
_GO_HTTP = "(gohttp &); up 17380"
_EXPRESS = r"""
cd /tmp; cat >s.js <<'E'
const app = require('/usr/share/nodejs/express')(); app.get('/f', (q, r) => r.send('hello')); app.listen(17380, '127.0.0.1')
E
(NODE_ENV=production node s.js &); up 17380
"""
_FLASK = r"""
cd /tmp; cat >s.py <<'E'
from flask import Flask
app = Flask(__name__)
@app.get("/f")
def f(): return "hello"
E
(gunicorn -w 1 -b 127.0.0.1:17380 --log-level critical s:app &); up 17380
"""
_PG = r"""
export PATH=/usr/lib/postgresql/15/bin:$PATH LC_ALL=C; mkdir /tmp/pg; chown postgres /tmp/pg
su postgres -s /bin/bash -c "export PATH=$PATH; initdb -D /tmp/pg/d -A trust >/dev/null; pg_ctl -D /tmp/pg/d -o '-k /tmp' -l /tmp/pg/log -w start >/dev/null
createdb -h /tmp b; pgbench -h /tmp -q -i -s 5 b >/dev/null 2>&1; pgbench -h /tmp {} b 2>/dev/null | sed -n 's/tps = \([0-9.]*\).*/\1/p'"
"""
_PG_SERVER = r"""
export PATH=/usr/lib/postgresql/15/bin:$PATH LC_ALL=C; mkdir /tmp/pg; chown postgres /tmp/pg
su postgres -s /bin/bash -c "export PATH=$PATH; initdb -D /tmp/pg/d -A trust >/dev/null; pg_ctl -D /tmp/pg/d -o '-k /tmp -p 17381' -l /tmp/pg/log -w start >/dev/null
createdb -h /tmp -p 17381 b; pgbench -h /tmp -p 17381 -q -i -s 5 b >/dev/null 2>&1"
"""
_PG_CLIENT = "/usr/lib/postgresql/15/bin/pgbench -h 127.0.0.1 -p 17381 -U postgres -S -c 4 -T 4 b 2>/dev/null"
_PG_CLIENT += r" | awk '/actually processed/{n = $6} /^tps/{print $3, n}'"
_TIME = "cd /tmp; {}\nt=$EPOCHREALTIME; {}; u=$EPOCHREALTIME; echo $(( (${{u/./}} - ${{t/./}}) / 1000 ))\n"
_ZLIB = "cp -a /usr/src/krun-zlib z; cd z; ./configure >/dev/null"

FIGURES = [
    Figure(
        "redis GET, 50 clients",
        "requests/s",
        True,
        "redis-server redis-tools",
        _REDIS,
        client=_REDIS_CLIENT.format(30000, "-t get"),
    ),
    Figure(
        "redis GET, pipeline of 16",
        "requests/s",
        True,
        "redis-server",
        _REDIS,
        client=_REDIS_CLIENT.format(200000, "-P 16 -t get"),
    ),
    Figure(
        "redis GET, one client",
        "requests/s",
        True,
        "redis-server",
        _REDIS,
        client=_REDIS_CLIENT.format(5000, "-c 1 -t get"),
    ),
    Figure(
        "nginx, 1 KiB, 20 connections",
        "requests/s",
        True,
        "nginx-light wrk",
        _NGINX.format(1024),
        client=_WRK.format(20),
    ),
    Figure(
        "nginx, 1 MiB, 4 connections",
        "requests/s",
        True,
        "nginx-light wrk",
        _NGINX.format(1 << 20),
        client=_WRK.format(4),
    ),
    Figure(
        "Go net/http, 20 connections",
        "requests/s",
        True,
        "wrk",
        _GO_HTTP,
        client=_WRK.format(20),
        go="gohttp",
    ),
    Figure(
        "node and express, 20 connections",
        "requests/s",
        True,
        "wrk nodejs node-express",
        _EXPRESS,
        client=_WRK.format(20),
    ),
    Figure(
        "gunicorn and flask, 4 connections",
        "requests/s",
        True,
        "wrk gunicorn python3-flask",
        _FLASK,
        client=_WRK.format(4),
    ),
    Figure(
        "postgres under pgbench -S, 4 connections",
        "transactions/s",
        True,
        "postgresql-15",
        _PG_SERVER,
        client=_PG_CLIENT,
    ),
    Figure("pgbench -S, 4 clients", "transactions/s", True, "postgresql-15", _PG.format("-S -c 4 -j 1 -T 4")),
    Figure(
        "pgbench TPC-B-like, 4 clients", "transactions/s", True, "postgresql-15", _PG.format("-c 4 -j 1 -T 4")
    ),
    Figure(
        "gcc -O2 of one large file (lua)",
        "ms",
        False,
        "gcc",
        _TIME.format(
            "cp -a /usr/src/krun-lua l; cd l/src; echo '#define DEB_HOST_MULTIARCH \"\"' >lua5.4-deb-multiarch.h",
            "gcc -O2 -c lvm.c || exit 1",
        ),
    ),
    Figure(
        "make of zlib (static library)",
        "ms",
        False,
        "gcc make",
        _TIME.format(_ZLIB, "make -s libz.a >/dev/null 2>&1"),
        300,
    ),
    Figure(
        "./configure of hello",
        "ms",
        False,
        "gcc make",
        _TIME.format("cp -a /usr/src/krun-hello h; cd h", "./configure -q >/dev/null 2>&1"),
        400,
    ),
    Figure(
        "python3 -c pass, 20 times",
        "ms",
        False,
        "python3",
        _TIME.format(
            ":", "for i in {{1..20}}; do python3 -c pass; done".replace("{{", "{").replace("}}", "}")
        ),
    ),
    Figure(
        "git: 30 commits and gc",
        "ms",
        False,
        "git",
        _TIME.format(
            "git init -q r; cd r; git config user.name n; git config user.email e",
            "for i in {1..30}; do echo $i >f; git add f; git commit -qm $i; done; git gc -q",
        ),
    ),
    Figure(
        "sqlite3: 200000 inserts",
        "ms",
        False,
        "sqlite3",
        _TIME.format(
            ":",
            "sqlite3 t.db 'create table t(a,b); with recursive n(x) as (select 1 union all select x+1 from n where x<200000) insert into t select x, hex(x) from n; create index i on t(b)'",
        ),
    ),
    Figure(
        "xz -1 -T2 of 60 MB",
        "ms",
        False,
        "xz-utils",
        _TIME.format(
            "head -c 60000000 /usr/bin/perl /usr/bin/python3 /usr/bin/node /usr/lib/x86_64-linux-gnu/libLLVM* 2>/dev/null | head -c 60000000 >f",
            "xz -1 -T2 -k f",
        ),
    ),
    Figure(
        "node: fib(35) and 2e6 allocations",
        "ms",
        False,
        "nodejs",
        _TIME.format(
            ":",
            "node -e 'function f(n){return n<2?n:f(n-1)+f(n-2)}; f(35); let a=[]; for(let i=0;i<2e6;i++) a.push({i})'",
        ),
    ),
    Figure(
        "java: hello",
        "ms",
        False,
        "openjdk-17-jdk-headless",
        _TIME.format(
            "echo 'class H{public static void main(String[] a){System.out.println(1);}}' >H.java; javac H.java",
            "java -Xmx64m H >/dev/null",
        ),
    ),
    Figure(
        "openssl sha256, 1 s of 8 KiB",
        "kB/s",
        True,
        "openssl",
        "openssl speed -seconds 1 -bytes 8192 -evp sha256 2>/dev/null | tail -1 | awk '{print $2+0}'",
    ),
]


@dataclasses.dataclass
class Measured:
    """The best of a runtime's rounds."""

    value: float
    #: Microseconds of CPU time for each request: of all processes of the container and of its runtime while the load ran. 0 without a load.
    cpu_us: float = 0.0


#: Processes that only keep a CPU busy while there is a measurement (bench.py, --hog).
HOGS: set[int] = set()


def cpu_seconds() -> float:
    """CPU time of all descendants of this process but HOGS, and of what they have waited for (proc(5), stat)."""
    parents: dict[int, int] = {}
    used: dict[int, int] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                fields = Path(entry.path, "stat").read_text(errors="replace").rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
            used[int(entry.name)] = sum(map(int, fields[11:15]))
    total, me = 0, os.getpid()
    for pid, ticks in used.items():
        line = [pid]
        while line[-1] in parents:
            line.append(parents[line[-1]])
        if me in line[1:] and not HOGS.intersection(line):
            total += ticks
    return total / os.sysconf("SC_CLK_TCK")


class Load:
    """A client beside one container (software.run, `beside`)."""

    def __init__(self, figure: Figure) -> None:
        self.figure = figure
        self.seconds = 0.0

    def __call__(self, rootfs: Path, server: subprocess.Popen[bytes]) -> str:
        """Wait for the server, run the load generator natively, stop the server; what the generator printed."""
        limit = self.figure.timeout * SLOW
        end = time.monotonic() + limit
        while not (rootfs / "tmp" / "ready").exists() and server.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
        argv = ["chroot", str(rootfs), "/bin/bash", "-c", self.figure.client]
        before = cpu_seconds()
        # A session of its own: a pipeline is ended as a whole.
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, start_new_session=True) as child:
            try:
                text, _ = child.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                text = f"the load generator did not end in {limit:.0f} s"
            finally:
                self.seconds = cpu_seconds() - before
                (rootfs / "tmp" / "stop").touch()
        return text


def once(figure: Figure, runtime: str, root: Path) -> Measured:
    """One round; a ValueError tells what the program said instead of a number."""
    load = Load(figure) if figure.client else None
    done = software.run(runtime, root, figure.script, figure.timeout, beside=load)
    words = done.output.split()
    try:
        if load:
            return Measured(float(words[-2]), load.seconds * 1e6 / float(words[-1]))
        return Measured(float(words[-1]))
    except (IndexError, ValueError):
        raise ValueError(f"status {done.status}: {done.output[-300:]}") from None


def build_go(figure: Figure, root: Path) -> None:
    """The program of figure.go, if it is not there yet. A CalledProcessError or FileNotFoundError without a Go compiler."""
    program = root / "usr" / "local" / "bin" / figure.go
    if figure.go and not program.exists():
        go = shutil.which("go") or str(software.GO / "bin" / "go")
        source = Path(__file__).with_name(f"{figure.go}.go")
        environment = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GO111MODULE": "off"}
        subprocess.run([go, "build", "-o", str(program), str(source)], env=environment, check=True)


def measure(
    figure: Figure, root: Path, runtimes: dict[str, str], rounds: int
) -> tuple[dict[str, Measured], str]:
    """One figure by turns in each runtime (name: its path): the best rounds (what disturbs a round only makes it worse), and what went wrong."""
    found: dict[str, list[Measured]] = {name: [] for name in runtimes}
    bad = ""
    build_go(figure, root)
    for _ in range(rounds):
        for name, path in runtimes.items():
            try:
                found[name].append(once(figure, path, root))
            except ValueError as e:
                bad += f"{figure.name}: {name}: {e}\n"
    best = max if figure.higher_is_better else min
    return {
        name: Measured(best(m.value for m in got), min(m.cpu_us for m in got))
        for name, got in found.items()
        if got
    }, bad
