/* SPDX-License-Identifier: Apache-2.0
 * machine/slots.c against a model of KVM's slots: what is covered has a slot at its address, no slot reaches beyond its
 * chunk, slots stay few, a new VM covers the same, and an heir forgets only a slot that was not counted. Sources: kr_alloc.c
 */
#include "harness.h"
#include "machine/vmm.h"

/* ---- KVM ---- */

#define KR_REQUEST_H
#define NUMBERS 4096u

static struct kvm_userspace_memory_region kvm[NUMBERS];
static u32 numbers = NUMBERS, requests;
static int dies; /* the process dies behind its next request */
static void *out[5];

static long ioctl_(int fd, u64 req, const void *arg) {
    const struct kvm_userspace_memory_region *r = arg;
    CHECK(fd == 7 && req == KVM_SET_USER_MEMORY_REGION);
    requests++;
    if (r->slot >= numbers)
        return -EINVAL;
    struct kvm_userspace_memory_region *s = &kvm[r->slot];
    CHECK(!r->memory_size || !s->memory_size || !memcmp(s, r, sizeof *r)); /* a slot cannot change */
    for (u32 i = 0; r->memory_size && i < numbers; i++)
        CHECK(i == r->slot || r->guest_phys_addr >= kvm[i].guest_phys_addr + kvm[i].memory_size ||
              kvm[i].guest_phys_addr >= r->guest_phys_addr + r->memory_size);
    *s = *r;
    if (dies) {
        dies = 0;
        __builtin_longjmp(out, 1);
    }
    return 0;
}

#include "machine/slots.c"

static u32 slots(void) {
    u32 n = 0;
    for (u32 i = 0; i < numbers; i++)
        n += kvm[i].memory_size != 0;
    return n;
}

/* The host's address that the slots give for a guest-physical one; 0: none. */
static u64 host_of(u64 gpa) {
    for (u32 i = 0; i < numbers; i++)
        if (gpa - kvm[i].guest_phys_addr < kvm[i].memory_size)
            return kvm[i].userspace_addr + (gpa - kvm[i].guest_phys_addr);
    return 0;
}

/* ---- The VM ---- */

static struct kr_vm vm;
static u8 area[KR_PAGE];

static void fresh(void) {
    free(vm.chunk);
    free(vm.chunk_list);
    memset(kvm, 0, sizeof kvm);
    vm = (struct kr_vm){.fd = 7, .sys = area, .pt = area + KR_SYS_SIZE, .pt_slots = 1};
    vm.chunk = calloc(KR_CHUNKS, sizeof(u32));
    vm.chunk_list = calloc(KR_SLOTS_MAX, sizeof(struct kr_chunk));
    CHECK_EQ(kr_slots_create(&vm), 0);
}

/* Whether the list says that addr is covered; then KVM must say it, too. */
static int covered(u64 addr) {
    const struct kr_chunk *k = kr_chunk_find(&vm, addr >> KR_CHUNK_SHIFT);
    u64 off = addr & (KR_CHUNK_SIZE - 1);
    if (!k || !(k->parts >> (off / KR_PART_SIZE) & 1))
        return 0;
    CHECK_EQ(host_of(KR_CHUNK_GPA + (u64)(k - vm.chunk_list) * KR_CHUNK_SIZE + off), addr);
    return 1;
}

#define MB(n) ((u64)(n) << 20)
#define PLACE 0x100000000000ULL /* the beginning of a chunk */

static void by_need(void) {
    fresh();
    CHECK_EQ(slots(), 1);
    CHECK_EQ(kr_vm_cover(&vm, PLACE + MB(5), PLACE + MB(6)), 0);
    CHECK(covered(PLACE + MB(4)) && covered(PLACE + MB(8) - 1));
    CHECK(!covered(PLACE + MB(4) - 1) && !covered(PLACE + MB(8)));
    u32 was = requests;
    CHECK_EQ(kr_vm_cover(&vm, PLACE + MB(4), PLACE + MB(8)), 0);
    CHECK_EQ(requests, was);                                       /* nothing was missing */
    CHECK_EQ(kr_vm_cover(&vm, PLACE + MB(60), PLACE + MB(68)), 0); /* two chunks */
    CHECK(covered(PLACE + MB(60)) && covered(PLACE + MB(68) - 1) && !covered(PLACE + MB(68)));
    CHECK_EQ(vm.next_chunk, 2);
    CHECK_EQ(kr_vm_cover(&vm, PLACE + MB(33), PLACE + MB(34)), 0); /* a quarter */
    CHECK(covered(PLACE + MB(32)) && covered(PLACE + MB(48) - 1) && !covered(PLACE + MB(48)));
    CHECK_EQ(kr_vm_cover(&vm, PLACE + MB(1), PLACE + MB(2)), 0); /* all */
    for (u64 m = 0; m < 64; m += 4)
        CHECK(covered(PLACE + MB(m)));
    CHECK_EQ(slots(), 1 + 1 + 6); /* the gaps: 0-4, 8-32, 48-60 */
    CHECK_EQ(kr_vm_cover(&vm, 5, 5), 0);
    CHECK_EQ(kr_vm_cover(&vm, KR_WINDOW_END - 1, KR_WINDOW_END + 1), -EFAULT);
    CHECK_EQ(kr_vm_cover(&vm, KR_WINDOW_END - 1, KR_WINDOW_END), 0);
}

