// Memory that kernels may address: where it lies, who owns an address, and what is wrong with a bad one.
#include "memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <utility>

#include "findings.h"

static constexpr size_t kGranule = 256;               // alignment of device memory, as with the real driver
static constexpr size_t kFreedKept = 1 << 16;         // freed ranges that are remembered, to explain a use after free

// By start: live ones, and freed ones whose addresses are not in use again.
static std::map<uintptr_t, Range*> deviceRanges;
static std::deque<uintptr_t> freed;                   // their starts, oldest first
static std::map<uintptr_t, size_t> freeAddresses;     // device: start -> bytes, never adjacent
static uintptr_t rover;                               // next address to give out
static size_t used[kMaxDevices];                      // bytes that were given out
static size_t small[kMaxDevices], large[kMaxDevices]; // what they take: see pagesOf
static bool peers[kMaxDevices][kMaxDevices];           // [a][b]: a may reach b's memory

static std::map<uintptr_t, Range*> hostRanges;        // live, by start
static std::deque<std::pair<uintptr_t, uintptr_t>> unregistered;      // the last ones, to explain a bad address
// Any host memory, where the device is told to read pageable memory.
static Range everything;

// Live ranges, by place in the code: a load mostly stays in one range.
Range* rangeCache[kRangeCache];

std::string sharedComplaint();

// --- Start -----------------------------------------------------------------------------------------------------------

static void* tryReserve(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}

void* reserve(size_t bytes) {
  void* p = tryReserve(bytes);
  if (p) return p;
  fprintf(stderr, "cudasim: cannot reserve %zu bytes of addresses; is RLIMIT_AS set?\n", bytes);
  abort();
}

// Device memory is a file without a name, so that other processes can open it (api_ipc.cc).
static int arenaFd = -1;

static bool openArena(size_t bytes) {
  if (arenaFd < 0) arenaFd = memfd_create("cudasim", MFD_CLOEXEC);
  if (arenaFd < 0 || ftruncate(arenaFd, bytes)) return false;
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, arenaFd, 0);
  G.arena = p == MAP_FAILED ? 0 : (uintptr_t)p;
  return G.arena;
}

static size_t shadowBytes(size_t bytes) { return (bytes / 4 + 8) * sizeof(Record); }

Shadow newShadow(size_t bytes) {
  size_t part = shadowBytes(bytes);
  char* p = (char*)reserve(3 * part);
  return {(Record*)p, (Record*)(p + part), (Record*)(p + 2 * part)};
}

void freeShadow(Shadow s, size_t bytes) {
  if (s.w) munmap(s.w, 3 * shadowBytes(bytes));
}

// Device addresses are taken in turn from a wide arena, so that a freed one is not used again for a long time.
void initMemory() {
  for (G.arenaBytes = 128ull << 30; !openArena(G.arenaBytes); G.arenaBytes /= 2)
    if (G.arenaBytes < 1 << 28) abort();
  G.arenaShadow = newShadow(G.arenaBytes);
  freeAddresses[G.arena + kGranule] = G.arenaBytes - 2 * kGranule;
  rover = G.arena;
  everything.lo = 0;
  everything.hi = ~(uintptr_t)0;
  everything.origin = Range::REGISTERED;
  everything.live = true;
}

static bool arenaOpen = true;

static void protectArena(bool open) {
  if (arenaOpen == open) return;
  mprotect((void*)G.arena, G.arenaBytes, open ? PROT_READ | PROT_WRITE : PROT_NONE);
  arenaOpen = open;
}

ArenaFile arenaFile(uintptr_t a) { return {arenaFd, (off_t)(a - G.arena)}; }

bool mapArena(uintptr_t lo, size_t bytes, ArenaFile f) {
  int rights = arenaOpen ? PROT_READ | PROT_WRITE : PROT_NONE;
  return mmap((void*)lo, bytes, rights, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, f.fd, f.offset) != MAP_FAILED;
}

static int opened;                                    // openings may nest
DeviceOpen::DeviceOpen() {
  opened++;
  protectArena(true);
}
DeviceOpen::~DeviceOpen() {
  if (--opened == 0 && (G.config.checks & CHECK_HOST)) protectArena(false);
}

// --- Look-up ---------------------------------------------------------------------------------------------------------

static bool onDevice(uintptr_t a) { return a - G.arena < G.arenaBytes; }

static Range* lastAtOrBefore(const std::map<uintptr_t, Range*>& m, uintptr_t a) {
  auto it = m.upper_bound(a);
  return it == m.begin() ? nullptr : std::prev(it)->second;
}

Range* liveHostRange(uintptr_t a) {
  Range* r = lastAtOrBefore(hostRanges, a);
  return r && a < r->hi ? r : nullptr;
}

Range* findRange(uintptr_t a) {
  if (!onDevice(a)) return liveHostRange(a);
  Range* r = lastAtOrBefore(deviceRanges, a);
  return r && r->live && a < r->hi ? r : nullptr;
}

