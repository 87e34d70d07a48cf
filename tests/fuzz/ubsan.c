/* SPDX-License-Identifier: Apache-2.0
 * What GCC's undefined-behaviour sanitizer calls in the fuzzing build of the monitor (build_native.py
 * --ubsan): there is no libc and so no run-time library of its own. The place is named in the monitor's last
 * words, and the process ends. */
#include "machine/vmm.h"

struct place {
    const char *file;
    u32 line, column;
};

/* The data of every handler begins with the place. */
#define HANDLER(name)                                                                                        \
    __attribute__((used, noreturn)) void __ubsan_handle_##name(const struct place *p) {                      \
        kr_die("undefined behaviour (" #name ") at %s:%u:%u", p->file, p->line, p->column);                  \
    }

HANDLER(add_overflow_abort)
HANDLER(sub_overflow_abort)
HANDLER(mul_overflow_abort)
HANDLER(negate_overflow_abort)
HANDLER(divrem_overflow_abort)
HANDLER(shift_out_of_bounds_abort)
HANDLER(out_of_bounds_abort)
HANDLER(type_mismatch_v1_abort)
HANDLER(vla_bound_not_positive_abort)
HANDLER(load_invalid_value_abort)
HANDLER(float_cast_overflow_abort)
HANDLER(nonnull_arg_abort)
HANDLER(invalid_builtin_abort)
HANDLER(builtin_unreachable)
HANDLER(missing_return)
