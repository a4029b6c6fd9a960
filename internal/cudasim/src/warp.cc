// Barriers of a block and collectives of a warp: who waits, who is released, what each lane gets, and who then knows
// what.
#include <algorithm>
#include <cstring>

#include "sim.h"

int liveThreads;                                      // of the block, not yet returned
static int waiting, barrierLine, trueCount, barrierResult;

void startBlock(int threads) {
  liveThreads = threads;
  waiting = trueCount = 0;
  G.blockSync = ++G.now;
  G.blockStamp++;
  G.warpsUsed = (threads + 31) / 32;
  for (int i = 0; i < threads; i++) G.fibers[i].state = NEW;
  for (int w = 0; w < G.warpsUsed; w++) {
    int n = std::min(32, threads - w * 32);
    Warp& W = G.warps[w];
    W.live = W.ready = n == 32 ? ~0u : (1u << n) - 1;
    W.barrier = 0;
    W.groups = 0;
  }
}

// --- __syncthreads ---------------------------------------------------------------------------------------------------

static void releaseBarrier() {
  G.blockSync = ++G.now;
  barrierResult = trueCount;
  waiting = trueCount = 0;
  for (int w = 0; w < G.warpsUsed; w++) {
    if (G.config.checks & COUNT_LINES) countTraffic(w);
    G.warps[w].ready |= G.warps[w].barrier;
    G.warps[w].barrier = 0;
  }
}

HIDDEN int cudasim_barrier(int line, int predicate) {
  Fiber* f = G.current;
  if (waiting && line != barrierLine)
    FAULT(kLaunchFailed, "DIVERGENT BARRIER: %s is at the barrier of line %d, others wait at line %d", whoAmI().c_str(),
          line, barrierLine);
  barrierLine = line;
  trueCount += predicate;
  Warp& W = G.warps[f->warp];
  W.barrier |= f->bit;
  f->state = AT_BARRIER;
  if (++waiting == liveThreads) {
    releaseBarrier();
    W.ready &= ~f->bit;
  } else {
    yield(f);
  }
  f->state = RUNNING;
  return barrierResult;
}

int threadsAtBarrier() { return waiting; }
int lineOfBarrier() { return barrierLine; }

// --- Collectives -----------------------------------------------------------------------------------------------------

// Each lane of the mask takes over what the others know, and knows the others up to now.
static void orderLanes(Warp& W, uint32_t mask) {
  uint32_t best[32] = {}, at = ++G.now;
  for (uint32_t m = mask; m; m &= m - 1) {
    const uint32_t* know = W.know[__builtin_ctz(m)];
    for (int j = 0; j < 32; j++) best[j] = std::max(best[j], know[j]);
  }
  for (uint32_t m = mask; m; m &= m - 1) best[__builtin_ctz(m)] = at;
  for (uint32_t m = mask; m; m &= m - 1) memcpy(W.know[__builtin_ctz(m)], best, sizeof best);
}

static uint32_t ballot(const Fiber* lanes, uint32_t arrived) {
  uint32_t r = 0;
  for (uint32_t m = arrived; m; m &= m - 1)
    if (lanes[__builtin_ctz(m)].value & 1) r |= m & -m;
  return r;
}

static uint32_t matching(const Fiber* lanes, uint32_t arrived, uint64_t value) {
  uint32_t r = 0;
  for (uint32_t m = arrived; m; m &= m - 1)
    if (lanes[__builtin_ctz(m)].value == value) r |= m & -m;
  return r;
}

static int sourceLane(const Fiber& f, int op) {
  int segment = f.lane & ~(f.width - 1), end = segment + f.width;
  switch (op) {
    case CUDASIM_SHFL: return segment + (f.arg & (f.width - 1));
    case CUDASIM_SHFL_UP: return f.lane - f.arg < segment ? f.lane : f.lane - f.arg;
    case CUDASIM_SHFL_DOWN: return f.lane + f.arg >= end ? f.lane : f.lane + f.arg;
    default: return (f.lane ^ f.arg) >= end ? f.lane : f.lane ^ f.arg;
  }
}

// Computes the result of every lane at once, so that no lane has to come back for another's value.
static void complete(int warp, Group g) {
  Fiber* lanes = G.fibers + warp * 32;
  uint32_t votes = g.op == CUDASIM_BALLOT ? ballot(lanes, g.arrived) : 0;
  for (uint32_t m = g.arrived; m; m &= m - 1) {
    Fiber& f = lanes[__builtin_ctz(m)];
    if (g.op == CUDASIM_SYNC) continue;
    if (g.op == CUDASIM_BALLOT) f.result = votes;
    else if (g.op == CUDASIM_MATCH) f.result = matching(lanes, g.arrived, f.value);
    else {
      int from = sourceLane(f, g.op);
      f.bad = !(g.arrived >> from & 1);
      f.result = f.bad ? 0xdeadbeefdeadbeefull : lanes[from].value;
    }
  }
  if (g.op == CUDASIM_SYNC) orderLanes(G.warps[warp], g.arrived);   // a shuffle or vote is no memory barrier
  if (g.arrived == G.warps[warp].live && (G.config.checks & COUNT_LINES)) countTraffic(warp);
}

static Group takeGroup(Warp& W, int i) {
  Group g = W.group[i];
  W.group[i] = W.group[--W.groups];
  return g;
}

HIDDEN uint64_t cudasim_warp(int op, unsigned mask, uint64_t value, int arg, int width, int line) {
  Fiber* f = G.current;
  Warp& W = G.warps[f->warp];
  if (!(mask & f->bit))
    FAULT(kLaunchFailed, "WARP MASK 0x%08x lacks the calling lane: line %d, %s", mask, line, whoAmI().c_str());
  f->value = value;
  f->arg = arg;
  f->width = width;
  f->bad = false;
  int i = 0;
  while (i < W.groups && W.group[i].mask != mask) i++;
  if (i == W.groups) W.group[W.groups++] = {mask, 0, op, line};
  Group& g = W.group[i];
  if (g.op != op)
    FAULT(kLaunchFailed, "WARP COLLECTIVES MIXED: lanes of mask 0x%08x are at lines %d and %d: %s", mask, g.line, line,
          whoAmI().c_str());
  g.arrived |= f->bit;
  if (g.arrived == (mask & W.live)) {
    Group done = takeGroup(W, i);
    complete(f->warp, done);
    W.ready |= done.arrived & ~f->bit;
  } else {
    f->state = IN_WARP;
    yield(f);
    f->state = RUNNING;
  }
  if (f->bad)
    FAULT(kLaunchFailed, "SHUFFLE FROM A LANE THAT DOES NOT TAKE PART: line %d, %s, mask 0x%08x", line,
          whoAmI().c_str(), mask);
  return f->result;
}

// Threads that have returned no longer count, at barriers and in masks.
void laneExited(Fiber* f) {
  Warp& W = G.warps[f->warp];
  liveThreads--;
  W.live &= ~f->bit;
  for (int i = 0; i < W.groups;) {
    Group& g = W.group[i];
    if (g.arrived && g.arrived == (g.mask & W.live)) {
      Group done = takeGroup(W, i);
      complete(f->warp, done);
      W.ready |= done.arrived;
    } else {
      i++;
    }
  }
  if (waiting && waiting == liveThreads) releaseBarrier();
}

HIDDEN void cudasim_trap(int line) {
  FAULT(kLaunchFailed, "TRAP at line %d by %s", line, whoAmI().c_str());
}
