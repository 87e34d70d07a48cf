"""The vDSO's time page after an execve: its promise is as long as before, because the rate of the clock is handed over."""

import os
import subprocess
from pathlib import Path

from helpers.runtime import DIRECT

ROOT = Path(__file__).resolve().parents[2]
# The field `limit` of the page (guest/vdso_page.h), which lies in front of the vDSO's image: after 150 ms, then as the next program.
PROGRAM = r"""
#include <stdio.h>
#include <sys/auxv.h>
#include <time.h>
#include <unistd.h>
static double ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}
int main(int argc, char **argv) {
    double begin = ms();
    while (argc == 1 && ms() < begin + 150)
        getppid();
    printf("%lu\n", *(unsigned long *)(getauxval(AT_SYSINFO_EHDR) - 4096 + 16));
    fflush(stdout);
    if (argc == 1)
        execl(argv[0], argv[0], "again", NULL);
    return 0;
}
"""


def test_the_promise_after_an_execve(tmp_path: Path) -> None:
    (tmp_path / "clock.c").write_text(PROGRAM)
    subprocess.run(["gcc", "-o", tmp_path / "clock", tmp_path / "clock.c"], check=True)
    command = [*DIRECT, str(tmp_path / "clock")]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True
    )
    before, after = map(int, done.stdout.split())
    assert after >= before * 0.9
