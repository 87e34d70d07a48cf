// dl_iterate_phdr(3) finds this program and its non-executable stack.
// krun: static static-pie no-pie
#include "guest.h"
#include <link.h>
static int each(struct dl_phdr_info *info, size_t size, void *data) {
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        uintptr_t at = info->dlpi_addr + h->p_vaddr;
        if (h->p_type == PT_LOAD && (uintptr_t)&each >= at && (uintptr_t)&each < at + h->p_memsz)
            say("own text: flags %u", h->p_flags);
        if (h->p_type == PT_GNU_STACK && h->p_flags & PF_X)
            say("executable stack");
    }
    ++*(int *)data;
    return 0;
}
int main(int argc, char **argv) {
    int objects = 0;
    dl_iterate_phdr(each, &objects);
    EXPECT(objects >= 1);
    return wrong;
}
