// Copies and fills take part in the race check: one that the streams do not order after the kernels that used the
// memory, or before those that will, is found whatever order the simulator really ran them in.
#include <algorithm>
#include <cstdio>
#include <set>

#include "findings.h"
#include "race.h"
#include "sim.h"

static std::set<uint64_t> seen;                       // pairs of places that were reported
void clearSeenRaces() { seen.clear(); }

static std::string atPlace(int pc) { return pc ? " at " + place(pc) : ""; }      // a copy has none

static std::string launchName(uint32_t id) {
  const LaunchOrder& o = G.launches[id];
  return std::string(o.name) + ", operation " + std::to_string(o.number) + " of stream " + std::to_string(o.stream);
}

__attribute__((noinline)) void reportRace(const Record& r, Kind mine, Kind theirs, uintptr_t a, int pc) {
  static const char* const names[] = {"read", "write", "atomic"};
  if (!seen.insert((uint64_t)pc << 16 | r.pc).second) return;
  std::string other = "block " + std::to_string(r.block) + " warp " + std::to_string(r.warp);
  other += " lane " + std::to_string(__builtin_ctz(r.lanes));
  if (r.launch != G.launch->id) other = launchName(r.launch);
  else if (r.level == MANY_BLOCKS) other = "several blocks";
  else if (r.level == MANY_WARPS) other = "several warps of block " + std::to_string(r.block);
  report(kLaunchFailed, "RACE: %s%s by %s conflicts with the %s%s by %s; address 0x%lx", names[mine],
         atPlace(pc).c_str(), whoAmI().c_str(), names[theirs], atPlace(r.pc).c_str(), other.c_str(), (unsigned long)a);
}

static void reportTransferRace(const Transfer& t, const char* mine, uintptr_t a, int pc) {
  if (!seen.insert(1ull << 63 | (uint64_t)pc << 32 | t.launch).second) return;
  report(kLaunchFailed,
         "RACE: %s%s by %s conflicts with the %s by %s; address 0x%lx: no event or synchronisation orders them", mine,
         atPlace(pc).c_str(), whoAmI().c_str(), t.write ? "write" : "read", launchName(t.launch).c_str(),
         (unsigned long)a);
}

void checkTransfers(Range& r, uintptr_t a, unsigned size, Kind kind, int pc) {
  if (r.transfersChecked == G.launch->id) return;
  bool all = true;
  for (const Transfer& t : r.transfers) {
    if (launchOrdered(t.launch)) continue;
    all = false;
    if (a < t.hi && a + size > t.lo && (t.write || kind != READ))
      reportTransferRace(t, kind == READ ? "read" : "write", a, pc);
  }
  if (all) r.transfersChecked = G.launch->id;
}

static bool kernelsOrdered(const Range& r) {          // have all kernels that touched it ended?
  for (size_t s = 0; s < r.touched.size(); s++)
    if (r.touched[s] && (s >= G.launch->clock.size() || G.launch->clock[s] < r.touched[s])) return false;
  return true;
}

static void checkKernels(Range& r, uintptr_t a, size_t n, bool write) {
  if (kernelsOrdered(r) || !r.shadow.w) return;
  Shadow c = r.cells(a);
  size_t cells = (n + (a & 3) + 3) / 4;
  auto open = [](bool any, const Record& o) { return any && o.lanes && !launchOrdered(o.launch); };
  for (size_t i = 0; i < cells; i++) {
    if (open(r.written, c.w[i])) return reportRace(c.w[i], write ? WRITE : READ, WRITE, a + i * 4, 0);
    if (open(write && r.recorded, c.r[i])) return reportRace(c.r[i], WRITE, READ, a + i * 4, 0);
    if (open(write && r.shared, c.other[i])) return reportRace(c.other[i], WRITE, READ, a + i * 4, 0);
  }
}

static void remember(Range& r, Transfer t) {
  // A later copy of the same stream over the same bytes stands for the earlier one, and ordered ones never matter
  // again.
  auto gone = [&](const Transfer& o) {
    return G.launches[o.launch].stream == G.launches[t.launch].stream && o.lo >= t.lo && o.hi <= t.hi &&
           o.write <= t.write;
  };
  r.transfers.erase(std::remove_if(r.transfers.begin(), r.transfers.end(), gone), r.transfers.end());
  if (r.transfers.size() >= 64) r.transfers.erase(r.transfers.begin());
  r.transfers.push_back(t);
  r.transfersChecked = 0;
}

void hostTransfer(Launch* L, uintptr_t a, size_t n, bool write, bool async) {
  Range* r = findRange(a);
  if (!r || !(G.config.checks & CHECK_RACES) || r->readOnly || n == 0) return;
  G.launch = L;
  G.orderedLaunch = 0;
  for (const Transfer& t : r->transfers)
    if (!launchOrdered(t.launch) && a < t.hi && a + n > t.lo && (t.write || write))
      reportTransferRace(t, write ? "write" : "read", a, 0);
  checkKernels(*r, a, n, write);
  if (async) remember(*r, {a, a + n, L->id, write});
}
