// Races by happens-before. Included by access.cc and transfers.cc only: it is the hot path.
//
// A Record says "these lanes accessed the cell, last at clock `time`". Clocks are those of one launch, shared by its
// blocks, which run one after the other, so one number orders everything: a barrier at clock s orders all accesses of
// the block before s; know[a][b] is the last clock up to which lane a knows lane b. Launches are ordered by the vector
// clocks of their streams. Nothing here depends on the order in which lanes really ran, so a missing barrier is found
// in every order.
#pragma once
#include "sim.h"

enum Level { ONE_WARP, MANY_WARPS, MANY_BLOCKS };

inline bool launchOrdered(uint32_t id) {              // is it complete when the present launch starts?
  if (id == 0) return true;
  const LaunchOrder& o = G.launches[id];
  return o.stream < (int)G.launch->clock.size() && G.launch->clock[o.stream] >= o.number;
}

inline bool ordered(const Record& r, const Fiber* f) {
  if (!r.lanes) return true;
  if (r.launch != G.launch->id) {
    if (r.launch == G.orderedLaunch) return true;     // the usual case, once found
    if (!launchOrdered(r.launch)) return false;
    G.orderedLaunch = r.launch;
    return true;
  }
  if (r.level == MANY_BLOCKS || r.block != (G.block & kBlockMask)) return false;
  if (r.time < G.blockSync) return true;
  if (r.level == MANY_WARPS || r.warp != (unsigned)f->warp) return false;
  const uint32_t* know = G.warps[f->warp].know[f->lane];
  for (uint32_t m = r.lanes & ~f->bit; m; m &= m - 1)
    if (know[__builtin_ctz(m)] <= r.time) return false;
  return true;
}

inline Record recordOf(const Fiber* f, int pc, unsigned bytes, bool atomic) {
  return Record{f->bit,   G.now, bytes, G.launch->id, (unsigned)pc, G.block & kBlockMask, (unsigned)f->warp,
                ONE_WARP, atomic};
}

// Adds the present lane to the set of a record.
inline void addLane(Record& r, const Fiber* f, int pc, unsigned bytes, bool atomic) {
  const uint32_t block = G.block & kBlockMask, id = G.launch->id;
  if (r.lanes && r.launch == id && r.level == ONE_WARP && r.block == block && r.warp == (unsigned)f->warp &&
      r.time == G.now && r.atomic == atomic) {
    r.lanes |= f->bit;                                // by far the most frequent: same warp, same clock
    r.bytes |= bytes;
    return;
  }
  if (!r.lanes || r.launch != id || r.atomic != atomic || ordered(r, f)) {
    r = recordOf(f, pc, bytes, atomic);
    return;
  }
  if (r.block != block) r.level = MANY_BLOCKS;
  else if (r.level == ONE_WARP && r.warp != (unsigned)f->warp) r.level = MANY_WARPS;
  if (r.level == ONE_WARP) {                          // drop lanes that are ordered before this access
    const uint32_t* know = G.warps[f->warp].know[f->lane];
    for (uint32_t m = r.lanes & ~f->bit; m; m &= m - 1)
      if (know[__builtin_ctz(m)] > r.time) r.lanes &= ~(m & -m);
    r.lanes |= f->bit;
  }
  r.time = G.now;
  r.bytes |= bytes;
}

inline bool onlyMine(const Record& r, const Fiber* f) {
  return r.launch == G.launch->id && r.lanes == f->bit && r.level == ONE_WARP && r.warp == (unsigned)f->warp &&
         r.block == (G.block & kBlockMask);
}

void reportRace(const Record& r, Kind mine, Kind theirs, uintptr_t a, int pc);

// What a cell is part of, as far as its history goes.
struct History { bool readers, *shared; };            // has it recorded readers at all; is there anything in .other

// A read by a launch that is not ordered after the readers it displaces: a later write must be ordered after both.
inline void keepOthers(Record& R, Record& other, History h) {
  if (!R.lanes || R.launch == G.launch->id || R.launch == G.orderedLaunch || launchOrdered(R.launch)) return;
  other = R;
  *h.shared = true;
}

// Checks one access against what is known of a cell and takes it down. `bytes` is the mask of the cell's bytes.
inline void checkRace(Shadow c, const Fiber* f, Kind kind, unsigned bytes, int pc, uintptr_t a, History h) {
  Record &W = *c.w, &R = *c.r;
  if (W.lanes && !onlyMine(W, f) && !(kind == ATOMIC && W.atomic) && (W.bytes & bytes) && unlikely(!ordered(W, f)))
    reportRace(W, kind, W.atomic ? ATOMIC : WRITE, a, pc);
  if (kind == READ) {
    if (h.shared) keepOthers(R, *c.other, h);
    addLane(R, f, pc, bytes, false);
    return;
  }
  if (h.readers && R.lanes && !onlyMine(R, f) && (R.bytes & bytes) && unlikely(!ordered(R, f)))
    reportRace(R, kind, READ, a, pc);
  if (unlikely(h.shared && *h.shared) && c.other->lanes && (c.other->bytes & bytes) && !ordered(*c.other, f))
    reportRace(*c.other, kind, READ, a, pc);
  if (kind == ATOMIC) addLane(W, f, pc, bytes, true);
  else W = recordOf(f, pc, bytes, false);
  // They are ordered before this write, which now stands for them.
  if (h.readers && R.lanes && !onlyMine(R, f)) R.lanes = 0;
}
