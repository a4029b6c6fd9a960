// Runs a kernel: a block after the other, a fiber for each thread of the block, in the order that the configuration
// asks for.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "fiber.h"
#include "findings.h"
#include "judging.h"
#include "sim.h"

Simulator G;
int threadsAtBarrier();                               // warp.cc
int lineOfBarrier();

static Context scheduler;                             // where fibers return to
static char* stacks;
static char* freeStack[kMaxThreads];
static int freeStacks;
static bool aborted;

// --- Random choices --------------------------------------------------------------------------------------------------

uint64_t mixSeed(uint64_t a, uint64_t b) {            // SplitMix64's finalizer over both
  uint64_t x = a * 0x9e3779b97f4a7c15ull + b;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ x >> 27) * 0x94d049bb133111ebull;
  return (x ^ x >> 31) | 1;
}

uint64_t rnd() {                                      // xorshift64*
  uint64_t& x = G.random;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  return x * 0x2545F4914F6CDD1Dull;
}

static int pickLane(uint32_t ready) {
  if (G.config.order == FORWARD) return __builtin_ctz(ready);
  if (G.config.order == REVERSE) return 31 - __builtin_clz(ready);
  for (int k = (rnd() >> 32) % __builtin_popcount(ready); k--;) ready &= ready - 1;
  return __builtin_ctz(ready);
}

static int pickWarp(int turn) {
  if (G.config.order == FORWARD) return turn;
  if (G.config.order == REVERSE) return G.warpsUsed - 1 - turn;
  return (rnd() >> 32) % G.warpsUsed;
}

// --- Fibers ----------------------------------------------------------------------------------------------------------

void yield(Fiber* f) {
  switchContext(&f->sp, scheduler);
  G.current = f;
}

void abortLaunch() {
  aborted = true;
  void* gone;
  switchContext(&gone, scheduler);
  __builtin_unreachable();
}

static void fiberMain() {
  G.launch->kernel->call(G.launch->kernel->function, G.launch->args.data());
  G.current->state = DONE;
  void* gone;
  switchContext(&gone, scheduler);
  __builtin_unreachable();
}

static void startFiber(Fiber* f) {
  f->stack = freeStack[--freeStacks];                 // the one freed last is still in the cache
  // Tops at different offsets: all 60 KiB apart, every fiber's frame would fall into the same set of the cache.
  f->sp = newContext(f->stack, kStack - f->thread * 320 % 16384, fiberMain);
  f->state = RUNNING;
}

void initFibers() {
  // A multiple of every page size in use; below each stack, to guard it.
  const size_t page = 16384;
  stacks = (char*)reserve(kMaxThreads * (kStack + page) + page);
  stacks = (char*)(((uintptr_t)stacks + page - 1) & ~(page - 1));
  for (int i = 0; i < kMaxThreads; i++) guardPage(stacks + i * (kStack + page), page);
  for (int i = 0; i < kMaxThreads; i++) {
    Fiber& f = G.fibers[i];
    f.thread = i;
    f.warp = i / 32;
    f.lane = i & 31;
    f.bit = 1u << f.lane;
  }
}

static void resetFibers() {                           // an aborted launch leaves fibers behind: forget them
  const size_t page = 16384;
  for (int i = 0; i < kMaxThreads; i++) freeStack[i] = stacks + (size_t)(kMaxThreads - 1 - i) * (kStack + page) + page;
  freeStacks = kMaxThreads;
}

// --- Blocks ----------------------------------------------------------------------------------------------------------

static void runLane(int warp, int lane) {
  Fiber* f = G.fibers + warp * 32 + lane;
  G.warps[warp].ready &= ~f->bit;
  if (f->state == NEW) startFiber(f);
  G.current = f;
  G.scheduleHash = (G.scheduleHash ^ (uint64_t)(f->thread + 1)) * 0x100000001b3ull;
  switchContext(&scheduler, f->sp);
  if (aborted || f->state != DONE) return;
  freeStack[freeStacks++] = f->stack;
  laneExited(f);
  if (!G.warps[warp].live && (G.config.checks & COUNT_LINES)) endTraffic(warp);
}

