// Counts of lines, settings, failures on purpose, and what the driver answers.
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim_test.h"

// --- Counts ----------------------------------------------------------------------------------------------------------

struct Traffic { uint64_t instructions, lanes, sectors, lines; };
struct Stats { uint64_t launches, threads; Traffic host[2], device[2]; uint64_t fresh, longest[2]; };

static Stats stats(const char* kernel) {
  Stats s = {};
  expect(call("cudasim_stats", kernel, &s) == 0, "no kernel %s", kernel);
  call<void>("cudasim_reset_stats");
  return s;
}

static void countLines() { expect(!call<const char*>("cudasim_config", "checks=all"), "settings"); }

static void linesOfKnownPatterns() {
  countLines();
  Device in = allocate(1 << 16), out = allocate(1 << 12);
  call<void>("cudasim_reset_stats");
  struct {
    int64_t offset, stride;
    uint64_t sectors, lines;
  } table[] = {{0, 4, 4, 1}, {64, 4, 4, 2},  {4, 4, 5, 2},     {0, 0, 1, 1},
               {0, 8, 8, 2}, {0, 32, 32, 8}, {0, 128, 32, 32}, {0, 256, 32, 32}};
  for (auto& p : table) {
    launch("sim_stride", {1, 32}, in + p.offset, p.stride, out);
    Traffic t = stats("sim_stride").device[0];
    expect(t.instructions == 1 && t.lanes == 32 && t.sectors == p.sectors && t.lines == p.lines,
           "offset %d, stride %d: %d instructions, %d lanes, %d sectors, %d lines", (int)p.offset, (int)p.stride,
           (int)t.instructions, (int)t.lanes, (int)t.sectors, (int)t.lines);
  }
  launch("sim_vectors", {1, 32}, in, out);
  Stats s = stats("sim_vectors");
  expect(s.device[0].lines == 4 && s.device[0].sectors == 16 && s.device[0].instructions == 1,
         "16-byte loads: %d lines", (int)s.device[0].lines);
  expect(s.device[1].lines == 4 && s.device[1].instructions == 1, "16-byte stores: %d lines", (int)s.device[1].lines);
}

static void hostAndDeviceAreCountedApart() {
  countLines();
  int* host = nullptr;
  OK("cuMemHostAlloc", (void**)&host, (size_t)4096, 3u);
  Device out = allocate(4096);
  call<void>("cudasim_reset_stats");
  launch("sim_copy", {4, 256}, (Device)host, out, 1000);
  launch("sim_copy", {4, 256}, (Device)host, out, 1000);
  uint64_t around[8];
  expect(call("cudasim_traffic", (Device)host, around) == 0 && around[3] == 64 && around[7] == 0,
         "lines of the host range: %d", (int)around[3]);
  Stats s = stats("sim_copy");
  expect(s.launches == 2 && s.threads == 2048, "%d launches, %d threads", (int)s.launches, (int)s.threads);
  expect(s.host[0].lines == 64 && s.host[1].lines == 0, "host: %d lines read", (int)s.host[0].lines);
  expect(s.device[0].lines == 0 && s.device[1].lines == 64, "device: %d lines written", (int)s.device[1].lines);
  expect(s.fresh == 4000, "%d bytes of the host were read, once or more", (int)s.fresh);
  expect(s.longest[0] == 2 && s.longest[1] == 0, "a warp reads %d and %d times", (int)s.longest[0], (int)s.longest[1]);
  s = stats("sim_copy");
  expect(!s.launches && !s.fresh && !s.longest[0], "reset");
  OK("cuMemFreeHost", (void*)host);
}

static void linesOfAGather(const char* kernel, int words, double want) {
  const int rows = 2000, nodes = 10000;
  Ints ids(rows);
  unsigned r = 7;
  for (int& id : ids) id = (r = r * 1664525u + 1013904223u) % nodes;
  std::vector<float> table((size_t)nodes * words);
  for (size_t i = 0; i < table.size(); i++) table[i] = i;
  Device t = upload(table), i = upload(ids), o = allocate((size_t)rows * words * 4);
  launch(kernel, {rows / 8, 256}, t, i, o, rows, words);
  expectClean(kernel);
  auto out = download<float>(o, (size_t)rows * words);
  for (int k = 0; k < rows; k++)
    expect(!memcmp(&out[(size_t)k * words], &table[(size_t)ids[k] * words], words * 4), "row %d", k);
  uint64_t around[8];
  call("cudasim_traffic", t, around);
  double lines = (double)around[3] / rows;
  expect(lines > want - 0.15 && lines < want + 0.15, "%s, %d bytes a row: %.3f lines, want %.1f", kernel, words * 4,
         lines, want);
}
static void linesOfGathers() {                        // of rows at random places: the figures of the model
  countLines();
  linesOfAGather("sim_gather", 129, 8.9);
  linesOfAGather("sim_gather_aligned", 129, 5.0);
  linesOfAGather("sim_gather", 128, 4);
  linesOfAGather("sim_gather_aligned", 128, 4);
  linesOfAGather("sim_gather_aligned", 1, 1);
}

