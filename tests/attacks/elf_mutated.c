// A good program of three segments, and then random and chosen damage to its headers, executed: whatever the
// loader makes of it lies in the window, and its monitor goes on or ends the process in its own way.
#include "attack.h"
#include <elf.h>

static uint64_t state = 88172645463325252;
static uint64_t random64(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static uint64_t odd(void) {
    static const uint64_t values[] = {0,
                                      1,
                                      ~0UL,
                                      0xfff,
                                      4096,
                                      4097,
                                      ATTACK_WINDOW_END,
                                      ATTACK_WINDOW_END - 4096,
                                      ATTACK_WINDOW_END - 1,
                                      0x3fd600000000,
                                      0x43d600000000,
                                      0x41d600000000,
                                      0x3f5600000000,
                                      0x6c0000000000,
                                      0x6e0000000000,
                                      0x7ffffffff000,
                                      1UL << 47,
                                      1UL << 63,
                                      1UL << 62,
                                      1UL << 40,
                                      -0x2aaa00000000UL,
                                      -4096UL};
    return random64() % 4 ? values[random64() % (sizeof values / sizeof *values)] : random64();
}

// exit_group(0)
static const unsigned char code[] = {0x31, 0xff, 0xb8, 231, 0, 0, 0, 0x0f, 0x05};

static struct {
    Elf64_Ehdr header;
    Elf64_Phdr segment[4];
} f;

static void good(void) {
    memset(&f, 0, sizeof f);
    f.header = (Elf64_Ehdr){.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                            .e_type = ET_DYN,
                            .e_machine = EM_X86_64,
                            .e_version = EV_CURRENT,
                            .e_entry = 0x1000,
                            .e_phoff = sizeof(Elf64_Ehdr),
                            .e_ehsize = sizeof(Elf64_Ehdr),
                            .e_phentsize = sizeof(Elf64_Phdr),
                            .e_phnum = 4};
    f.segment[0] = (Elf64_Phdr){
        .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_filesz = 8192, .p_memsz = 8192, .p_align = 4096};
    f.segment[1] = (Elf64_Phdr){.p_type = PT_LOAD,
                                .p_flags = PF_R | PF_W,
                                .p_vaddr = 0x3123,
                                .p_offset = 0x123,
                                .p_filesz = 0x400,
                                .p_memsz = 0x3000,
                                .p_align = 4096};
    f.segment[2] =
        (Elf64_Phdr){.p_type = PT_LOAD, .p_flags = PF_R | PF_W, .p_vaddr = 0x10000, .p_memsz = 0x2000};
    f.segment[3] = (Elf64_Phdr){.p_type = PT_GNU_STACK, .p_flags = PF_R | PF_W};
}

static void damage(void) {
    for (unsigned k = 1 + random64() % 3; k; k--) {
        Elf64_Phdr *p = &f.segment[random64() % 3];
        switch (random64() % 9) {
        case 0:
            p->p_vaddr = odd();
            break;
        case 1:
            p->p_vaddr = odd() & ~4095UL, p->p_offset = 0, p->p_filesz = 0, p->p_memsz = 4096;
            break;
        case 2:
            p->p_memsz = odd();
            break;
        case 3:
            p->p_filesz = odd();
            break;
        case 4:
            p->p_offset = odd();
            break;
        case 5:
            p->p_align = odd();
            break;
        case 6:
            f.header.e_type = random64() % 2 ? ET_EXEC : ET_DYN;
            break;
        case 7:
            f.header.e_entry = odd();
            break;
        default:
            ((unsigned char *)&f)[random64() % sizeof f] = (unsigned char)random64();
        }
    }
}

static void run(void *path) {
    execl(path, "mutated", NULL);
    _exit(0); // refused
}

int main(void) {
    const char *path = "/tmp/elf_mutated";
    char page[8192] = {0};
    memcpy(page + 0x1000, code, sizeof code);
    attack_check_native();
    state ^= (uint64_t)time(NULL) * 0x9e3779b97f4a7c15;
    for (int first = 1; !attack_over(); first = 0) {
        good();
        if (!first)
            damage();
        memcpy(page, &f, sizeof f);
        unlink(path);
        int fd = open(path, O_CREAT | O_WRONLY | O_EXCL, 0755);
        if (fd < 0 || write(fd, page, sizeof page) != sizeof page)
            attack_broken("writing the program");
        close(fd);
        int status = attack_child(run, (void *)path);
        if (first && status)
            attack_broken("the undamaged program");
        // 127: the monitor's own words (kr_die)
        if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
            attack_won("a program that only exits with 0 ended with %d", WEXITSTATUS(status));
    }
    unlink(path);
    attack_lost();
}
