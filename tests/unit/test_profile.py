"""tests/perf/events.py: the account of a trace by cause, on a trace written by hand."""

from __future__ import annotations

from perf import events

# A python executes the monitor, which makes a VM and forks; the child runs its vCPU and ends; KVM's worker destroys its VM.
TREE = """
# tracer: nop
          python-10      [000] .....     1.000000: sys_enter: NR 1 (1, 2, 3, 0, 0, 0)
          python-10      [000] .....     1.000100: sys_exit: NR 1 = 3
          python-10      [000] .....     1.000200: sys_enter: NR 322 (6, 1, 2, 3, 1000, 0)
         my prog-10      [000] .....     1.000300: sched_process_exec: filename=/dev/fd/6 pid=10 old_pid=10
         my prog-10      [000] .....     1.000350: sys_exit: NR 322 = 0
         my prog-10      [000] .....     1.000360: page_fault_user: address=0x1 ip=0x2 error_code=0x7
         my prog-10      [000] .....     1.000400: sys_enter: NR 16 (5, ae01, 0, 0, 0, 0)
         my prog-10      [000] .....     1.000500: sys_exit: NR 16 = 3
         my prog-10      [000] .....     1.000510: sys_enter: NR 56 (1200011, 0, 0, 0, 0, 0)
         my prog-10      [000] .....     1.000550: sched_process_fork: comm=my prog pid=10 child_comm=my prog child_pid=11
         my prog-10      [000] .....     1.000600: sys_exit: NR 56 = 11
         my prog-10      [000] .....     1.000610: sys_enter: NR 61 (b, 0, 0, 0, 0, 0)
         my prog-10      [000] .....     1.000620: sched_switch: prev_comm=my prog prev_pid=10 prev_prio=120 prev_state=S ==> next_comm=my prog next_pid=11 next_prio=120
         my prog-11      [000] .....     1.000650: sys_exit: NR 56 = 0
         my prog-11      [000] .....     1.000660: sys_enter: NR 16 (5, 4020ae46, 0, 0, 0, 0)
         my prog-11      [000] .....     1.000670: sched_switch: prev_comm=my prog prev_pid=11 prev_prio=120 prev_state=D ==> next_comm=other next_pid=99 next_prio=120
           other-99      [000] .....     1.005000: sched_switch: prev_comm=other prev_pid=99 prev_prio=120 prev_state=R ==> next_comm=my prog next_pid=11 next_prio=120
         my prog-11      [000] .....     1.005010: sys_exit: NR 16 = 0
         my prog-11      [000] .....     1.005020: sys_enter: NR 16 (5, ae41, 0, 0, 0, 0)
         my prog-11      [000] .....     1.005030: sys_exit: NR 16 = 4
         my prog-11      [000] .....     1.005040: sys_enter: NR 16 (4, ae80, 0, 0, 0, 0)
         my prog-11      [000] ...1.     1.005200: kvm_mmu_spte_requested: gfn 10440e pfn 124657 level 1
         my prog-11      [000] .....     1.005240: kvm_userspace_exit: reason KVM_EXIT_IO (2)
         my prog-11      [000] .....     1.005240: sys_exit: NR 16 = 0
         my prog-11      [000] .....     1.005250: sys_enter: NR 28 (1000, 1000, 17, 0, 0, 0)
         my prog-11      [000] .....     1.005260: sys_exit: NR 28 = 0
         my prog-11      [000] .....     1.005270: sys_enter: NR 231 (0, 0, 0, 0, 0, 0)
         my prog-11      [000] .....     1.005280: sched_process_exit: comm=my prog pid=11 prio=120 group_dead=false
         my prog-11      [000] .....     1.005300: sched_switch: prev_comm=my prog prev_pid=11 prev_prio=120 prev_state=Z ==> next_comm=kvm-nx-lpage-re next_pid=12 next_prio=120
"""
SWITCH = "sched_switch: prev_comm={} prev_pid={} prev_prio=120 prev_state={} ==> next_comm={} next_pid={} next_prio=120\n"
WORKERS = (
    "          my prog-11      (     11) [000] .....     1.005100: "
    + SWITCH.format("my prog", 11, "R", "kvm-nx-lpage-re", 12)
    + " kvm-nx-lpage-re-12      (     11) [000] .....     1.005103: "
    + SWITCH.format("kvm-nx-lpage-re", 12, "S", "my prog", 11)
    + "          my prog-11      (     11) [000] .....     1.005300: "
    + SWITCH.format("my prog", 11, "Z", "kvm-nx-lpage-re", 12)
    + " kvm-nx-lpage-re-12      (     11) [000] .....     1.005500: "
    + SWITCH.format("kvm-nx-lpage-re", 12, "D", "other", 99)
    + " kvm-nx-lpage-re-77      (     70) [000] .....     1.005500: "
    + SWITCH.format("kvm-nx-lpage-re", 77, "D", "other", 99)
)


def test_time_on_a_cpu_belongs_to_its_cause():
    found = events.account(TREE.splitlines(), WORKERS.splitlines(), "")
    assert dict(found.us) == {
        "execve": 50,  # what came before was not the monitor
        events.CODE: 10 + 40 + 10 + 10 + 4 * 10,
        events.RETURN: 10,
        "VM": 100,
        "clone": 90 + 30,  # the child's part, too
        events.OTHER: 10,  # wait4 until it slept
        "slots": 10 + 10,  # not the time of another process
        "vCPU": 10,
        events.KVM_FIRST: 200,
        "populate": 10,
        events.EXIT: 10 + 20,
        events.WORKER: 3,
        events.ENDED: 200,
    }
    assert found.number["slots"] == found.number["VM"] == found.number["clone"] == 1
    assert dict(found.waits) == {"slots": 1, events.WORKER: 0, events.ENDED: 1}
    assert dict(found.faults) == {"monitor, user": 1, "KVM, page": 1} and dict(found.exits) == {"IO": 1}


def test_a_command_of_krun_counts_from_its_execve():
    text = TREE.replace("filename=/dev/fd/6", "filename=/usr/bin/krun")
    found = events.account(text.splitlines(), [], "krun")
    assert found.us[events.KRUN_CALLS] and found.us["execve"] == 50 and not found.us["VM"]