static void linesUnderDivergence() {
  countLines();
  const int n = 40;
  Device p = upload(std::vector<float>(n * 32)), q = upload(std::vector<float>(n * 64)), o = allocate(128);
  launch("sim_diverge", {1, 32}, p, q, o, n);
  expectClean("diverge");
  uint64_t a[8], b[8];
  call("cudasim_traffic", p, a);
  call("cudasim_traffic", q, b);
  expect(a[0] == n && a[3] == n, "p: %d loads, %d lines", (int)a[0], (int)a[3]);
  expect(b[0] == b[3] && b[0] == n + 31, "q: %d loads, %d lines", (int)b[0], (int)b[3]);
}

extern const std::vector<Case> countCases = {
  {"LinesOfKnownPatterns", linesOfKnownPatterns}, {"HostAndDeviceAreCountedApart", hostAndDeviceAreCountedApart},
  {"LinesOfGathers", linesOfGathers}, {"LinesUnderDivergence", linesUnderDivergence}};

// --- Settings --------------------------------------------------------------------------------------------------------

static uint64_t scheduleOf(const char* settings) {
  expect(!call<const char*>("cudasim_config", settings), "settings");
  Ints in(1000, 1);
  Device a = upload(in), b = allocate(4000);
  for (int i = 0; i < 3; i++) launch("sim_scan", {4, 256}, a, b, 1000);
  expectClean("scan");
  return call<uint64_t>("cudasim_schedule");
}
static void aSeedIsASchedule() {
  uint64_t seven = scheduleOf("order=random,seed=7"), again = scheduleOf("order=random,seed=7"),
           eight = scheduleOf("order=random,seed=8");
  expect(seven == again, "the same seed gave another schedule");
  expect(seven != eight, "another seed gave the same schedule");
  expect(scheduleOf("order=forward") != scheduleOf("order=reverse"), "forward is reverse");
}

static void ordersAreWhatTheySay() {
  const int n = 512;
  auto turns = [&](const char* settings) {            // which thread came when
    call<const char*>("cudasim_config", settings);
    Device counter = upload(Ints(1, 0)), out = allocate(n * 4);
    launch("sim_turns", {4, 128}, counter, out);
    return download<int>(out, n);
  };
  Ints forward = turns("order=forward"), reverse = turns("order=reverse"), random = turns("order=random");
  for (int i = 0; i < n; i++)
    expect(forward[i] == i && reverse[i] == n - 1 - i, "thread %d: %d forward, %d in reverse", i, forward[i],
           reverse[i]);
  Ints seen(n, 0);
  int moved = 0;
  for (int i = 0; i < n; i++) seen[random[i]]++, moved += random[i] != i;
  expect(seen == Ints(n, 1) && moved > n / 2, "random: %d moved", moved);
}

static void wrongSettingsAreRefused() {
  for (const char* wrong : {"order=sideways", "seed", "seed=", "checks=some", "colour=red", "memory=8q"})
    expect(call<const char*>("cudasim_config", wrong), "%s was taken", wrong);
  expect(!call<const char*>("cudasim_config", "checks=addresses+races,memory=8g,attr113=0,driver=11080"),
         "right settings");
}

static void settingsCanBeRestored() {
  call<const char*>("cudasim_config", "order=reverse,seed=9,checks=addresses+lines,memory=8g,attr113=0,driver=11080");
  std::string saved = call<const char*>("cudasim_settings");
  call<void>("cudasim_defaults");
  expect(saved != call<const char*>("cudasim_settings"), "defaults");
  expect(!call<const char*>("cudasim_config", saved.c_str()), "%s is refused", saved.c_str());
  expect(saved == call<const char*>("cudasim_settings"), "%s became %s", saved.c_str(),
         call<const char*>("cudasim_settings"));
}

