// Two implementations: a few instructions on amd64, where a switch is the simulator's most frequent operation, and
// swapcontext of the C library elsewhere (which makes two system calls a switch).
#include "fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>

void guardPage(char* p, size_t bytes) { mprotect(p, bytes, PROT_NONE); }

#if defined(__x86_64__) && !defined(CUDASIM_UCONTEXT)

// Saves the registers that a callee must keep, and the stack pointer. Ends in a jump, not in ret: the processor's
// return stack would predict wrongly every time.
asm(R"(
  .text
  .hidden switchContext
  .globl switchContext
  .type switchContext,@function
switchContext:
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp,(%rdi)
  mov %rsi,%rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  pop %rdx
  jmp *%rdx
  .size switchContext,.-switchContext
)");

Context newContext(char* stack, size_t bytes, void (*f)()) {
  void** sp = (void**)(((uintptr_t)stack + bytes) & ~15ull) - 2;   // rsp % 16 == 8 at the entry of f, as after a call
  *sp = (void*)f;
  return sp - 6;
}

#else

#include <ucontext.h>

// A context is a ucontext_t; that of a fiber lies at the low end of its stack.
static ucontext_t schedulerContext;

Context newContext(char* stack, size_t bytes, void (*f)()) {
  ucontext_t* u = (ucontext_t*)stack;
  getcontext(u);
  size_t head = (sizeof *u + 63) & ~(size_t)63;
  u->uc_stack.ss_sp = stack + head;
  u->uc_stack.ss_size = bytes - head;
  u->uc_link = nullptr;
  makecontext(u, f, 0);
  return u;
}

static ucontext_t* running;                           // the fiber that runs; null: the scheduler

extern "C" __attribute__((visibility("hidden"))) void switchContext(Context* save, Context to) {
  ucontext_t* from = running ? running : &schedulerContext;
  ucontext_t* next = (ucontext_t*)to;
  *save = from;
  running = next == &schedulerContext ? nullptr : next;
  swapcontext(from, next);
}

#endif
