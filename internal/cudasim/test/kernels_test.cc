// Bugs planted in kernels and in the memory that they are given, each beside a right counterpart that must not be
// reported.
#include <sys/mman.h>

#include <map>

#include "sim_test.h"

static const int n = 1000;

// --- Memory ----------------------------------------------------------------------------------------------------------

static void readPastTheEnd() {
  Device in = upload(Ints(n, 1)), out = allocate(n * 4);
  launch("sim_copy", {4, 256}, in, out, n);
  expectClean("copy");
  expect(download<int>(out, n) == Ints(n, 1), "copied");
  launch("sim_copy_past_end", {4, 256}, in, out, n);
  expectFinding("past the end", 700, "OUT OF BOUNDS: byte 4000 of an allocation of 4000");
  launch("sim_copy_past_end", {4, 256}, in, out, n);
  expectFinding("where", 700, "(internal/cudasim/testdata/copy.cu:");
}

static void useAfterFree() {
  Device in = upload(Ints(n, 1)), out = allocate(n * 4);
  launch("sim_copy", {4, 256}, in, out, n);
  expectClean("before");
  OK("cuMemFree_v2", in);
  launch("sim_copy", {4, 256}, in, out, n);
  expectFinding("after free", 700, "USE AFTER FREE");
  for (int i = 0; i < 1000; i++) {                    // a freed address is not used again soon
    Device p = 0;
    OK("cuMemAlloc_v2", &p, (size_t)4000);
    expect(p != in, "the freed address was used again");
    OK("cuMemFree_v2", p);
  }
  launch("sim_copy", {4, 256}, in, out, n);
  expectFinding("long after free", 700, "USE AFTER FREE");
}

static void unregisteredHostMemory() {
  static Ints memory(n, 3);
  Device out = allocate(n * 4), at = 0;
  launch("sim_copy", {4, 256}, (Device)memory.data(), out, n);
  expectFinding("not registered", 700, "is a host pointer not registered?");
  OK("cuMemHostRegister_v2", (void*)memory.data(), (size_t)n * 4, 0u);
  OK("cuMemHostGetDevicePointer_v2", &at, (void*)memory.data(), 0u);
  launch("sim_copy", {4, 256}, at, out, n);
  expectClean("registered");
  expect(download<int>(out, n) == memory, "read over the bus");
  launch("sim_copy", {4, 256}, at, out, n + 1);
  expectFinding("registered, past the end", 700, "OUT OF BOUNDS");
  void* stream = nullptr;
  OK("cuStreamCreate", &stream, 1u);
  launch("sim_copy", {4, 256, 0, stream}, at, out, n);
  OK("cuMemHostUnregister", (void*)memory.data());
  expectFinding("unregistered too early", 700, "USE AFTER UNREGISTER");
  OK("cuStreamDestroy_v2", stream);
}

static void manyRegisteredRanges() {
  const int count = 3000;
  std::vector<Ints> ranges(count, Ints(64, 2));
  for (auto& r : ranges) OK("cuMemHostRegister_v2", (void*)r.data(), r.size() * 4, 0u);
  Device out = allocate(256);
  for (int i = 0; i < count; i += 100) launch("sim_copy", {1, 64}, (Device)ranges[i].data(), out, 64);
  expectClean("one of many ranges");
  EXPECT_CODE(712, "cuMemHostRegister_v2", (void*)(ranges[7].data() + 8), (size_t)16, 0u);
  for (auto& r : ranges) OK("cuMemHostUnregister", (void*)r.data());
}

static void writeToReadOnlyMemory() {
  static Ints memory(n, 3);
  Device other = upload(Ints(n, 1));
  OK("cuMemHostRegister_v2", (void*)memory.data(), (size_t)n * 4, 8u);
  launch("sim_copy", {4, 256}, (Device)memory.data(), other, n);
  expectClean("read");
  launch("sim_copy", {4, 256}, other, (Device)memory.data(), n);
  expectFinding("write", 700, "WRITE TO READ-ONLY");
  OK("cuMemHostUnregister", (void*)memory.data());
}

static void misalignedVector() {
  Device in = upload(std::vector<float>(256, 1)), out = allocate(128);
  launch("sim_vector", {1, 32}, in, out, 4);
  expectClean("aligned");
  launch("sim_vector", {1, 32}, in, out, 1);
  expectFinding("misaligned", 716, "MISALIGNED read of 16");
}

static void halfWords() {
  std::vector<uint16_t> v(n);
  for (int i = 0; i < n; i++) v[i] = i;
  Device in = upload(v), out = allocate(n * 2);
  launch("sim_copy16", {4, 256}, in, out, n);
  expectClean("copy of 2-byte words");
  expect(download<uint16_t>(out, n) == v, "copied");
}