static void theDeviceIsWhatSettingsSay() {
  int v = -1;
  size_t free = 0, total = 0;
  call<const char*>("cudasim_config", "memory=8m,attr16=7,driver=10020");
  OK("cuDriverGetVersion", &v);
  expect(v == 10020, "driver %d", v);
  OK("cuDeviceGetAttribute", &v, 16, 0);
  expect(v == 7, "%d multiprocessors", v);
  Device big = 0;
  allocate(4 << 20);  // half of it
  EXPECT_CODE(2, "cuMemAlloc_v2", &big, (size_t)8 << 20);
  OK("cuMemGetInfo_v2", &free, &total);
  expect(total == 8 << 20 && free == 4 << 20, "%zu of %zu free", free, total);
}

static void addressesDoNotRunOut() {
  Device p = 0;
  for (int i = 0; i < 300; i++) {                     // more than the 128 GiB of addresses that there are
    OK("cuMemAlloc_v2", &p, (size_t)1 << 30);
    OK("cuMemFree_v2", p);
  }
  for (int i = 0; i < 300; i++) {                     // other sizes, so that new ranges lie across old ones
    OK("cuMemAlloc_v2", &p, ((size_t)1 << 30) + i * 5000000);
    OK("cuMemFree_v2", p);
  }
  Device far = allocate((size_t)3 << 30), in = far + ((size_t)2 << 30), out = upload(Ints(1000, 0));
  OK("cuMemsetD32_v2", in, 3u, (size_t)1000);
  launch("sim_copy", {4, 256}, in, out, 1000);
  expectClean("copy in addresses that were used before");
  expect(download<int>(out, 1000) == Ints(1000, 3), "copied");
  launch("sim_copy", {4, 256}, p, out, 1000);
  expectFinding("freed", 700, "USE AFTER FREE");
}

static void checksCanBeLeftOut() {
  Device counter = upload(Ints(1, 0));
  call<const char*>("cudasim_config", "checks=addresses");
  launch("sim_count_plain", {8, 32}, counter);
  expectClean("no race check");
  call<const char*>("cudasim_config", "checks=races");
  launch("sim_count_plain", {8, 32}, counter);
  expectFinding("race check", 719, "RACE");
}

// --- Failures on purpose ---------------------------------------------------------------------------------------------

static void callsFailOnPurpose() {
  Device p = 0;
  Ints memory(64);
  call<void>("cudasim_fail", "cuMemAlloc", 2, 2);
  call<void>("cudasim_fail", "cuMemHostRegister_v2", 1, 801);
  OK("cuMemAlloc_v2", &p, (size_t)64);
  OK("cuMemFree_v2", p);
  EXPECT_CODE(2, "cuMemAlloc_v2", &p, (size_t)64);
  OK("cuMemAlloc_v2", &p, (size_t)64);
  OK("cuMemFree_v2", p);
  EXPECT_CODE(801, "cuMemHostRegister_v2", (void*)memory.data(), (size_t)256, 0u);
  expect(call<int>("cudasim_findings") == 0, "a failure on purpose is no finding");
}

static void theDeviceIsLostOnPurpose() {
  Device cells = upload(Ints(100, 0));
  call<void>("cudasim_fail", "kernel:sim_increment", 3, 700);
  for (int i = 0; i < 2; i++) {
    launch("sim_increment", {1, 128}, cells, 100);
    OK("cuCtxSynchronize");
  }
  launch("sim_increment", {1, 128}, cells, 100);
  EXPECT_CODE(700, "cuCtxSynchronize");
  Device p = 0;
  EXPECT_CODE(700, "cuMemAlloc_v2", &p, (size_t)64);       // and so on, for every call
  EXPECT_CODE(700, "cuMemFree_v2", cells);                 // which frees nevertheless
  call<void>("cudasim_reset");
  OK("cuMemAlloc_v2", &p, (size_t)64);
  OK("cuMemFree_v2", p);
  EXPECT_CODE(1, "cuMemFree_v2", cells);
  call<void>("cudasim_fail", "cuMemGetInfo", 1, 719);      // any call can be the one that loses it
  size_t bytes;
  EXPECT_CODE(719, "cuMemGetInfo_v2", &bytes, &bytes);
  EXPECT_CODE(719, "cuCtxSynchronize");
  call<void>("cudasim_reset");
  OK("cuCtxSynchronize");
}

// --- What the driver answers -----------------------------------------------------------------------------------------

