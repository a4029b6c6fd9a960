// Several devices: each has its memory, streams, kernels and errors.
#include "sim_test.h"

static void* contexts[2];

static void use(int device) { OK("cuCtxSetCurrent", contexts[device]); }

// Runs a case with two devices, the first of them current at its beginning and its end.
static void onTwo(const char* settings, void (*test)()) {
  call<const char*>("cudasim_config", settings);
  for (int d = 0; d < 2; d++) OK("cuDevicePrimaryCtxRetain", &contexts[d], d);
  use(0);
  test();
  use(0);
  for (int d = 0; d < 2; d++) OK("cuDevicePrimaryCtxRelease_v2", d);
}

static void* loadCopy(void** module) {
  void* f = nullptr;
  const char* ptx =
      ".version 7.8\n.visible .entry sim_copy(\n.param .u64 a,\n.param .u64 b,\n.param .u64 c\n)\n{\nret;\n}\n";
  OK("cuModuleLoadData", module, (const void*)ptx);
  OK("cuModuleGetFunction", &f, *module, "sim_copy");
  return f;
}

static int launchCopy(void* f, void* stream, Device from, Device to, uint64_t n) {
  void* params[] = {&from, &to, &n};
  return call("cuLaunchKernel", f, 4u, 1u, 1u, 256u, 1u, 1u, 0u, stream, (void**)params, (void**)nullptr);
}

static void devicesAreTold() {
  int n = 0, bus[2] = {}, current = -1;
  char id[2][16];
  OK("cuDeviceGetCount", &n);
  for (int d = 0; d < 2; d++) {
    OK("cuDeviceGetUuid", (char*)id[d], d);
    OK("cuDeviceGetAttribute", &bus[d], 33, d);
  }
  expect(n == 2 && memcmp(id[0], id[1], 16) && bus[0] != bus[1], "%d devices on bus %d and %d", n, bus[0], bus[1]);
  use(1);
  OK("cuCtxGetDevice", &current);
  expect(current == 1, "device %d is current", current);
  int missing = 0;
  EXPECT_CODE(101, "cuDeviceGet", &missing, 2);
  EXPECT_CODE(101, "cuDevicePrimaryCtxRetain", (void**)&missing, 2);
}

static size_t freeBytes() {
  size_t left = 0, total = 0;
  OK("cuMemGetInfo_v2", &left, &total);
  return left;
}

static void eachHasItsMemory() {
  size_t before = freeBytes();
  use(1);
  Device p = allocate(8 << 20), q = 0;
  int ordinal = -1;
  expect(freeBytes() == before - (8 << 20), "%d bytes are free", (int)freeBytes());
  EXPECT_CODE(2, "cuMemAlloc_v2", &q, (size_t)60 << 20);
  use(0);
  expect(freeBytes() == before, "the other device's memory shrinks");
  OK("cuMemAlloc_v2", &q, (size_t)60 << 20);
  OK("cuPointerGetAttribute", (void*)&ordinal, 9, p);
  expect(ordinal == 1, "it belongs to device %d", ordinal);
  OK("cuMemFree_v2", q);
  OK("cuMemFree_v2", p);                              // whatever context is current
}

static void strangersCannotReachIt() {
  int can = 1;
  OK("cuDeviceCanAccessPeer", &can, 0, 1);
  expect(!can, "peers");
  EXPECT_CODE(217, "cuCtxEnablePeerAccess", contexts[1], 0u);
  Device far = 0, near = upload(Ints(1000, 3));
  use(1);
  far = upload(Ints(1000, 4));
  use(0);
  EXPECT_CODE(1, "cuMemsetD32_v2", far, 0u, (size_t)1);
  // What its loads have found must not stay for the other device.
  launch("sim_copy", {4, 256}, near, near + 2000, 500);
  expectClean("its own memory");
  launch("sim_copy", {4, 256}, far, near, 1000);
  expectFinding("the other's", 700, "NO PEER ACCESS");
  OK("cuMemcpyDtoDAsync_v2", near, far, (size_t)4000, (void*)nullptr);    // a copy goes by way of the host
  expect(download<int>(near, 1000) == Ints(1000, 4), "copied");
  void* module = nullptr;
  use(1);
  void* f = loadCopy(&module);
  OK("cuCtxSynchronize");
  expect(launchCopy(f, nullptr, far, far + 2000, 500) == 0 && call("cuCtxSynchronize") == 0, "where it lies");
  OK("cuModuleUnload", module);
}

static void peersReachIt() {
  int can = 0;
  OK("cuDeviceCanAccessPeer", &can, 0, 1);
  expect(can, "no peers");
  Device near = allocate(4000);
  use(1);
  Device far = upload(Ints(1000, 4));
  use(0);
  launch("sim_copy", {4, 256}, far, near, 1000);      // only where it was asked for
  expectFinding("not enabled", 700, "NO PEER ACCESS");
  OK("cuCtxEnablePeerAccess", contexts[1], 0u);
  EXPECT_CODE(704, "cuCtxEnablePeerAccess", contexts[1], 0u);
  launch("sim_copy", {4, 256}, far, near, 1000);
  expectClean("enabled");
  expect(download<int>(near, 1000) == Ints(1000, 4), "copied");
  OK("cuCtxDisablePeerAccess", contexts[1]);
  launch("sim_copy", {4, 256}, far, near, 1000);
  expectFinding("not any more", 700, "NO PEER ACCESS");
  EXPECT_CODE(705, "cuCtxDisablePeerAccess", contexts[1]);
}

static void handlesBelongToADevice() {
  void *stream = nullptr, *event = nullptr, *module = nullptr;
  Device cells = allocate(4000);
  OK("cuStreamCreate", &stream, 1u);
  void* f = loadCopy(&module);
  use(1);
  OK("cuEventCreate", &event, 2u);
  EXPECT_CODE(400, "cuEventRecord", event, stream);
  expect(launchCopy(f, nullptr, cells, cells, 0) == 400, "a kernel of the other device");
  expect(launchCopy(f, stream, cells, cells, 0) == 0, "its stream, where another context is current");
  OK("cuStreamSynchronize", stream);
  OK("cuEventDestroy_v2", event);
  OK("cuModuleUnload", module);
  OK("cuStreamDestroy_v2", stream);
}

static void oneIsLostAlone() {
  Device near = allocate(64);
  call<void>("cudasim_fail", "cuMemGetInfo", 1, 700);
  use(1);
  size_t bytes;
  EXPECT_CODE(700, "cuMemGetInfo_v2", &bytes, &bytes);
  EXPECT_CODE(700, "cuCtxSynchronize");
  use(0);
  OK("cuCtxSynchronize");
  OK("cuMemFree_v2", near);
  call<void>("cudasim_reset");
  use(1);
  OK("cuCtxSynchronize");
}

#define TWO(settings, test) [] { onTwo("devices=2," settings, test); }
extern const std::vector<Case> deviceCases = {{"DevicesAreTold", TWO("peers=0", devicesAreTold)},
                                              {"EachHasItsMemory", TWO("memory=64m", eachHasItsMemory)},
                                              {"StrangersCannotReachIt", TWO("peers=0", strangersCannotReachIt)},
                                              {"PeersReachIt", TWO("peers=1", peersReachIt)},
                                              {"HandlesBelongToADevice", TWO("peers=0", handlesBelongToADevice)},
                                              {"OneIsLostAlone", TWO("peers=0", oneIsLostAlone)}};
