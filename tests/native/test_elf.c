/* SPDX-License-Identifier: Apache-2.0
 * process/elf.c: hostile program files. What the checks let through has the bounds that the loader relies on.
 * Sources: elf.c kr_alloc.c */
#include "harness.h"
#include "process/elf.h"
#include <linux/memfd.h>
#include <linux/mman.h>

/* The mappings that the loader makes, checked and counted. None may even be asked for outside of the window.
 */
static u32 maps, anons;
static void in_window(u64 addr, u64 len) {
    CHECK(addr >= KR_WINDOW_START && addr < KR_WINDOW_END && len <= KR_WINDOW_END - addr);
}
long kr_mm_mmap(struct kr_mm *mm, u64 addr, u64 len, u32 prot, u32 flags, int fd, u64 off) {
    (void)mm;
    maps++;
    CHECK(!(addr & 4095) && !(off & 4095) && len && (flags & MAP_FIXED) && fd >= 0);
    in_window(addr, len);
    (void)prot;
    return (long)addr;
}
long kr_mm_anon(struct kr_mm *mm, u64 addr, u64 len, u32 prot, u32 flags) {
    (void)mm;
    (void)prot;
    (void)flags;
    anons++;
    CHECK(!(addr & 4095) && len && !(len & 4095));
    in_window(addr, len);
    return (long)addr;
}

struct file {
    struct elf64_hdr h;
    struct elf64_phdr p[6];
};

static struct file good(void) {
    struct file f = {.h = {.e_ident = "\177ELF\2\1\1",
                           .e_type = ET_DYN,
                           .e_machine = EM_X86_64,
                           .e_version = 1,
                           .e_entry = 0x1040,
                           .e_phoff = 64,
                           .e_ehsize = 64,
                           .e_phentsize = 56,
                           .e_phnum = 5}};
    f.p[0] = (struct elf64_phdr){.p_type = PT_INTERP, .p_offset = 0x200, .p_filesz = 28, .p_memsz = 28};
    f.p[1] = (struct elf64_phdr){
        .p_type = PT_LOAD, .p_flags = PF_R, .p_filesz = 0x800, .p_memsz = 0x800, .p_align = 0x1000};
    f.p[2] = (struct elf64_phdr){.p_type = PT_LOAD,
                                 .p_flags = PF_R | PF_X,
                                 .p_offset = 0x1000,
                                 .p_vaddr = 0x1000,
                                 .p_filesz = 0x555,
                                 .p_memsz = 0x555,
                                 .p_align = 0x1000};
    f.p[3] = (struct elf64_phdr){.p_type = PT_LOAD,
                                 .p_flags = PF_R | PF_W,
                                 .p_offset = 0x1db0,
                                 .p_vaddr = 0x3db0,
                                 .p_filesz = 0x260,
                                 .p_memsz = 0x5268,
                                 .p_align = 0x200000};
    f.p[4] = (struct elf64_phdr){.p_type = PT_GNU_STACK, .p_flags = PF_R | PF_W};
    return f;
}

static int parse(const struct file *f, struct kr_elf *e, const char **why) {
    *why = NULL;
    int r = kr_elf_header((const u8 *)&f->h, 64, e, why);
    return r < 0 ? r : kr_elf_phdrs((const u8 *)f->p, e, why);
}

static void plain(void) {
    struct file f = good();
    struct kr_elf e;
    const char *why;
    CHECK_EQ(parse(&f, &e, &why), 0);
    CHECK_EQ(e.nload, 3);
    CHECK_EQ(e.min, 0);
    CHECK_EQ(e.max, 0xa000);
    CHECK_EQ(e.align, 0x200000);
    CHECK_EQ(e.interp_off, 0x200);
    CHECK_EQ(e.interp_len, 28);
    CHECK_EQ(e.phdr_vaddr, 64);
    CHECK_EQ(e.stack_exec, 0);
    f.p[4].p_flags |= PF_X;
    CHECK_EQ(parse(&f, &e, &why), 0);
    CHECK_EQ(e.stack_exec, 1);
}

