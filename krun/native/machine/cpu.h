/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of a thread's processor, saved and loaded as a whole: general registers, FS and GS, extended
 * state. The state is in the vCPU while the thread has one, else in task->parked and task->xsave (share.h).
 * Callers see no difference.
 *
 * Not part of the state:
 *   - control registers, descriptor tables, MSRs, XCR0, CPUID. They are the same in every vCPU of the process;
 *     kr_vcpu_get sets them
 *   - debug registers. Ring 3 cannot write them (SDM vol. 3, 18.2), and the monitor does not
 */
#ifndef KR_CPU_H
#define KR_CPU_H

#include "vmm.h"

struct kr_cpu {
    struct kvm_regs regs;
    struct kvm_segment fs, gs;
    u8 xsave[4096]; /* struct kvm_xsave, of which vm->xsave_size bytes count */
};

/* Fills *c from t. Called on t's own thread, or while t stands (quiesce.h). 0; -errno of KVM_GET_XSAVE;
 * -ENOMEM: t has neither a vCPU nor an XSAVE buffer. */
int kr_cpu_save(struct kr_task *t, struct kr_cpu *c);

/* Gives t the state *c. t has a vCPU, or kr_share_prepare has prepared it. 0; -errno of KVM_SET_XSAVE;
 * -ENOMEM. */
int kr_cpu_load(struct kr_task *t, const struct kr_cpu *c);

/* The extended state alone, for signal frames: xsave[4096]. Errors as above. */
int kr_cpu_get_xsave(struct kr_task *t, u8 *xsave);
int kr_cpu_set_xsave(struct kr_task *t, const u8 *xsave);

/* After a KVM_RUN that a signal has ended: KVM may have been about to raise an exception, and would raise it at whatever RIP
 * the guest is entered with next, such as that of a signal handler. So the exception is dropped: the instruction is
 * executed again, and raises it again. Not #DB and #BP, which come behind their instruction. */
void kr_cpu_drop_fault(struct kr_task *t);

#endif
