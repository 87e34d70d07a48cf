#pragma once
/* Of address space; the executable holds what is used. */
#define KR_ARENA (32u << 20)
extern char kr_arena[KR_ARENA];