/* The kernel accepts segments in any order, also over each other, and no offset where no byte is read. */
static void odd_but_good(void) {
    struct file f = good();
    struct kr_elf e;
    const char *why;
    struct elf64_phdr last = f.p[3];
    f.p[3] = f.p[1];
    f.p[1] = last;
    CHECK_EQ(parse(&f, &e, &why), 0);
    CHECK(e.min == 0 && e.max == 0xa000 && e.phdr_vaddr == 64);
    f = good();
    f.p[3].p_vaddr = f.p[3].p_offset = 0xdb0;
    CHECK_EQ(parse(&f, &e, &why), 0);
    CHECK(e.min == 0 && e.max == 0x7000);
    f = good();
    f.p[3].p_filesz = 0;
    f.p[3].p_offset = ~0ULL;
    CHECK_EQ(parse(&f, &e, &why), 0);
    u32 before = maps, zeros = anons;
    CHECK_EQ(kr_elf_map(NULL, 0, &e, 0x2aaa00000000ULL), 0);
    CHECK(maps == before + 2 && anons == zeros + 1);
}

static void refused(const char *text, void (*change)(struct file *)) {
    struct file f = good();
    struct kr_elf e;
    const char *why;
    change(&f);
    int r = parse(&f, &e, &why);
    if (r != -ENOEXEC || !why) {
        printf("%s: %d %s\n", text, r, why ? why : "(no reason)");
        CHECK(0);
    }
}

#define REFUSED(name, code)                                                                                  \
    static void name(struct file *f) { code; }
REFUSED(no_magic, f->h.e_ident[1] = 'X')
REFUSED(bits32, f->h.e_ident[4] = 1)
REFUSED(big_endian, f->h.e_ident[5] = 2)
REFUSED(arm, f->h.e_machine = 183)
REFUSED(object, f->h.e_type = 1)
REFUSED(no_phdrs, f->h.e_phnum = 0)
REFUSED(many_phdrs, f->h.e_phnum = 65)
REFUSED(phentsize, f->h.e_phentsize = 32)
REFUSED(no_load, f->p[1].p_type = f->p[2].p_type = f->p[3].p_type = PT_NOTE)
REFUSED(filesz, f->p[2].p_filesz = 0x100000)
REFUSED(beyond, f->p[3].p_vaddr = KR_WINDOW_END + 0xdb0)
REFUSED(too_long, f->p[3].p_memsz = ~0ULL)
REFUSED(wraps, (f->p[3].p_vaddr = KR_WINDOW_END - 0x1000 + 0xdb0, f->p[3].p_memsz = 0x5268))
REFUSED(misaligned, f->p[2].p_offset = 0x1001)
REFUSED(low, (f->h.e_type = ET_EXEC))
REFUSED(interp_long, f->p[0].p_filesz = 5000)
REFUSED(interp_short, f->p[0].p_filesz = 1)
REFUSED(far_offset, f->p[2].p_offset = 1ULL << 63)

static void reads(void) {
    long fd = kr_sys2(__NR_memfd_create, "elf", 0);
    struct file f = good();
    struct kr_elf e;
    const char *why = NULL;
    CHECK_EQ(kr_elf_read((int)fd, &e, &why), -ENOEXEC); /* empty */
    kr_sys3(__NR_write, fd, &f, 70);
    CHECK_EQ(kr_elf_read((int)fd, &e, &why), -ENOEXEC); /* program headers cut off */
    kr_sys3(__NR_write, fd, (u8 *)&f + 70, sizeof f - 70);
    CHECK_EQ(kr_elf_read((int)fd, &e, &why), 0);
    f.h.e_phoff = ~0ULL - 10;
    kr_sys4(__NR_pwrite64, fd, &f, 64, 0);
    CHECK(kr_elf_read((int)fd, &e, &why) < 0);
    CHECK(kr_elf_read(-1, &e, &why) == -EBADF);
    kr_sys1(__NR_close, fd);
    fd = kr_sys3(__NR_open, "/proc/self/exe", 0, 0);
    CHECK_EQ(kr_elf_read((int)fd, &e, &why), 0);
    kr_sys1(__NR_close, fd);
}

/* Where a program may be put: kr_load's bases, the lowest and the highest place, and beyond. */
static u64 any_base(void) {
    static const u64 odd[] = {
        KR_WINDOW_START, KR_WINDOW_END - KR_PAGE, KR_WINDOW_END, KR_SYS_BASE, KR_HOST_SYS, KR_HOST_LOW, 0,
        1ULL << 47,      ~(u64)(KR_PAGE - 1)};
    return kr_test_below(2) ? 0x2aaa00000000ULL + KR_PAGE * kr_test_below(1u << 28)
                            : odd[kr_test_below(KR_COUNT(odd))];
}

