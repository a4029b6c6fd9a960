// What a real driver does not have: settings, findings and counts, for tests. Documented in ../README.md.
#include <cstring>

#include "config.h"
#include "findings.h"
#include "memory.h"
#include "streams.h"

#define CONTROL extern "C" __attribute__((visibility("default")))
size_t eventCount();                                  // api_stream.cc
size_t moduleCount();                                 // api_module.cc

// Random choices start anew, and what is queued has run.
static void settle() {
  if (driverStarted()) drainAll();
  seedStreams(G.config.seed);
  G.scheduleHash = 0;
  for (auto& k : kernels()) k.second.runs = 0;
}

// Changes settings, written as in KHOP_CUDASIM. Returns null, or what is wrong with them; then nothing changes.
CONTROL const char* cudasim_config(const char* settings) {
  Call call(__func__, NOTHING);
  settle();
  const char* wrong = configure(settings);
  settle();
  return wrong;
}
// All settings, as cudasim_config takes them. Valid until the next call.
CONTROL const char* cudasim_settings() {
  Call call(__func__, NOTHING);
  static std::string s;
  return (s = settings()).c_str();
}
// Settings as they were at the start, KHOP_CUDASIM included.
CONTROL void cudasim_defaults() {
  Call call(__func__, NOTHING);
  settle();
  G.config = Config();
  readEnvironment();
  settle();
}

// The nth call of a driver function from now answers code. "kernel:<name>" lets the nth run of a kernel lose the
// device.
CONTROL void cudasim_fail(const char* name, int nth, int code) {
  Call call(__func__, NOTHING);
  failCall(name, nth, code);
}

CONTROL int cudasim_findings() {
  Call call(__func__, NOTHING);
  if (driverStarted()) drainAll();
  return findingCount();
}
CONTROL const char* cudasim_finding(int i) {          // valid until the next cudasim_reset
  Call call(__func__, NOTHING);
  return finding(i).c_str();
}
// Runs what is queued, then forgets findings, injected failures and the loss of the device.
CONTROL void cudasim_reset() {
  Call call(__func__, NOTHING);
  if (driverStarted()) synchronizeHost();
  clearFindings();
  clearFailures();
}

// Counts of a kernel since the last cudasim_reset_stats: launches, threads; then, for host and device memory, reads and
// writes: warp instructions, lanes, 32-byte sectors, 128-byte lines; bytes of host memory that no kernel had read
// before; reads of host and device memory that the warp waited for which waited for the most in a launch, added up. 21
// numbers. Returns 0, or 500 if there is no such kernel.
CONTROL int cudasim_stats(const char* kernel, uint64_t* out) {
  Call call(__func__, NOTHING);
  if (driverStarted()) drainAll();
  Kernel* k = findKernel(kernel);
  if (!k) return kNotFound;
  out[0] = k->launches;
  out[1] = k->threads;
  memcpy(out + 2, k->traffic, sizeof k->traffic);
  out[18] = k->fresh;
  memcpy(out + 19, k->longest, sizeof k->longest);
  return 0;
}
// The same for the memory around an address: reads, writes. 8 numbers.
CONTROL int cudasim_traffic(unsigned long long address, uint64_t* out) {
  Call call(__func__, NOTHING);
  if (driverStarted()) drainAll();
  Range* r = driverStarted() ? findRange(address) : nullptr;
  if (!r) return kNotFound;
  memcpy(out, r->traffic, sizeof r->traffic);
  return 0;
}
CONTROL void cudasim_reset_stats() {
  Call call(__func__, NOTHING);
  if (!driverStarted()) return;
  drainAll();
  for (auto& k : kernels()) {
    k.second.launches = k.second.threads = k.second.fresh = 0;
    memset(k.second.traffic, 0, sizeof k.second.traffic);
    memset(k.second.longest, 0, sizeof k.second.longest);
  }
  forEachRange([](Range& r) {
    memset(r.traffic, 0, sizeof r.traffic);
    r.seen.clear();
  });
}

// What is alive: device allocations, host ranges, streams, events, modules, bytes of device memory. 6 numbers.
CONTROL void cudasim_live(uint64_t* out) {
  Call call(__func__, NOTHING);
  memset(out, 0, 6 * sizeof *out);
  if (!driverStarted()) return;
  out[0] = deviceRangeCount();
  out[1] = hostRangeCount();
  out[2] = streamCount();
  out[3] = eventCount();
  out[4] = moduleCount();
  for (int d = 0; d < kMaxDevices; d++) out[5] += deviceBytesUsed(d);
}

// A number that depends on every choice of a lane so far: equal settings and calls give equal numbers.
CONTROL uint64_t cudasim_schedule() {
  Call call(__func__, NOTHING);
  if (driverStarted()) drainAll();
  return G.scheduleHash;
}

// The names of all kernels that were compiled in, separated by line ends.
CONTROL const char* cudasim_kernels() {
  Call call(__func__, NOTHING);
  static std::string names;
  names.clear();
  for (auto& k : kernels()) names += k.first + "\n";
  return names.c_str();
}
