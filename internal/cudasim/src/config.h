// Settings, injected failures, and the frame of every driver call.
#pragma once
#include "sim.h"

typedef int CUresult;
#define API extern "C" __attribute__((visibility("default"))) CUresult

void readEnvironment();                               // KHOP_CUDASIM, once
const char* configure(const char* settings);          // null, or what is wrong with them
std::string settings();                               // all of them, as configure takes them
int attribute(int number);
bool mayPeer(int device, int other);                             // whether one may be let at the memory of the other
void failCall(const std::string& name, int nth, int code);
void clearFailures();
int takeFailure(const std::string& name);             // counts a call; the code it must answer, or 0
bool injectedLaunchFailure(const std::string& kernel);

// What a driver call needs before it may start. FREEING calls do their work even on a lost device, and then say that it
// is lost, so that a process which cleans up leaves nothing behind.
enum Needs { NOTHING, INITIALIZED, CONTEXT, FREEING };

// Call is made first in every driver call: takes the lock, counts the call, answers injected failures and a lost
// device.
struct Call {
  Call(const char* name, Needs needs);
  ~Call();
  int error = 0;
};
#define ENTER(needs)              \
  Call call(__func__, needs);     \
  if (call.error) return call.error

void* currentContext();                               // of the calling thread; api_context.cc
bool contextIsLive(void*);
int deviceOfContext(void*);
void* primaryContext(int device);
bool driverStarted();
