// What the two files of the probe share. Nothing else includes this.

#ifndef KRUN_CONFORMANCE_PROBE_H
#define KRUN_CONFORMANCE_PROBE_H

#include <stddef.h>

// probe.c: carries out one instruction and prints its line. Returns 0, or 2 for an instruction that it does not know.
int probe_obey(const char *instruction);
// probe.c: a JSON string of bytes.
void probe_print_bytes(const char *bytes, size_t length);
// serve.c: serves HTTP on $PORT until a signal ends it. Option: "" or "stubborn" or "unready".
void probe_serve(const char *option);

#endif
