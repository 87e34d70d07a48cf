// A program without a C library: _start, raw system calls, the initial stack pointer: elf(5).
// krun: only=static cc=-nostdlib cc=-nostartfiles cc=-fno-stack-protector exit=3
static long call3(long n, long a, long b, long c) {
    long r;
    __asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return r;
}
__attribute__((used)) void start(long *sp) {
    static const char good[] = "aligned, argc 1\n", bad[] = "wrong start\n";
    if ((unsigned long)sp % 16 == 0 && sp[0] == 1 && sp[2] == 0)
        call3(1, 1, (long)good, sizeof(good) - 1);
    else
        call3(1, 1, (long)bad, sizeof(bad) - 1);
    call3(231, 3, 0, 0);
    __builtin_unreachable();
}
__asm__(".globl _start\n_start: xor %ebp,%ebp\nmov %rsp,%rdi\nand $-16,%rsp\ncall start\n");