static void modulesAreRead() {
  void *m = nullptr, *f = nullptr;
  EXPECT_CODE(200, "cuModuleLoadData", &m, (const void*)"no PTX");
  std::string ptx =
      ".version 7.8\n.visible .entry sim_count(\n\t.param .u64 sim_count_param_0\n)\n.maxntid 64, 2, "
      "1\n{\nret;\n}\n.entry unknown_kernel()\n{\n}\n";
  OK("cuModuleLoadData", &m, (const void*)ptx.c_str());
  OK("cuModuleGetFunction", &f, m, "sim_count");
  int v = 0;
  OK("cuFuncGetAttribute", &v, 0, f);
  expect(v == 128, "at most %d threads", v);
  Device counter = upload(Ints(1, 0));
  void* params[] = {&counter};
  EXPECT_CODE(1, "cuLaunchKernel", f, 1u, 1u, 1u, 256u, 1u, 1u, 0u, (void*)nullptr, (void**)params, (void**)nullptr);
  EXPECT_CODE(1, "cuLaunchKernel", f, 1u, 1u, 1u, 32u, 1u, 1u, 65536u, (void*)nullptr, (void**)params, (void**)nullptr);
  OK("cuFuncSetAttribute", f, 8, 65536);
  OK("cuLaunchKernel", f, 1u, 1u, 1u, 32u, 1u, 1u, 65536u, (void*)nullptr, (void**)params, (void**)nullptr);
  OK("cuFuncSetAttribute", f, 8, 49152);
  expectClean("a launch");
  EXPECT_CODE(500, "cuModuleGetFunction", &f, m, "sim_copy");
  EXPECT_CODE(500, "cuModuleGetFunction", &f, m, "unknown_kernel");
  call<void>("cudasim_reset");
  OK("cuModuleUnload", m);
  std::string stale = ".version 7.8\n.visible .entry sim_count(\n\t.param .u64 a,\n\t.param .u64 b\n)\n{\n}\n";
  EXPECT_CODE(218, "cuModuleLoadData", &m, (const void*)stale.c_str());
  expectFinding("stale", 218, "STALE PTX");
}

