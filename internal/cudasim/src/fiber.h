// Switching between the threads of a block. A context is where a suspended fiber goes on.
#pragma once
#include <cstddef>

typedef void* Context;

void initFibers();
void guardPage(char* p, size_t bytes);

// newContext prepares a fiber on a stack whose usable bytes are [stack, stack + bytes); its first switch calls f, which
// must not return.
Context newContext(char* stack, size_t bytes, void (*f)());

// switchContext leaves *save for `to`, and returns when somebody switches to *save.
extern "C" __attribute__((visibility("hidden"))) void switchContext(Context* save, Context to);
