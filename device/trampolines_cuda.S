//go:build cuda && cgo && linux && (amd64 || arm64)

// A driver function is a jump to the address that table_cuda.c holds for it. Arguments and results stay where they are.

#if defined(__x86_64__)
#define JUMP(name) jmp *khop_##name(%rip)
#elif defined(__aarch64__)
#define JUMP(name) adrp x16, khop_##name; ldr x16, [x16, :lo12:khop_##name]; br x16
#endif

#define SYMBOL(name) .globl name; .hidden name; .type name, %function; name: JUMP(name); .size name, . - name;

    .text
    .p2align 4
#include "symbols.h"

    .section .note.GNU-stack,"",%progbits
