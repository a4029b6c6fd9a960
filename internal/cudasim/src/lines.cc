// Counts the 32-byte sectors and 128-byte lines of each warp instruction that reads or writes global memory.
//
// Which accesses of 32 lanes are one instruction? "The n-th execution of one place in the code" is wrong as soon as a
// lane is masked out of the first round of a loop, as in every aligned gather: it lags by one from then on. So the
// trace of basic blocks (-fsanitize-coverage=trace-pc) is kept too, and at the end of a warp its 32 traces are replayed
// together, always advancing the lanes with the lowest address: they meet again behind an if and behind a loop, as on
// the device.
#include <algorithm>
#include <cstring>

#include "sim.h"

struct Event { uint32_t pc, size; uintptr_t a; };      // size 0: a basic block; bit 31: a write
static std::vector<Event> trace[kMaxThreads];

HIDDEN void __sanitizer_cov_trace_pc() {
  if (G.current && (G.config.checks & COUNT_LINES))
    trace[G.current->thread].push_back({(uint32_t)((uintptr_t)__builtin_return_address(0) - G.imageLo), 0, 0});
}

void logAccess(const Fiber* f, const void* pc, uintptr_t a, unsigned bytes, bool write) {
  trace[f->thread].push_back({(uint32_t)((uintptr_t)pc - G.imageLo), bytes | (write ? 1u << 31 : 0), a});
}

static void add(Traffic& t, int lanes, int sectors, int lines) {
  t.instructions++;
  t.lanes += lanes;
  t.sectors += sectors;
  t.lines += lines;
}

// Notes which bytes of the host's memory a lane reads.
static void see(Range* r, uintptr_t at, unsigned bytes) {
  if (r->seen.empty()) r->seen.resize(((r->bytes() + 15) >> 8) + 1);  // an access may begin at the last byte
  for (size_t w = (at - r->lo) >> 2; w <= (at - r->lo + bytes - 1) >> 2; w++) {
    uint64_t bit = 1ull << (w & 63), &cell = r->seen[w >> 6];
    if (!(cell & bit)) G.launch->kernel->fresh += 4;
    cell |= bit;
  }
}

// Reads of each warp so far that wait for memory, by space: those of which a line is not in the warp's share of a
// cache, where a line has one place.
constexpr int kLinesOfWarp = 64;
static uint64_t reads[kWarps][2];
static uintptr_t cached[kWarps][kLinesOfWarp];

static bool misses(int warp, uint64_t line) {
  uintptr_t& place = cached[warp][(line ^ line >> 6) % kLinesOfWarp];
  bool miss = place != line;
  place = line;
  return miss;
}

static Range* rangeAt(uintptr_t a, uint32_t offset) {
  int pc = pcIndex((const void*)(G.imageLo + offset));
  Range* r = rangeCache[pc % kRangeCache];
  return r && a >= r->lo && a < r->hi ? r : findForKernel(a, pc);
}

static void countInstruction(int warp, uint32_t pc, const uintptr_t* at, int lanes, uint32_t size) {
  uint64_t sector[64];                                 // 32 lanes x 16 bytes touch 64 sectors at most
  int sectors = 0, lines = 0;
  unsigned bytes = size & 0xff;
  for (int i = 0; i < lanes; i++)
    for (uint64_t s = at[i] >> 5; s <= (at[i] + bytes - 1) >> 5; s++) {
      bool known = sectors && sector[sectors - 1] == s, line = false;
      for (int k = sectors - 1; k >= 0 && !known; k--) {
        known = sector[k] == s;
        line |= sector[k] >> 2 == s >> 2;
      }
      if (known) continue;
      lines += !line;
      if (sectors < 64) sector[sectors++] = s;
    }
  Range* r = rangeAt(at[0], pc);
  if (!r) return;
  bool write = size >> 31;
  add(r->traffic[write], lanes, sectors, lines);
  add(G.launch->kernel->traffic[r->space()][write], lanes, sectors, lines);
  if (write) return;
  bool miss = false;
  for (int i = 0; i < sectors; i++) miss |= misses(warp, sector[i] >> 2);
  reads[warp][r->space()] += miss;
  for (int i = 0; i < lanes; i++) {
    if (at[i] < r->lo || at[i] >= r->hi) r = rangeAt(at[i], pc);  // lanes may read arrays of their own
    if (!r) return;
    if (r->space() == HOST) see(r, at[i], bytes);
  }
}

// At a barrier or a collective of the whole warp lanes meet, wherever the code of loops that some went through lies:
// what they did before is counted then.
void countTraffic(int warp) {
  const Event *p[32], *end[32];
  uint32_t next[32];
  for (int i = 0; i < 32; i++) {
    auto& t = trace[warp * 32 + i];
    p[i] = t.data();
    end[i] = p[i] + t.size();
    next[i] = p[i] == end[i] ? ~0u : p[i]->pc;
  }
  for (;;) {
    uint32_t lowest = *std::min_element(next, next + 32);
    if (lowest == ~0u) break;
    uintptr_t at[32];
    int lanes = 0;
    uint32_t size = 0;
    for (int i = 0; i < 32; i++) {
      if (next[i] != lowest) continue;
      if (p[i]->size) {
        at[lanes++] = p[i]->a;
        size = p[i]->size;
      }
      next[i] = ++p[i] == end[i] ? ~0u : p[i]->pc;
    }
    if (lanes) countInstruction(warp, lowest, at, lanes, size);
  }
  for (int i = 0; i < 32; i++) {
    auto& t = trace[warp * 32 + i];
    if (t.capacity() > 1 << 16) std::vector<Event>().swap(t);
    t.clear();
  }
}

// When a warp has ended.
void endTraffic(int warp) {
  countTraffic(warp);
  for (int space : {HOST, DEVICE}) {
    uint64_t& longest = G.launch->longest[space];
    G.launch->kernel->longest[space] += std::max(reads[warp][space], longest) - longest;
    longest = std::max(reads[warp][space], longest);
    reads[warp][space] = 0;
  }
  memset(cached[warp], 0, sizeof cached[warp]);
}

void dropTraces() {
  for (auto& t : trace) t.clear();
  memset(reads, 0, sizeof reads);
  memset(cached, 0, sizeof cached);
}
