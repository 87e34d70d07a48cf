// Hostile ELF files: a good little program whose headers are changed in some places.
#include "fuzz.h"
#include <elf.h>

// Ends with SAW_NATIVE where its stack lies above the window, with 0 otherwise.  It looks twice, so that an
// entry point in the middle does not make it lie.
__asm__(".pushsection .rodata\n"
        "good:  mov %rsp, %rcx\n"
        "       shr $40, %rcx\n"
        "       cmp $0x6a, %rcx\n"
        "       sbb %edi, %edi\n"
        "       not %edi\n"
        "       mov %rsp, %rcx\n"
        "       shr $40, %rcx\n"
        "       cmp $0x6a, %rcx\n"
        "       sbb %esi, %esi\n"
        "       not %esi\n"
        "       and %esi, %edi\n"
        "       and $96, %edi\n"
        "1:     mov $231, %eax\n" // exit_group
        "       syscall\n"
        "       jmp 1b\n"
        "good_end:\n"
        ".popsection\n");
extern const char good[], good_end[];

#define SEGMENTS 6
struct image {
    Elf64_Ehdr header;
    Elf64_Phdr segment[SEGMENTS];
    char interpreter[64];
    char room[4096 - sizeof(Elf64_Ehdr) - SEGMENTS * sizeof(Elf64_Phdr) - 64];
    char code[4096];
};

// A place for a segment: near the ends of the window before or after the loader's base was added, or
// anywhere.
static u64 place(void) {
    static const u64 bases[] = {0, 0x2aaa00000000, 0x2b0000000000, 0x555555554000};
    u64 at = border() - bases[below(COUNT(bases))];
    return (at & ~(below(8) ? 0xfffUL : 0)) + (below(3) ? 0 : (below(64) - 32) << 12);
}

static void segment(Elf64_Phdr *p) {
    static const unsigned types[] = {PT_LOAD,      PT_LOAD, PT_LOAD, PT_INTERP,
                                     PT_GNU_STACK, PT_PHDR, PT_TLS,  PT_GNU_PROPERTY};
    *p = (Elf64_Phdr){.p_type = types[below(COUNT(types))],
                      .p_flags = (unsigned)below(8),
                      .p_offset = below(2) ? 0 : below(3) << 12,
                      .p_vaddr = below(2) ? place() : below(1 << 20) << 12,
                      .p_filesz = below(2)   ? 0
                                  : below(3) ? below(8192)
                                             : length(),
                      .p_align = below(2) ? 4096 : 1UL << below(64)};
    p->p_memsz = below(2) ? p->p_filesz + below(1 << 16) : below(2) ? length() : place() - p->p_vaddr;
    if (p->p_type == PT_INTERP)
        p->p_offset = offsetof(struct image, interpreter), p->p_filesz = below(4) ? 64 : below(70);
}

static void fill(struct image *image) {
    static const char *const interpreters[] = {"/guest_fuzz",        "/tmp/elf0", "/tmp/l0", "/proc/self/exe",
                                               "/proc/self/fd/1000", "/dev/kvm",  "/tmp",    "/tmp/fifo"};
    memset(image, 0, sizeof *image);
    u64 base = below(2) ? 0x400000 : 0;
    image->header = (Elf64_Ehdr){.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                                 .e_type = base && below(4) ? ET_EXEC : ET_DYN,
                                 .e_machine = EM_X86_64,
                                 .e_version = EV_CURRENT,
                                 .e_entry = base + 4096,
                                 .e_phoff = sizeof(Elf64_Ehdr),
                                 .e_ehsize = sizeof(Elf64_Ehdr),
                                 .e_phentsize = sizeof(Elf64_Phdr),
                                 .e_phnum = (Elf64_Half)(1 + below(SEGMENTS))};
    image->segment[0] = (Elf64_Phdr){.p_type = PT_LOAD,
                                     .p_flags = PF_R | PF_X,
                                     .p_vaddr = base,
                                     .p_filesz = 8192,
                                     .p_memsz = 8192,
                                     .p_align = 4096};
    for (int i = 1; i < SEGMENTS; i++)
        segment(&image->segment[i]);
    snprintf(image->interpreter, sizeof image->interpreter, "%s", interpreters[below(COUNT(interpreters))]);
    memcpy(image->code, good, (size_t)(good_end - good));
    for (u64 n = below(4); n > 0; n--) // anything, anywhere in the headers
        switch (below(3)) {
        case 0:
            ((unsigned char *)image)[below(sizeof(Elf64_Ehdr))] = (unsigned char)rnd();
            break;
        case 1:
            memcpy((char *)&image->segment[below(SEGMENTS)] + 8 * below(7), &(u64){place()}, 8);
            break;
        default:
            memcpy((char *)image + 8 * below(offsetof(struct image, interpreter) / 8), &(u64){value()}, 8);
        }
}

const char *hostile_program(void) {
    static __thread char path[32];
    struct image image;
    fill(&image);
    snprintf(path, sizeof path, "/tmp/elf%d", (int)below(4));
    unlink(path); // ETXTBSY otherwise
    int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0755);
    if (fd < 0)
        return "/guest_fuzz";
    write(fd, &image, sizeof image);
    close(fd);
    return path;
}

void programs(void) {
    if (RAW(SYS_fork) == 0) {
        char *argv[] = {"x", "probe", NULL};
        execv(hostile_program(), argv);
        RAW(SYS_exit_group, 0);
    }
    reap(20);
}
