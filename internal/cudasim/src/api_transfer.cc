// Driver calls that copy and fill.
//
// Asynchronous copies run when their stream runs, so a host that uses the memory too early sees old bytes. That holds
// for more than 64 KiB of pageable memory as well: a driver may take them when the call is made, but does not promise
// it. A copy to pageable memory waits.
#include <sys/uio.h>
#include <unistd.h>

#include <cstring>

#include "config.h"
#include "findings.h"
#include "memory.h"
#include "streams.h"

typedef unsigned long long Device;                    // CUdeviceptr
// To the driver: device memory, and host memory that was page-locked.
struct Side { uintptr_t a; bool mustBeKnown; };

static bool known(uintptr_t a, size_t n) {
  Range* r = findRange(a);
  return r && r->live && a >= r->lo && a + n <= r->hi;
}

// Host memory may be unknown, but a copy must not span the border of what is registered.
static bool valid(Side s, size_t n) {
  if (s.mustBeKnown) return known(s.a, n);
  if (findRange(s.a)) return known(s.a, n);
  return !overlapsHost(s.a, s.a + n);
}

static void copyNow(Launch* L, Side to, Side from, size_t n, bool async) {
  if (!valid(to, n) || !valid(from, n)) {
    report(
        kIllegalAddress,
        "COPY OF MEMORY THAT IS GONE: %zu bytes from 0x%lx to 0x%lx: freed or unregistered after the copy was queued",
        n, (unsigned long)from.a, (unsigned long)to.a);
    return;
  }
  hostTransfer(L, from.a, n, false, async);
  hostTransfer(L, to.a, n, true, async);
  memmove((void*)to.a, (void*)from.a, n);
}

static CUresult copy(Side to, Side from, size_t n) {
  if (!n) return kSuccess;
  if (!valid(to, n) || !valid(from, n)) return kInvalidValue;
  if (anyCapture()) return kCaptureUnsupported;
  runSynchronously([=](Launch* L) { copyNow(L, to, from, n, false); });
  return G.sticky();
}

constexpr size_t kStagedAtOnce = 64 << 10;

// From pageable memory, when the stream comes to it. The memory may be gone, so a system call reads it, which does not
// fault.
static void copyLate(Launch* L, Side to, uintptr_t from, size_t n) {
  std::vector<char> bytes(n);
  iovec into = {bytes.data(), n}, of = {(void*)from, n};
  if (process_vm_readv(getpid(), &into, 1, &of, 1, 0) != (ssize_t)n) {
    report(kIllegalAddress,
           "COPY OF MEMORY THAT IS GONE: %zu pageable bytes at 0x%lx: unmapped before the stream came to the copy", n,
           (unsigned long)from);
    return;
  }
  copyNow(L, to, {(uintptr_t)bytes.data(), false}, n, true);
}

static CUresult copyAsync(Side to, Side from, size_t n, void* stream) {
  Stream* s = findStream(stream);
  if (!s) return kInvalidHandle;
  if (!n) return kSuccess;
  if (!valid(to, n) || !valid(from, n)) return kInvalidValue;
  from.mustBeKnown |= findRange(from.a) != nullptr;   // also when the copy runs
  to.mustBeKnown |= findRange(to.a) != nullptr;
  bool staged = !from.mustBeKnown, waits = !to.mustBeKnown;
  if ((staged || waits) && s->capture) return kCaptureUnsupported;
  std::function<void(Launch*)> work = [=](Launch* L) { copyNow(L, to, from, n, true); };
  if (staged && n > kStagedAtOnce) work = [=](Launch* L) { copyLate(L, to, from.a, n); };
  else if (staged) {
    auto bytes = std::make_shared<std::vector<char>>((char*)from.a, (char*)from.a + n);
    work = [=](Launch* L) { copyNow(L, to, {(uintptr_t)bytes->data(), false}, n, true); };
  }
  enqueue(s, Operation{Operation::TRANSFER, std::make_shared<Launch>(), nullptr, work});
  if (waits) drainStream(s);
  return G.sticky();
}

static Side onDevice(Device p) { return {(uintptr_t)p, true}; }
static Side onHost(const void* p) { return {(uintptr_t)p, false}; }
static Side anywhere(Device p) { return {(uintptr_t)p, findRange(p) != nullptr}; }