// Runs lanes of a warp until none is ready, or, in random order, until chance leaves it half done. Returns false if it
// was not ready at all.
static bool runWarp(int warp) {
  Warp& W = G.warps[warp];
  if (!W.ready) return false;
  for (int turn = 0; W.ready && !aborted; turn++) {
    if (G.config.order == RANDOM && turn > 40 && !(rnd() >> 32 & 15)) break;
    runLane(warp, pickLane(W.ready));
  }
  return true;
}

static bool anyReady() {
  for (int w = 0; w < G.warpsUsed; w++)
    if (G.warps[w].ready) return true;
  return false;
}

static void reportDeadlock(int threads) {
  int inWarp = 0, line = 0;
  for (int i = 0; i < threads; i++)
    if (G.fibers[i].state == IN_WARP) inWarp++;
  for (int w = 0; w < G.warpsUsed && !line; w++)
    if (G.warps[w].groups) line = G.warps[w].group[0].line;
  report(kLaunchTimeout,
         "DEADLOCK: kernel %s, block %u: of %d live threads %d wait at __syncthreads (line %d) and %d in a warp "
         "collective (line %d)",
         G.launch->kernel->name.c_str(), G.block, liveThreads, threadsAtBarrier(), lineOfBarrier(), inWarp, line);
}

static bool runBlock(int threads) {
  startBlock(threads);
  while (liveThreads) {
    bool any = false;
    for (int turn = 0; turn < G.warpsUsed && liveThreads && !aborted; turn++) any |= runWarp(pickWarp(turn));
    if (aborted) return false;
    if (!any && liveThreads && !anyReady()) {         // in random order a ready warp may just not have been picked
      reportDeadlock(threads);
      return false;
    }
  }
  return true;
}

void runKernel(Launch* L) {
  Kernel* k = L->kernel;
  static int cached;                                  // for which device's kernels rangeCache holds
  if (std::exchange(cached, L->device) != L->device) forgetCaches();
  G.launch = L;
  G.orderedLaunch = 0;
  aborted = false;
  G.now = 1;
  G.random = mixSeed(G.config.seed, k->runs++);
  for (char c : k->name) G.random = mixSeed(G.random, c);
  k->launches++;
  for (Warp& w : G.warps) memset(w.know, 0, sizeof w.know);
  resetFibers();
  judgeBegins(L);
  const unsigned* g = L->grid;
  uint64_t blocks = (uint64_t)g[0] * g[1] * g[2];
  int threads = L->block[0] * L->block[1] * L->block[2];
  uint64_t step = 1, shift = 0;                       // random order of blocks: i -> step * i + shift mod blocks
  if (G.config.order == RANDOM) {
    shift = rnd() % blocks;
    do step = rnd() % blocks | 1; while (std::gcd(step, blocks) != 1);
  }
  for (uint64_t i = 0; i < blocks; i++) {
    uint64_t b = ((unsigned __int128)step * i + shift) % blocks;
    if (G.config.order == REVERSE) b = blocks - 1 - i;
    G.block = b;
    G.blockIdx = {(unsigned)(b % g[0]), (unsigned)(b / g[0] % g[1]), (unsigned)(b / g[0] / g[1])};
    if (!runBlock(threads)) break;
    k->threads += threads;
  }
  dropTraces();                                       // left over only by an aborted launch
  G.current = nullptr;
  judgeEnds(L, !aborted && !G.sticky());
}

// --- Built-in variables ----------------------------------------------------------------------------------------------

HIDDEN uint3 cudasim_thread_idx() {
  unsigned t = G.current->thread;
  const unsigned* b = G.launch->block;
  if (b[1] * b[2] == 1) return {t, 0, 0};
  return {t % b[0], t / b[0] % b[1], t / b[0] / b[1]};
}
HIDDEN uint3 cudasim_block_idx() { return G.blockIdx; }
HIDDEN uint3 cudasim_block_dim() { return {G.launch->block[0], G.launch->block[1], G.launch->block[2]}; }
HIDDEN uint3 cudasim_grid_dim() { return {G.launch->grid[0], G.launch->grid[1], G.launch->grid[2]}; }
