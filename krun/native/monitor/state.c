/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks the table of the state (state.def) before and after a fork, at a vfork, an execve and a core file, and after the
 * death of a lock's holder. No state.
 */
#include "../lib/above.h"
#include "../process/board.h"
#include "../process/core.h"
#include "../process/exec.h"
#include "../process/state.h"
#include "../view/ask.h"
#include "../machine/fdtab.h"
#include "../machine/mm.h"
#include "../view/procfs.h"
#include "../process/trace.h"
#include "../process/observe.h"
#include "../machine/vdso.h"
#include "../sys/aio.h"
#include "../sys/memfile.h"
#include "../sys/path.h"
#include "../process/robust.h"
#include "../local/local.h"

#define NONE (void)t
#define HEIR(lock, repair) (l == (lock) ? (repair) : (void)0)

void kr_state_before_fork(struct kr_task *t) {
#define STATE(name, lock, before, parent, child, vfork, heir, exec, core, save, load, variables) before;
#include "state.def"
#undef STATE
}

void kr_state_vfork(struct kr_task *t) {
#define STATE(name, lock, before, parent, child, vfork, heir, exec, core, save, load, variables) vfork;
#include "state.def"
#undef STATE
}

#define FRESH (void)0
#define KERNEL (void)0

void kr_state_exec(const struct kr_exec_save *x) {
    struct kr_task *t = x->t;
    (void)t;
#define STATE(name, lock, before, parent, child, vfork, heir, exec, core, save, load, variables) exec;
#include "state.def"
#undef STATE
}

void kr_state_core(struct kr_core *k) {
    struct kr_task *t = k->t;
    (void)t;
#define STATE(name, lock, before, parent, child, vfork, heir, exec, core, save, load, variables) core;
#include "state.def"
#undef STATE
}

void kr_state_heir(struct kr_lock *l) {
    struct kr_task *t = kr_self();
#define STATE(name, lock, before, parent, child, vfork, heir, exec, core, save, load, variables) heir;
#include "state.def"
#undef STATE
}

enum row {
#define STATE(name, lock, before, parent, child, vfork, heir, exec, core, save, load, variables) ROW_##name,
#include "state.def"
#undef STATE
    ROWS
};

void kr_state_fork_parent(struct kr_task *t) {
    for (u32 row = ROWS; row-- > 0;)
        switch ((enum row)row) {
#define STATE(name, lock, before, parent, child, vfork, heir, exec, core, save, load, variables)             \
    case ROW_##name:                                                                                         \
        parent;                                                                                              \
        break;
#include "state.def"
#undef STATE
        case ROWS:
            break;
        }
}

void kr_state_fork_child(struct kr_task *t) {
    for (u32 row = ROWS; row-- > 0;)
        switch ((enum row)row) {
#define STATE(name, lock, before, parent, child, vfork, heir, exec, core, save, load, variables)             \
    case ROW_##name:                                                                                         \
        child;                                                                                               \
        break;
#include "state.def"
#undef STATE
        case ROWS:
            break;
        }
}
