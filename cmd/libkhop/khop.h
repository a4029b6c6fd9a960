/*
 * khop.h: khop inside a process of another language. Linux, x86-64 and arm64.
 *
 * The library is cmd/khop, built by tools/libkhop.sh as a shared object (Go's buildmode c-shared). It starts Go's
 * runtime, with threads of its own, when it is loaded, and cannot be unloaded.
 *
 * Calling. Every function may be called from any thread, at any time, and returns a code: KHOP_OK, or why not. What a
 * function gives back it writes through pointers, and only where it returns KHOP_OK. Where it returns another code
 * than KHOP_OK and KHOP_AGAIN it also writes error, which may be NULL. The library keeps no pointer of its caller's
 * beyond a call, and allocates nothing that its caller must free, unless a function's comment says so.
 *
 * Handles. What lives longer than a call has a number, which is never used again: a call with that of something
 * closed is KHOP_CLOSED, not a crash. khop_close ends whatever a handle stands for.
 *
 * Forks. Go's runtime has threads, which a fork does not copy. A child that was forked from a process that has loaded
 * the library must not call it, before it has called exec.
 *
 * Signals. Block all signals but SIGURG and those of faults (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP) in the thread
 * that loads the library, and unblock them afterwards: the runtime's threads keep that mask, so that signals of the
 * process go to its own threads. The library handles faults, SIGPIPE and SIGURG, and hands those that are not Go's to
 * the handlers that were there before it.
 */
#ifndef KHOP_H
#define KHOP_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of this header. It grows whenever a function, a struct or a code changes its meaning. */
#define KHOP_ABI 1

/* Codes. */
#define KHOP_OK 0
#define KHOP_AGAIN 1    /* nothing is there yet */
#define KHOP_ARGUMENT 2 /* an argument that khop does not take, or that is out of range */
#define KHOP_CLOSED 3   /* the handle stands for nothing any more, or for something else */
#define KHOP_FAILED 4   /* it did not work: a file, memory, a batch, ... */
#define KHOP_STATE 5    /* a state of another dataset or of other options */
#define KHOP_BUG 6      /* khop panicked; nothing else is damaged */

/* What went wrong: for people, in UTF-8, with a zero at the end. The caller owns it. */
typedef struct khop_error {
    int32_t code;
    char text[4092];
} khop_error;

typedef uint64_t khop_handle;

/* KHOP_ABI of the library. Compare it before anything else is called. */
int32_t khop_abi(void);

/* The version of khop, with a zero at the end. Valid until the process ends; do not write to it. */
char *khop_version(void);

/* Ends what a handle stands for, and waits until nothing of it runs any more. */
int32_t khop_close(khop_handle handle, khop_error *error);

#ifdef __cplusplus
}
#endif

#endif