API cuMemcpy(Device to, Device from, size_t n) {
  ENTER(CONTEXT);
  return copy(anywhere(to), anywhere(from), n);
}
API cuMemcpyHtoD_v2(Device to, const void* from, size_t n) {
  ENTER(CONTEXT);
  return copy(onDevice(to), onHost(from), n);
}
API cuMemcpyDtoH_v2(void* to, Device from, size_t n) {
  ENTER(CONTEXT);
  return copy(onHost(to), onDevice(from), n);
}
API cuMemcpyDtoD_v2(Device to, Device from, size_t n) {
  ENTER(CONTEXT);
  return copy(onDevice(to), onDevice(from), n);
}
API cuMemcpyAsync(Device to, Device from, size_t n, void* stream) {
  ENTER(CONTEXT);
  return copyAsync(anywhere(to), anywhere(from), n, stream);
}
API cuMemcpyHtoDAsync_v2(Device to, const void* from, size_t n, void* stream) {
  ENTER(CONTEXT);
  return copyAsync(onDevice(to), onHost(from), n, stream);
}
API cuMemcpyDtoHAsync_v2(void* to, Device from, size_t n, void* stream) {
  ENTER(CONTEXT);
  return copyAsync(onHost(to), onDevice(from), n, stream);
}
API cuMemcpyDtoDAsync_v2(Device to, Device from, size_t n, void* stream) {
  ENTER(CONTEXT);
  return copyAsync(onDevice(to), onDevice(from), n, stream);
}

// Drivers have it from CUDA 12.8 on. Copies of a batch have no order: here the last comes first.
struct BatchAttributes { int order, hints[4]; unsigned flags; };
API cuMemcpyBatchAsync(Device* to, Device* from, size_t* sizes, size_t n, BatchAttributes* attributes, size_t* firsts,
                       size_t kinds, size_t* failed, void* stream) {
  if (G.config.driver < 12080) return kNotSupported;   // what package device answers in place of what a driver lacks
  ENTER(CONTEXT);
  *failed = SIZE_MAX;
  if (!stream || !n || !kinds || kinds > n || firsts[0]) return kInvalidValue;
  for (size_t i = 0; i < kinds; i++)
    if (attributes[i].order < 1 || attributes[i].order > 3 || firsts[i] >= n) return kInvalidValue;
  for (size_t i = n; i--;) {
    *failed = i;
    int code = sizes[i] ? copyAsync(anywhere(to[i]), anywhere(from[i]), sizes[i], stream) : kInvalidValue;
    if (code) return code;
  }
  return kSuccess;
}

// Between two devices, which need not be peers: the driver then goes by way of the host.
API cuMemcpyPeer(Device to, void*, Device from, void*, size_t n) {
  ENTER(CONTEXT);
  return copy(onDevice(to), onDevice(from), n);
}
API cuMemcpyPeerAsync(Device to, void*, Device from, void*, size_t n, void* stream) {
  ENTER(CONTEXT);
  return copyAsync(onDevice(to), onDevice(from), n, stream);
}

// --- Fills -----------------------------------------------------------------------------------------------------------

template <class T> static void fillNow(Launch* L, Device to, T v, size_t n, bool async) {
  if (!known(to, n * sizeof v)) {
    report(kIllegalAddress, "FILL OF MEMORY THAT IS GONE: %zu bytes at 0x%lx: freed after the fill was queued",
           n * sizeof v, (unsigned long)to);
    return;
  }
  hostTransfer(L, to, n * sizeof v, true, async);
  std::fill((T*)to, (T*)to + n, v);
}
// A fill is a kernel of the driver's: it reaches what a kernel does.
static bool fillable(Device to, size_t n) { return known(to, n) && mayReach(G.device, *findRange(to)); }

template <class T> static CUresult fill(Device to, T v, size_t n) {
  if (!n) return kSuccess;
  if (to % sizeof v || !fillable(to, n * sizeof v)) return kInvalidValue;
  if (anyCapture()) return kCaptureUnsupported;
  runSynchronously([=](Launch* L) { fillNow(L, to, v, n, false); });
  return G.sticky();
}
template <class T> static CUresult fillAsync(Device to, T v, size_t n, void* stream) {
  Stream* s = findStream(stream);
  if (!s) return kInvalidHandle;
  if (!n) return kSuccess;
  if (to % sizeof v || !fillable(to, n * sizeof v)) return kInvalidValue;
  enqueue(s, Operation{Operation::TRANSFER, std::make_shared<Launch>(), nullptr,
                       [=](Launch* L) { fillNow(L, to, v, n, true); }});
  return G.sticky();
}
API cuMemsetD8_v2(Device to, unsigned char v, size_t n) {
  ENTER(CONTEXT);
  return fill(to, v, n);
}
API cuMemsetD16_v2(Device to, unsigned short v, size_t n) {
  ENTER(CONTEXT);
  return fill(to, v, n);
}
API cuMemsetD32_v2(Device to, unsigned v, size_t n) {
  ENTER(CONTEXT);
  return fill(to, v, n);
}
API cuMemsetD8Async(Device to, unsigned char v, size_t n, void* stream) {
  ENTER(CONTEXT);
  return fillAsync(to, v, n, stream);
}
API cuMemsetD16Async(Device to, unsigned short v, size_t n, void* stream) {
  ENTER(CONTEXT);
  return fillAsync(to, v, n, stream);
}
API cuMemsetD32Async(Device to, unsigned v, size_t n, void* stream) {
  ENTER(CONTEXT);
  return fillAsync(to, v, n, stream);
}