/* A process that uses much memory: whole chunks, so that KVM's numbers suffice for it. */
static void many(void) {
    fresh();
    for (u64 m = 0; m < 200 * 64; m += 2)
        CHECK_EQ(kr_vm_cover(&vm, PLACE + MB(m), PLACE + MB(m + 2)), 0);
    CHECK_EQ(vm.next_chunk, 200);
    CHECK(slots() <= 1 + 200 + KR_SMALL_CHUNKS * 5);
    for (u64 m = 0; m < 200 * 64; m += 64)
        CHECK(covered(PLACE + MB(m)));
    numbers = vm.nslots;
    CHECK_EQ(kr_vm_cover(&vm, PLACE * 2, PLACE * 2 + MB(1)), -ENOMEM);
    CHECK(!covered(PLACE * 2));
    numbers = NUMBERS;
    /* A dead process has written the name of a chunk and not counted it: the heir deletes its slot. */
    vm.chunk[(PLACE * 2) >> KR_CHUNK_SHIFT] = vm.next_chunk + 1;
    vm.chunk_list[vm.next_chunk] = (struct kr_chunk){(u32)(PLACE * 2 >> KR_CHUNK_SHIFT), ALL_PARTS};
    kr_slots_heir(&vm);
    CHECK(!covered(PLACE * 2));
    CHECK_EQ(kr_vm_cover(&vm, PLACE * 2, PLACE * 2 + MB(1)), 0);
    CHECK(covered(PLACE * 2));
}

static u64 place(u32 n) { return PLACE + n % 12 * MB(64) + kr_test_random() % MB(64); }

static void at_random(void) {
    for (u32 round = 0; round < 300 && !kr_test_failures; round++) {
        static u64 asked[64];
        u32 n = 0;
        fresh();
        for (u32 steps = kr_test_random() % 24; n < steps; n++) {
            u64 a = place((u32)kr_test_random()), len = 1 + kr_test_random() % MB(n % 5 ? 3 : 40);
            dies = kr_test_random() % 4 == 0;
            if (!__builtin_setjmp(out)) {
                CHECK_EQ(kr_vm_cover(&vm, a, a + len), 0);
            } else { /* between KVM's answer and the record */
                kr_slots_heir(&vm);
                CHECK_EQ(kr_vm_cover(&vm, a, a + len), 0);
            }
            dies = 0;
            asked[n] = a;
            CHECK_EQ(slots(), vm.nslots - SLOT_FIRST + 1);
        }
        u32 before = slots();
        memset(kvm, 0, sizeof kvm); /* fork: a new VM with the same list */
        CHECK_EQ(kr_slots_create(&vm), 0);
        CHECK(slots() <= before);
        CHECK_EQ(slots(), vm.nslots - SLOT_FIRST + 1);
        for (u32 i = 0; i < n; i++)
            CHECK(covered(asked[i]));
        kr_slots_heir(&vm);
        CHECK_EQ(slots(), vm.nslots - SLOT_FIRST + 1);
    }
}

/* The areas of vCPUs lie in the two parts of the system area, one behind the other, and outside of the pool. */
static void areas(void) {
    u64 end = 0;
    for (u64 i = 0; i < KR_MAX_VCPUS; i++) {
        u64 at = KR_VCPU_AREA(i);
        CHECK(at >= end && at % KR_VCPU_SIZE == 0);
        end = at + KR_VCPU_SIZE;
        CHECK(end <= KR_SYS_SIZE || (at >= KR_SYS_MORE && end <= KR_SYS_MORE + KR_SYS_MORE_SIZE));
    }
    fresh();
    while (kr_pt_slot(&vm) == 0)
        ;
    CHECK_EQ(vm.pt_slots, KR_PT_SLOTS_MAX);
    CHECK_EQ(host_of(KR_PT_GPA), (u64)vm.pt);
    CHECK_EQ(host_of(KR_SYS_MORE - 1), (u64)area + KR_SYS_MORE - 1);
    CHECK_EQ(host_of(KR_SYS_MORE), 0);
    CHECK_EQ(kr_slots_more(&vm), 0);
    CHECK_EQ(kr_slots_more(&vm), 0);
    CHECK_EQ(host_of(KR_VCPU_AREA(KR_VCPUS_LOW)), (u64)area + KR_SYS_MORE);
    kr_vm_flush(&vm);
    CHECK_EQ(slots(), 2 + KR_PT_SLOTS_MAX - 1);
}

void test_main(void) {
    by_need();
    many();
    at_random();
    areas();
    free(vm.chunk);
    free(vm.chunk_list);
}
