/*
 * The memory that Python gets while the launcher is made (krun.c).  A file of its own, linked last: it must
 * be the end of .bss, so that the executable need not hold what is left unused.
 */
#include "arena.h"

char kr_arena[KR_ARENA] __attribute__((aligned(4096)));
