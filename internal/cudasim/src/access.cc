// What happens at every load, store and atomic of a kernel. Kernels are compiled with -fsanitize=thread but linked with
// these functions in place of libtsan's: they are hidden, so a host built with its own race detector does not meet
// them.
#include <algorithm>

#include "judging.h"
#include "race.h"
#include "sim.h"

static const char* const kindNames[] = {"read", "write", "atomic"};

// --- Races -----------------------------------------------------------------------------------------------------------

static void checkCells(Shadow c, const Fiber* f, Kind kind, uintptr_t a, unsigned size, int pc, History h) {
  if (size >= 4 && !(a & 3)) {
    for (unsigned i = 0; i < size; i += 4) checkRace(c.at(i >> 2), f, kind, 15, pc, a + i, h);
    return;
  }
  for (uintptr_t p = a; p < a + size;) {
    unsigned n = std::min<uintptr_t>(4 - (p & 3), a + size - p);
    checkRace(c.at((p >> 2) - (a >> 2)), f, kind, ((1u << n) - 1) << (p & 3), pc, p, h);
    p += n;
  }
}

static __attribute__((noinline)) void touch(Range& r) {
  r.lastLaunch = G.launch->id;
  const LaunchOrder& o = G.launches[r.lastLaunch];
  if ((int)r.touched.size() <= o.stream) r.touched.resize(o.stream + 1);
  r.touched[o.stream] = o.number;
}

// Lazy: reads of a range that no kernel has ever written are not taken down, so that feature tables and graphs need no
// shadow. The price: reads before the very first write to a fresh range are forgotten. Small ranges are never lazy.
constexpr size_t kLazyBytes = 16 << 20;

static bool takeDown(Range& r, Kind kind) {
  if (kind != READ) return r.written = true;
  if (!r.written && (G.config.checks & LAZY) && r.bytes() >= kLazyBytes) return false;
  return r.recorded = true;
}

// --- Every access ----------------------------------------------------------------------------------------------------

static inline __attribute__((always_inline)) void access(uintptr_t a, unsigned size, Kind kind, const void* code,
                                                         bool vector) {
  const Fiber* f = G.current;
  if (unlikely(!f) || !(G.config.checks & kOfKernels)) return;       // not in a kernel: constructors of this library
  if (a - (uintptr_t)f->stack < kStack) return;       // its own local variables
  const int pc = pcIndex(code);
  Range* r = rangeCache[pc % kRangeCache];
  Shadow c;
  if (unlikely(!r || a < r->lo || a + size > r->hi)) {
    if (isShared(a)) {
      c = sharedCells(a, size, kind, pc);
      r = nullptr;
    } else {
      r = findForKernel(a, pc);
      if (unlikely(!r || a + size > r->hi)) badAddress(a, size, kindNames[kind], pc);
    }
  }
  if (r) {
    if (unlikely(r->readOnly && kind != READ))
      FAULT(kIllegalAddress,
            "WRITE TO READ-ONLY memory: %s of %u bytes at 0x%lx (%s) by %s: the range was registered with READ_ONLY",
            kindNames[kind], size, (unsigned long)a, place(pc).c_str(), whoAmI().c_str());
    if (likely(r->shadow.w)) c = r->cells(a);
  }
  if (unlikely(vector && (a & (size - 1))))
    FAULT(kMisalignedAddress, "MISALIGNED %s of %u bytes at 0x%lx (%s) by %s", kindNames[kind], size, (unsigned long)a,
          place(pc).c_str(), whoAmI().c_str());
  if ((G.config.checks & CHECK_RACES) && c.w) {
    if (!r) {
      checkCells(c, f, kind, a, size, pc, {true, nullptr});
    } else {
      if (unlikely(r->lastLaunch != G.launch->id)) touch(*r);
      if (unlikely(!r->transfers.empty())) checkTransfers(*r, a, size, kind, pc);
      if (takeDown(*r, kind)) checkCells(c, f, kind, a, size, pc, {r->recorded, &r->shared});
    }
  }
  if (unlikely(G.judging) && r && kind != READ) keepForJudge(a, size);
  if (r && (G.config.checks & COUNT_LINES)) logAccess(f, code, a, size, kind != READ);
}

// --- What the compiler calls -----------------------------------------------------------------------------------------