extern const std::vector<Case> memoryCases = {{"ReadPastTheEnd", readPastTheEnd},
                                              {"UseAfterFree", useAfterFree},
                                              {"UnregisteredHostMemory", unregisteredHostMemory},
                                              {"ManyRegisteredRanges", manyRegisteredRanges},
                                              {"WriteToReadOnlyMemory", writeToReadOnlyMemory},
                                              {"MisalignedVector", misalignedVector}};

// --- Races -----------------------------------------------------------------------------------------------------------

static void racesBetweenBlocks() {
  Device counter = upload(Ints(1, 0)), cells = upload(Ints(64, 1)), out = allocate(256 * 4);
  launch("sim_count", {8, 32}, counter);
  launch("sim_own_block", {8, 32}, cells, out);
  expectClean("atomic, own cells");
  expect(download<int>(counter, 1)[0] == 8, "count");
  launch("sim_count_plain", {8, 32}, counter);
  expectFinding("plain counter", 719, "RACE");
  launch("sim_count_and_read", {4, 64}, counter, out);
  expectFinding("atomic and plain", 719, "RACE");
  launch("sim_next_block", {8, 32}, cells);
  expectFinding("other block's cell", 719, "RACE");
}

static void racesInAWarp() {
  Device cells = upload(Ints(64, 0));
  launch("sim_bytes", {1, 32}, cells);
  expectClean("bytes of a word");
  launch("sim_two_lanes", {1, 32}, cells);
  expectFinding("two lanes", 719, "RACE");
}

static void launchesOfOneStreamAreOrdered() {
  Device cells = upload(Ints(n, 0));
  for (int i = 0; i < 10; i++) launch("sim_increment", {4, 256}, cells, n);
  expectClean("ten launches");
  expect(download<int>(cells, n) == Ints(n, 10), "ten increments");
}

extern const std::vector<Case> raceCases = {{"RacesBetweenBlocks", racesBetweenBlocks}, {"RacesInAWarp", racesInAWarp}};

// --- Barriers and shared memory --------------------------------------------------------------------------------------

static void missingSyncthreads() {
  Ints in(n), want(n);
  for (int i = 0; i < n; i++) {
    in[i] = i % 7 + 1;
    want[i] = in[i] + (i % 256 ? want[i - 1] : 0);
  }
  Device a = upload(in), b = allocate(n * 4);
  for (const char* right : {"sim_scan", "sim_scan_shuffle"}) {
    launch(right, {4, 256, 32}, a, b, n);
    expectClean(right);
    expect(download<int>(b, n) == want, "%s is wrong", right);
  }
  for (const char* wrong : {"sim_scan_no_first", "sim_scan_no_second", "sim_scan_no_third"}) {
    launch(wrong, {4, 256}, a, b, n);
    expectFinding(wrong, 719, "RACE");
  }
}

static void missingSyncwarp() {
  Device out = allocate(512);
  launch("sim_exchange", {2, 64, 256}, out);
  expectClean("exchange");
  for (const char* wrong : {"sim_exchange_no_syncwarp", "sim_exchange_shuffle"}) {
    launch(wrong, {2, 64, 256}, out);
    expectFinding(wrong, 719, "RACE");
  }
}

static void divergentBarrier() {
  Device out = allocate(512);
  launch("sim_early_return", {1, 64}, out);
  expectClean("early return");
  launch("sim_divergent_barrier", {1, 64}, out);
  expectFinding("two barriers", 719, "DIVERGENT");
}

static void wrongMasks() {
  Device out = allocate(512);
  launch("sim_full_mask", {1, 64}, out);
  expectClean("full mask");
  launch("sim_lane_missing", {1, 32}, out);
  expectFinding("a lane never comes", 702, "DEADLOCK");
  launch("sim_mask_lacks_caller", {1, 32}, out);
  expectFinding("caller not in mask", 719, "lacks the calling lane");
  launch("sim_shuffle_from_outside", {1, 32}, out);
  expectFinding("shuffle from outside", 719, "DOES NOT TAKE PART");
}

static void uninitialisedShared() {
  Device out = allocate(512);
  launch("sim_shared", {2, 64}, out);
  expectFinding("two blocks write one output", 719, "RACE");
  launch("sim_shared", {1, 64}, out);
  launch("sim_shared_count", {1, 64}, out);
  expectClean("shared");
  for (const char* wrong : {"sim_shared_uninitialised", "sim_shared_count_uninitialised"}) {
    launch(wrong, {1, 64}, out);
    expectFinding(wrong, 719, "UNINITIALISED");
  }
}

