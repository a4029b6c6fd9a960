// Memory as the host half sees it.
#pragma once
#include <sys/types.h>

#include "sim.h"

void initMemory();

Range* allocateDevice(size_t bytes);                             // of the present device; null: out of memory
Range* allocateManaged(size_t bytes);
void freeDevice(Range*);
bool overlapsHost(uintptr_t lo, uintptr_t hi);                   // with something registered
Range* addHost(uintptr_t lo, size_t bytes, Range::Origin origin, bool readOnly);
void removeHost(Range*);
// Device memory can be touched while a DeviceOpen lives, as far as checks ask for that; a host that does so else
// faults, as it would with a real device.
struct DeviceOpen {
  DeviceOpen();
  ~DeviceOpen();
};
// Where the memory of a device address lies, and another memory put in its place, whole pages: api_ipc.cc.
struct ArenaFile { int fd; off_t offset; };
ArenaFile arenaFile(uintptr_t a);
bool mapArena(uintptr_t lo, size_t bytes, ArenaFile);
Range* liveHostRange(uintptr_t a);
size_t deviceBytesUsed(int device);
size_t deviceBytesTaken(int device);                             // the pages that those are in
bool letReach(int device, int other, bool may);                  // false: it was so already
size_t deviceRangeCount();
size_t hostRangeCount();
void forEachRange(void (*f)(Range&));                            // the live ones

constexpr int kPciBus = 33, kPageableByPageTables = 100, kReadOnlyRegister = 113;
int attribute(int number);                                       // config.cc