#define PC __builtin_return_address(0)
// "unaligned" is what the compiler says of packed types; CUDA knows no unaligned access. Volatile counts as a relaxed
// atomic.
#define CUDASIM_TSAN(N)                                                                            \
  HIDDEN void __tsan_read##N(void* p) { access((uintptr_t)p, N, READ, PC, true); }                 \
  HIDDEN void __tsan_write##N(void* p) { access((uintptr_t)p, N, WRITE, PC, true); }               \
  HIDDEN void __tsan_unaligned_read##N(void* p) { access((uintptr_t)p, N, READ, PC, true); }       \
  HIDDEN void __tsan_unaligned_write##N(void* p) { access((uintptr_t)p, N, WRITE, PC, true); }     \
  HIDDEN void __tsan_volatile_read##N(void* p) { access((uintptr_t)p, N, ATOMIC, PC, true); }      \
  HIDDEN void __tsan_volatile_write##N(void* p) { access((uintptr_t)p, N, ATOMIC, PC, true); }
CUDASIM_TSAN(1)
CUDASIM_TSAN(2)
CUDASIM_TSAN(4)
CUDASIM_TSAN(8)
CUDASIM_TSAN(16)
HIDDEN void __tsan_read_range(void* p, long n) {
  for (long i = 0; i < n; i++) access((uintptr_t)p + i, 1, READ, PC, false);
}
HIDDEN void __tsan_write_range(void* p, long n) {
  for (long i = 0; i < n; i++) access((uintptr_t)p + i, 1, WRITE, PC, false);
}
// g++ turns assignments of structures and loops over bytes into calls of these, which it does not instrument.
HIDDEN void* __tsan_memcpy(void* to, const void* from, size_t n) {
  for (size_t i = 0; i < n; i++) access((uintptr_t)from + i, 1, READ, PC, false);
  for (size_t i = 0; i < n; i++) access((uintptr_t)to + i, 1, WRITE, PC, false);
  return __builtin_memcpy(to, from, n);
}
HIDDEN void* __tsan_memset(void* to, int v, size_t n) {
  for (size_t i = 0; i < n; i++) access((uintptr_t)to + i, 1, WRITE, PC, false);
  return __builtin_memset(to, v, n);
}
HIDDEN void __tsan_init() {}
HIDDEN void __tsan_func_entry(void*) {}
HIDDEN void __tsan_func_exit() {}
HIDDEN void __tsan_vptr_update(void**, void*) {}

// --- Atomics ---------------------------------------------------------------------------------------------------------

template <class R, class U> static U addReal(U bits, U more) {
  R a, b;
  __builtin_memcpy(&a, &bits, sizeof a);
  __builtin_memcpy(&b, &more, sizeof b);
  a += b;
  __builtin_memcpy(&bits, &a, sizeof a);
  return bits;
}

template <class U, class S, class R> static uint64_t update(int op, void* p, uint64_t a, uint64_t b) {
  U* cell = (U*)p;
  U old = *cell, v = a;
  switch (op) {
    case CUDASIM_ADD: v += old; break;
    case CUDASIM_MIN: v = std::min(old, v); break;
    case CUDASIM_MAX: v = std::max(old, v); break;
    case CUDASIM_SMIN: v = std::min((S)old, (S)v); break;
    case CUDASIM_SMAX: v = std::max((S)old, (S)v); break;
    case CUDASIM_CAS: v = old == (U)a ? (U)b : old; break;
    case CUDASIM_OR: v |= old; break;
    case CUDASIM_AND: v &= old; break;
    case CUDASIM_XOR: v ^= old; break;
    case CUDASIM_ADD_REAL: v = addReal<R>(old, v); break;
    default: break;                                   // exchange
  }
  *cell = v;
  return old;
}

HIDDEN uint64_t cudasim_atomic(int op, int bytes, void* p, uint64_t a, uint64_t b) {
  access((uintptr_t)p, bytes, ATOMIC, PC, true);
  if (G.config.order == RANDOM && !(rnd() >> 32 & 7)) {       // let another lane go first, now and then
    Fiber* f = G.current;
    G.warps[f->warp].ready |= f->bit;
    yield(f);
  }
  return bytes == 4 ? update<uint32_t, int32_t, float>(op, p, a, b) : update<uint64_t, int64_t, double>(op, p, a, b);
}