static void sharedPastTheEnd() {
  Device out = allocate(512);
  launch("sim_shared_past_end", {1, 32}, out);
  expectFinding("static", 700, "OUT OF BOUNDS of shared");
  launch("sim_dynamic_past_end", {1, 64, 256}, out);
  expectFinding("dynamic", 700, "OUT OF BOUNDS of shared");
  launch("sim_dynamic_past_end", {1, 64, 260}, out);
  expectClean("one more cell");
}

extern const std::vector<Case> barrierCases = {
    {"MissingSyncthreads", missingSyncthreads},   {"MissingSyncwarp", missingSyncwarp},
    {"DivergentBarrier", divergentBarrier},       {"WrongMasks", wrongMasks},
    {"UninitialisedShared", uninitialisedShared}, {"SharedPastTheEnd", sharedPastTheEnd}};

// --- Results ---------------------------------------------------------------------------------------------------------

static void intrinsics() {
  Device o = allocate(64 * 14 * 8), c = upload(Ints{-1000, 1000, 0, 0}), w = upload(std::vector<Device>{0, 5, 5000}),
         f = upload(Ints{0});
  launch("sim_intrinsics", {1, 64}, o, c, w, f);
  expectClean("intrinsics");
  auto v = download<Device>(o, 64 * 14);
  expect(download<int>(c, 4) == Ints({-37, -100, 7, -1}), "32-bit atomics");
  expect(download<Device>(w, 3) == std::vector<Device>({64ull << 33, 9, 937}), "64-bit atomics");
  for (int t = 0; t < 64; t++) {
    int lane = t & 31, like = 0;
    for (int l = 0; l < 32; l++) like += ((t & ~31) + l) % 5 == t % 5;
    volatile double product = t * 0.1;
    unsigned reversed = 0;
    for (int i = 0; i < 32; i++) reversed |= ((unsigned)t << 26 >> i & 1) << (31 - i);
    Device want[14] = {(Device)(lane + 3 < 32 ? t + 3 : t),
                       (Device)((t ^ 5) * 5),
                       (Device)((t & ~7) + (lane + 1) % 8),
                       (Device)((t >= 32) | (t >= 32) << 1),
                       22,
                       3,
                       (Device)(__builtin_popcount(t) | __builtin_ffs(t) << 8 | (t ? __builtin_clz(t) : 32) << 16),
                       (Device)((unsigned __int128)(0x9e3779b97f4a7c15ull * (t + 1)) * 0xc2b2ae3d27d4eb4full >> 64),
                       (Device)(product * 1e15),
                       (Device)(lane < 16 ? (t & ~31) + 15 - lane : (t & ~31) + 31),
                       1,
                       1064,
                       (Device)like,
                       (Device)t * (t & 1 ? 5 : 3) + __builtin_popcountll(0xffull << t) + (t & 31) + 1 +
                           (t ? __builtin_clzll(t) : 64) + reversed};
    for (int k = 0; k < 14; k++)
      expect(v[t * 14 + k] == want[k], "word %d of thread %d: %llu, want %llu", k, t, v[t * 14 + k], want[k]);
  }
}

static void twoDimensions() {
  Device out = allocate(32 * 16 * 4);
  uint64_t width = 32;
  void* params[] = {&out, &width};
  OK("cuLaunchKernel", kernel("sim_two_dimensions"), 4u, 4u, 1u, 8u, 4u, 1u, 0u, (void*)nullptr, (void**)params,
     (void**)nullptr);
  expectClean("two dimensions");
  auto v = download<int>(out, 32 * 16);
  for (int y = 0; y < 16; y++)
    for (int x = 0; x < 32; x++) expect(v[y * 32 + x] == y * 1000 + x, "(%d, %d) is %d", x, y, v[y * 32 + x]);
}

static void hashTable() {
  const int keys = 5000, capacity = 8192;
  std::vector<unsigned> k(keys);
  for (int i = 0; i < keys; i++) k[i] = (unsigned)(i * 2654435761u) % 1500;
  Device dk = upload(k), table = upload(std::vector<unsigned>(capacity, ~0u)),
         first = upload(std::vector<unsigned>(capacity, ~0u));
  Device slot = allocate(keys * 4);
  launch("sim_unique", {20, 256}, dk, table, first, slot, keys, capacity - 1);
  expectClean("insert");
  auto s = download<unsigned>(slot, keys), f = download<unsigned>(first, capacity);
  std::map<unsigned, unsigned> seen;
  for (int i = 0; i < keys; i++)
    expect(f[s[i]] == seen.emplace(k[i], i).first->second, "first position of key %u", k[i]);
}

extern const std::vector<Case> resultCases = {{"HalfWords", halfWords},
                                              {"LaunchesOfOneStreamAreOrdered", launchesOfOneStreamAreOrdered},
                                              {"Intrinsics", intrinsics},
                                              {"TwoDimensions", twoDimensions},
                                              {"HashTable", hashTable}};