Range* findForKernel(uintptr_t a, int pc) {
  Range* r = findRange(a);
  if (r) return mayReach(G.device, *r) ? rangeCache[pc % kRangeCache] = r : nullptr;
  return !onDevice(a) && attribute(kPageableByPageTables) ? &everything : nullptr;
}

void forgetCaches() { memset(rangeCache, 0, sizeof rangeCache); }

bool mayReach(int device, const Range& r) {
  return r.origin != Range::ALLOCATION || r.device == device || peers[device][r.device];
}

bool letReach(int device, int other, bool may) {
  forgetCaches();
  return std::exchange(peers[device][other], may) != may;
}

static std::string format(const char* text, long byte, size_t bytes) {
  char b[200];
  snprintf(b, sizeof b, text, byte, bytes);
  return b;
}

static std::string complaintOnDevice(uintptr_t a) {
  const Range* r = lastAtOrBefore(deviceRanges, a);
  if (!r) return "a device address that was never allocated, or freed long ago";
  if (r->live && a < r->hi && !mayReach(G.device, *r))
    return format("NO PEER ACCESS: memory of device %ld, which is not this one; allocation of %zu bytes", r->device,
                  r->bytes());
  return format(r->live ? "OUT OF BOUNDS: byte %ld of an allocation of %zu bytes"
                        : "USE AFTER FREE: byte %ld of a freed allocation of %zu bytes",
                a - r->lo, r->bytes());
}

static std::string complaintOnHost(uintptr_t a) {
  for (auto& [lo, r] : hostRanges)
    if (a + 64 >= lo && a < r->hi + 4096)
      return format("OUT OF BOUNDS of registered host memory: byte %ld of %zu", a - lo, r->bytes());
  for (auto& [lo, hi] : unregistered)
    if (a >= lo && a < hi) return format("USE AFTER UNREGISTER of host memory: byte %ld of %zu", a - lo, hi - lo);
  return "neither device memory nor registered host memory (is a host pointer not registered?)";
}

void badAddress(uintptr_t a, unsigned size, const char* what, int pc) {
  std::string why = onDevice(a) ? complaintOnDevice(a) : isShared(a) ? sharedComplaint() : complaintOnHost(a);
  FAULT(kIllegalAddress, "ILLEGAL ADDRESS: %s of %u bytes at 0x%lx (%s) by %s: %s", what, size, (unsigned long)a,
        place(pc).c_str(), whoAmI().c_str(), why.c_str());
}

// --- Ranges ----------------------------------------------------------------------------------------------------------

static Range* newRange(uintptr_t lo, size_t bytes, Range::Origin origin) {
  Range* r = new Range;
  r->lo = lo;
  r->hi = lo + bytes;
  r->origin = origin;
  r->live = true;
  return r;
}

// Next fit: the first free addresses behind the last ones given out.
static uintptr_t takeAddresses(size_t span) {
  auto it = freeAddresses.upper_bound(rover);
  if (it != freeAddresses.begin()) --it;
  uintptr_t from = rover;
  for (size_t k = 0; k <= freeAddresses.size(); k++, ++it) {
    if (it == freeAddresses.end()) {
      it = freeAddresses.begin();
      from = 0;
    }
    uintptr_t start = it->first, end = start + it->second, lo = std::max(start, from);
    if (lo >= end || end - lo < span) continue;
    freeAddresses.erase(it);
    if (lo > start) freeAddresses[start] = lo - start;
    if (end > lo + span) freeAddresses[lo + span] = end - lo - span;
    rover = lo + span;
    return lo;
  }
  return 0;
}

static size_t rounded(size_t bytes) { return (bytes + kGranule - 1) / kGranule * kGranule; }

// Drops what is remembered of freed ranges in [lo, hi): the addresses have a new owner.
static void forgetFreed(uintptr_t lo, uintptr_t hi) {
  auto it = deviceRanges.upper_bound(lo);
  if (it != deviceRanges.begin()) --it;
  while (it != deviceRanges.end() && it->first < hi) {
    if (it->second->live || it->second->hi <= lo) {
      ++it;
      continue;
    }
    delete it->second;
    it = deviceRanges.erase(it);
  }
}

static void rememberFreed(uintptr_t lo) {
  freed.push_back(lo);
  if (freed.size() <= kFreedKept) return;
  auto it = deviceRanges.find(freed.front());
  freed.pop_front();
  if (it == deviceRanges.end() || it->second->live) return;
  delete it->second;
  deviceRanges.erase(it);
}

// A device gives memory away in pages of 2 MiB: small allocations share some, others have theirs alone.
constexpr size_t kDevicePage = 2 << 20, kSmall = 1 << 20;
static size_t inPages(size_t bytes) { return (bytes + kDevicePage - 1) / kDevicePage * kDevicePage; }
static size_t taken(int device) { return inPages(small[device]) + large[device]; }

static void charge(int device, size_t bytes, int sign) {
  used[device] += sign * rounded(bytes);
  if (bytes < kSmall) small[device] += sign * rounded(bytes);
  else large[device] += sign * inPages(bytes);
}