static void registrationFollowsLinux() {
  const size_t bytes = 65536;
  char path[] = "/tmp/cudasim-test-XXXXXX";
  int fd = mkstemp(path);
  expect(fd >= 0 && ftruncate(fd, bytes) == 0, "a file");
  auto code = [&](int rights, int kind, int f, unsigned flags) {
    void* p = mmap(nullptr, bytes, rights, kind, f, 0);
    int rc = call("cuMemHostRegister_v2", p, bytes, flags);
    if (!rc) call("cuMemHostUnregister", p);
    munmap(p, bytes);
    return rc;
  };
  expect(code(PROT_READ, MAP_SHARED, fd, 8) == 0, "read-only file, read-only");
  expect(code(PROT_READ, MAP_SHARED, fd, 0) == 1, "read-only file, for writing");
  expect(code(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == 0, "anonymous memory");
  int memory = memfd_create("test", 0);
  expect(ftruncate(memory, bytes) == 0 && code(PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0) == 0, "memfd");
  call<const char*>("cudasim_config", "attr113=0");
  expect(code(PROT_READ, MAP_SHARED, fd, 8) == 801, "attribute 113");
  void* gone = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(gone, bytes);
  EXPECT_CODE(1, "cuMemHostRegister_v2", gone, bytes, 0u);
  close(fd);
  close(memory);
  unlink(path);
}

static void pageableMemoryWhereAllowed() {
  Ints memory(1000, 4);
  Device out = allocate(4000);
  call<const char*>("cudasim_config", "attr100=1");
  launch("sim_copy", {4, 256}, (Device)memory.data(), out, 1000);
  expectClean("host page tables");
  expect(download<int>(out, 1000) == memory, "copied");
}

// Whether this process may read an address, without a fault: a system call that reads it says so.
static bool readable(Device p) {
  int fd[2];
  expect(pipe(fd) == 0, "pipe");
  bool yes = write(fd[1], (void*)p, 4) == 4;
  close(fd[0]);
  close(fd[1]);
  return yes;
}
static void theHostCannotTouchTheDevice() {
  call<const char*>("cudasim_config", "checks=default+host");
  Device p = upload(Ints(1000, 7)), managed = 0;
  expect(!readable(p), "device memory is readable");
  OK("cuMemAllocManaged", &managed, (size_t)4000, 1u);
  expect(readable(managed), "managed memory is not readable");
  launch("sim_copy", {4, 256}, p, managed, 1000);
  expectClean("copy");
  expect(*(int*)managed == 7 && !readable(p), "after a kernel");
  OK("cuMemFree_v2", managed);
  call<const char*>("cudasim_config", "checks=none");
  launch("sim_copy", {4, 256}, p, p, 0);
  expect(readable(p), "without checks");
}

static void* withoutContext(void* code) {
  Device p = 0;
  *(int*)code = call("cuMemAlloc_v2", &p, (size_t)64);
  return nullptr;
}
static void threadsNeedAContext() {
  pthread_t t;
  int code = 0;
  pthread_create(&t, nullptr, withoutContext, &code);
  pthread_join(t, nullptr);
  expect(code == 201, "code %d", code);
}

static void pointersAreKnown() {
  Device p = allocate(1000), at = 0;
  unsigned kind = 0;
  OK("cuPointerGetAttribute", (void*)&kind, 2, p + 10);
  expect(kind == 2, "kind %u", kind);
  size_t bytes = 0;
  OK("cuMemGetAddressRange_v2", &at, &bytes, p + 999);
  expect(at == p && bytes == 1000, "range");
  int local = 0;
  EXPECT_CODE(1, "cuPointerGetAttribute", (void*)&kind, 2, (Device)&local);
  const char* name = nullptr;
  OK("cuGetErrorName", 700, &name);
  expect(!strcmp(name, "CUDA_ERROR_ILLEGAL_ADDRESS"), "%s", name);
}

static size_t freeMemory() {
  size_t left = 0, total = 0;
  OK("cuMemGetInfo_v2", &left, &total);
  return left;
}
static void memoryIsTakenInPages() {
  const size_t page = 2 << 20, before = freeMemory();
  Device a = allocate(5), b = allocate(1000);
  expect(before - freeMemory() == page, "two small ones take %d bytes", (int)(before - freeMemory()));
  Device c = allocate(page + 1);
  expect(before - freeMemory() == 3 * page, "with a large one %d bytes", (int)(before - freeMemory()));
  launch("sim_copy", {1, 256}, c, b, 251);            // bounds are those that were asked for
  expectFinding("251 of 250 words", 700, "OUT OF BOUNDS");
  for (Device p : {a, b, c}) OK("cuMemFree_v2", p);
  expect(freeMemory() == before, "not all is free again");
}

static void pageableMemoryIsReadLate() {
  void* stream = nullptr;
  OK("cuStreamCreate", &stream, 1u);
  for (size_t words : {1000, 100000}) {
    Ints memory(words, 1);
    Device p = allocate(words * 4);
    OK("cuMemcpyHtoDAsync_v2", p, (const void*)memory.data(), words * 4, stream);
    memory[0] = 2;                                    // too early, where the copy is larger than what is staged at once
    OK("cuStreamSynchronize", stream);
    expect(download<int>(p, 1)[0] == (words > 16384 ? 2 : 1), "%d words: %d", (int)words, download<int>(p, 1)[0]);
  }
  const size_t bytes = 1 << 20;
  Device p = allocate(bytes);
  void* gone = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  OK("cuMemcpyHtoDAsync_v2", p, (const void*)gone, bytes, stream);
  munmap(gone, bytes);
  expectFinding("unmapped", 700, "MEMORY THAT IS GONE");
  OK("cuStreamDestroy_v2", stream);
}

static void nothingIsLeft() {
  freeAll();
  uint64_t live[6];
  call<void>("cudasim_live", live);
  expect(live[0] == 0 && live[1] == 0 && live[2] == 0 && live[3] == 0 && live[4] == 1 && live[5] == 0,
         "alive: %d allocations, %d host ranges, %d streams, %d events, %d modules", (int)live[0], (int)live[1],
         (int)live[2], (int)live[3], (int)live[4]);
}

extern const std::vector<Case> driverCases = {{"ASeedIsASchedule", aSeedIsASchedule},
                                              {"OrdersAreWhatTheySay", ordersAreWhatTheySay},
                                              {"WrongSettingsAreRefused", wrongSettingsAreRefused},
                                              {"SettingsCanBeRestored", settingsCanBeRestored},
                                              {"TheDeviceIsWhatSettingsSay", theDeviceIsWhatSettingsSay},
                                              {"AddressesDoNotRunOut", addressesDoNotRunOut},
                                              {"ChecksCanBeLeftOut", checksCanBeLeftOut},
                                              {"CallsFailOnPurpose", callsFailOnPurpose},
                                              {"TheDeviceIsLostOnPurpose", theDeviceIsLostOnPurpose},
                                              {"ModulesAreRead", modulesAreRead},
                                              {"RegistrationFollowsLinux", registrationFollowsLinux},
                                              {"PageableMemoryWhereAllowed", pageableMemoryWhereAllowed},
                                              {"TheHostCannotTouchTheDevice", theHostCannotTouchTheDevice},
                                              {"ThreadsNeedAContext", threadsNeedAContext},
                                              {"PointersAreKnown", pointersAreKnown},
                                              {"MemoryIsTakenInPages", memoryIsTakenInPages},
                                              {"PageableMemoryIsReadLate", pageableMemoryIsReadLate},
                                              {"NothingIsLeft", nothingIsLeft}};