/* The header is good, the place is not: carried out of the window by the bias (p_filesz 0: no file call
 * would have noticed), or over its end. */
static void beyond_by_bias(void) {
    static const u64 far[] = {0x3fd600000000, 0x43d600000000, 0x41d600000000, KR_WINDOW_END - 0x10000};
    for (u32 i = 0; i < KR_COUNT(far); i++) {
        struct file f = good();
        struct kr_elf e;
        const char *why;
        f.p[3] = (struct elf64_phdr){
            .p_type = PT_LOAD, .p_flags = PF_R, .p_vaddr = far[i], .p_memsz = 0x10000, .p_align = 4096};
        CHECK_EQ(parse(&f, &e, &why), 0);
        u32 before = maps + anons;
        CHECK_EQ(kr_elf_map(NULL, 0, &e, kr_elf_bias(&e, 0x2aaa00000000ULL)), -ENOMEM);
        CHECK_EQ(maps + anons, before);
    }
}

/* Random damage: whatever is let through can be mapped within its span, or is refused as a whole. */
static void fuzz(void) {
    u32 passed = 0, mapped = 0, refused_places = 0;
    for (int i = 0; i < 200000; i++) {
        struct file f = good();
        u8 *b = (u8 *)&f;
        for (u64 k = 1 + kr_test_below(4); k; k--) {
            static const u64 odd[] = {
                0,     1,      ~0ULL, 1ULL << 63, 1ULL << 47, KR_WINDOW_END, KR_WINDOW_END - 1,
                0xfff, 0x1000, 64,    1ULL << 62};
            u64 at = kr_test_below(2) ? 64 + 8 * kr_test_below(35) : kr_test_below(sizeof f - 8);
            u64 v = kr_test_below(2) ? odd[kr_test_below(KR_COUNT(odd))] : kr_test_random();
            memcpy(b + at, &v, 1ULL << kr_test_below(4));
        }
        struct kr_elf e;
        const char *why;
        if (f.h.e_phnum > 6) /* the caller has read phnum headers */
            continue;
        if (parse(&f, &e, &why) < 0) {
            CHECK(why != NULL);
            continue;
        }
        passed++;
        CHECK(e.nload >= 1 && e.nload <= 6);
        CHECK(e.min < e.max && e.max <= KR_WINDOW_END);
        CHECK(!(e.min & 4095) && !(e.max & 4095) && !(e.align & (e.align - 1)) && e.align >= 4096);
        CHECK(e.interp_len <= 4096);
        for (u32 k = 0; k < e.nload; k++) {
            CHECK(e.load[k].p_vaddr >= e.min && e.load[k].p_vaddr + e.load[k].p_memsz <= e.max);
            CHECK(e.load[k].p_filesz <= e.load[k].p_memsz);
        }
        /* No page to clear by hand: there is nothing mapped in this test. */
        for (u32 k = 0; k < e.nload; k++)
            e.load[k].p_flags &= ~(u32)PF_W;
        u64 bias = kr_elf_bias(&e, any_base());
        u32 before = maps + anons;
        if (kr_elf_map(NULL, 0, &e, bias) == 0) {
            mapped++;
            CHECK(e.min + bias >= KR_WINDOW_START && e.max + bias <= KR_WINDOW_END);
        } else {
            refused_places++;
            CHECK_EQ(maps + anons, before);
        }
        if (kr_test_failures > 5)
            return;
    }
    CHECK(passed > 1000 && maps > 1000 && anons > 100 && mapped > 1000 && refused_places > 1000);
}

void test_main(void) {
    plain();
    odd_but_good();
    refused("magic", no_magic);
    refused("32 bits", bits32);
    refused("big endian", big_endian);
    refused("arm", arm);
    refused("object", object);
    refused("no headers", no_phdrs);
    refused("many headers", many_phdrs);
    refused("header size", phentsize);
    refused("no segments", no_load);
    refused("file size", filesz);
    refused("beyond the window", beyond);
    refused("too long", too_long);
    refused("over the end", wraps);
    refused("misaligned", misaligned);
    refused("too low", low);
    refused("long interpreter", interp_long);
    refused("short interpreter", interp_short);
    refused("far offset", far_offset);
    reads();
    beyond_by_bias();
    fuzz();
}