Range* allocateDevice(size_t bytes) {
  if (bytes > G.config.memory) return nullptr;
  charge(G.device, bytes, 1);
  if (used[G.device] > G.config.memory || taken(G.device) > inPages(G.config.memory))
    return charge(G.device, bytes, -1), nullptr;
  size_t whole = rounded(bytes);
  uintptr_t lo = takeAddresses(whole + kGranule);     // a granule of no man's land behind each
  if (!lo) return charge(G.device, bytes, -1), nullptr;
  forgetFreed(lo, lo + whole);
  Range* r = newRange(lo, bytes, Range::ALLOCATION);
  r->device = G.device;
  deviceRanges[lo] = r;
  r->shadow = G.arenaShadow.at((lo - G.arena) >> 2);
  // Fresh memory holds garbage; of large allocations, only the start, to save the pages.
  DeviceOpen open;
  memset((void*)lo, 0xCB, bytes <= 4 << 20 ? bytes : 1 << 20);
  return r;
}

// Managed memory is the host's as well, so it lies apart from the arena.
Range* allocateManaged(size_t bytes) {
  void* p = tryReserve(bytes);
  return p ? addHost((uintptr_t)p, bytes, Range::MANAGED, false) : nullptr;
}

// Gives pages back to the system that hold nothing but free addresses now.
static void releasePages(uintptr_t base, uintptr_t lo, uintptr_t hi, uintptr_t freeLo, uintptr_t freeHi, size_t scale) {
  const uintptr_t page = 4096;
  auto scaled = [&](uintptr_t a) { return base + (a - G.arena) * scale; };
  uintptr_t from = std::max(scaled(lo) & ~(page - 1), (scaled(freeLo) + page - 1) & ~(page - 1));
  uintptr_t to = std::min((scaled(hi) + page - 1) & ~(page - 1), scaled(freeHi) & ~(page - 1));
  if (to <= from) return;
  if (base == G.arena)
    fallocate(arenaFd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from - base, to - from);
  else
    madvise((void*)from, to - from, MADV_DONTNEED);
}

void freeDevice(Range* r) {
  r->live = false;
  forgetCaches();
  r->transfers = {};
  r->touched = {};
  size_t whole = rounded(r->bytes());
  charge(r->device, r->bytes(), -1);
  uintptr_t lo = r->lo, hi = lo + whole + kGranule, freeLo = lo, freeHi = hi;
  auto after = freeAddresses.lower_bound(lo);
  if (after != freeAddresses.end() && after->first == hi) {
    freeHi += after->second;
    after = freeAddresses.erase(after);
  }
  if (after != freeAddresses.begin()) {
    auto before = std::prev(after);
    if (before->first + before->second == lo) {
      freeLo = before->first;
      freeAddresses.erase(before);
    }
  }
  freeAddresses[freeLo] = freeHi - freeLo;
  // The shadow must be empty when the addresses are used again: its whole pages are given back, the edges are cleared.
  size_t cells = whole / 4, edge = std::min<size_t>(cells, 4096 / sizeof(Record));
  for (Record* cell : {r->written ? r->shadow.w : nullptr, r->recorded ? r->shadow.r : nullptr,
                       r->shared ? r->shadow.other : nullptr}) {
    if (!cell) continue;
    memset((void*)cell, 0, edge * sizeof(Record));
    memset((void*)(cell + cells - edge), 0, edge * sizeof(Record));
  }
  releasePages(G.arena, lo, hi, freeLo, freeHi, 1);
  for (Record* shadow : {G.arenaShadow.w, G.arenaShadow.r, G.arenaShadow.other})
    releasePages((uintptr_t)shadow, lo, hi, freeLo, freeHi, 4);
  rememberFreed(lo);
}

bool overlapsHost(uintptr_t lo, uintptr_t hi) {
  auto it = hostRanges.lower_bound(hi);
  return it != hostRanges.begin() && (--it)->second->hi > lo;
}

Range* addHost(uintptr_t lo, size_t bytes, Range::Origin origin, bool readOnly) {
  Range* r = newRange(lo, bytes, origin);
  r->readOnly = readOnly;
  if (!readOnly) r->shadow = newShadow(bytes);        // what nobody may write cannot race
  hostRanges[lo] = r;
  auto again = [&](auto& u) { return u.first < lo + bytes && lo < u.second; };
  unregistered.erase(std::remove_if(unregistered.begin(), unregistered.end(), again), unregistered.end());
  return r;
}

void removeHost(Range* r) {
  hostRanges.erase(r->lo);
  if (unregistered.size() >= 1024) unregistered.pop_front();
  unregistered.push_back({r->lo, r->hi});
  freeShadow(r->shadow, r->bytes());
  delete r;
  forgetCaches();
}

size_t deviceBytesUsed(int device) { return used[device]; }
size_t deviceBytesTaken(int device) { return taken(device); }
size_t hostRangeCount() { return hostRanges.size(); }
size_t deviceRangeCount() {
  return std::count_if(deviceRanges.begin(), deviceRanges.end(), [](auto& r) { return r.second->live; });
}

void forEachRange(void (*f)(Range&)) {
  for (auto& r : hostRanges) f(*r.second);
  for (auto& r : deviceRanges)
    if (r.second->live) f(*r.second);
}
