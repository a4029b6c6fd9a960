// Streams, events and copies: waits that are missing, and those that are there.
#include "sim_test.h"

static const int n = 1000;

// Two streams that do not wait for the default stream, and an event.
struct Streams {
  void *a = nullptr, *b = nullptr, *event = nullptr;
  Streams() {
    OK("cuStreamCreate", &a, 1u);
    OK("cuStreamCreateWithPriority", &b, 1u, -1);
    OK("cuEventCreate", &event, 2u);
  }
  ~Streams() {
    OK("cuStreamDestroy_v2", a);
    OK("cuStreamDestroy_v2", b);
    OK("cuEventDestroy_v2", event);
  }
};

struct Pinned {
  int* p = nullptr;
  explicit Pinned(int count, int value) {
    OK("cuMemHostAlloc", (void**)&p, (size_t)count * 4, 3u);
    for (int i = 0; i < count; i++) p[i] = value;
  }
  ~Pinned() { OK("cuMemFreeHost", (void*)p); }
};

static void missingStreamWait() {
  Streams s;
  Device a = upload(Ints(n, 7)), b = upload(Ints(n, 0)), c = upload(Ints(n, 0));
  for (int wait = 1; wait >= 0; wait--) {
    launch("sim_copy", {4, 256, 0, s.a}, a, b, n);
    OK("cuEventRecord", s.event, s.a);
    if (wait) OK("cuStreamWaitEvent", s.b, s.event, 0u);
    launch("sim_copy", {4, 256, 0, s.b}, b, c, n);
    if (!wait) {
      expectFinding("no wait", 719, "RACE");
      continue;
    }
    OK("cuStreamSynchronize", s.b);
    expect(download<int>(c, n) == Ints(n, 7), "copied");
    expectClean("waits");
  }
}

static void overwritingWhatAnotherStreamReads() {
  Streams s;
  Device a = upload(Ints(n, 7)), b = upload(Ints(n, 0));
  launch("sim_copy", {4, 256, 0, s.a}, a, b, n);
  launch("sim_increment", {4, 256, 0, s.b}, a, n);
  expectFinding("no wait", 719, "RACE");
  launch("sim_copy", {4, 256, 0, s.a}, a, b, n);
  OK("cuStreamSynchronize", s.a);
  launch("sim_increment", {4, 256, 0, s.b}, a, n);
  expectClean("the host waits");
}

static void asynchronousCopies() {
  Streams s;
  Pinned host(n, 5), back(n, 0);
  Device a = upload(Ints(n, 0)), b = upload(Ints(n, 0));
  size_t bytes = n * 4;
  OK("cuMemcpyHtoDAsync_v2", a, (const void*)host.p, bytes, s.a);
  launch("sim_copy", {4, 256, 0, s.a}, a, b, n);
  OK("cuMemcpyDtoHAsync_v2", (void*)back.p, b, bytes, s.a);
  expect(back.p[0] == 0, "the copy ran before anybody waited");
  OK("cuStreamSynchronize", s.a);
  expect(back.p[n - 1] == 5, "copied there and back");
  expectClean("one stream");

  OK("cuMemcpyHtoDAsync_v2", a, (const void*)host.p, bytes, s.a);
  launch("sim_copy", {4, 256, 0, s.b}, a, b, n);
  expectFinding("kernel beside a copy", 719, "RACE");
  launch("sim_copy", {4, 256, 0, s.a}, a, b, n);
  OK("cuMemcpyDtoHAsync_v2", (void*)back.p, b, bytes, s.b);
  expectFinding("copy beside a kernel", 719, "RACE");
  OK("cuMemsetD32Async", a, 1u, (size_t)n, s.a);
  OK("cuMemsetD32Async", a, 2u, (size_t)n, s.b);
  expectFinding("two fills", 719, "RACE");
  launch("sim_copy", {4, 256, 0, s.a}, a, b, n);
  EXPECT_CODE(719, "cuMemcpyDtoH_v2", (void*)back.p, b, bytes);
  expectFinding("the host copies without waiting", 719, "RACE");
}

static void copiesOfABatchHaveNoOrder() {
  Streams s;
  Pinned host(n, 5);
  Device a = upload(Ints(n, 0)), both[] = {a, a + n * 2}, first[] = {a, a};
  Device from[] = {(Device)host.p, (Device)(host.p + n / 2)};
  size_t sizes[] = {n * 2, n * 2}, none[] = {0, n * 2}, start = 0, failed = 0;
  struct { int order, hints[4]; unsigned flags; } attributes = {1, {}, 0};
  auto copy = [&](int want, Device* to, size_t* bytes, void* stream) {
    EXPECT_CODE(want, "cuMemcpyBatchAsync", to, from, bytes, (size_t)2, (void*)&attributes, &start, (size_t)1, &failed,
                stream);
  };
  copy(801, both, sizes, s.a);                        // before CUDA 12.8
  call<const char*>("cudasim_config", "driver=12080");
  host.p[0] = 1, host.p[n / 2] = 2;
  copy(0, both, sizes, s.a);
  OK("cuStreamSynchronize", s.a);
  Ints got = download<int>(a, n);
  expect(got[0] == 1 && got[n / 2] == 2 && got[n - 1] == 5, "%d, %d and %d", got[0], got[n / 2], got[n - 1]);
  copy(0, first, sizes, s.a);                         // one over the other: no order says which
  OK("cuStreamSynchronize", s.a);
  expect(download<int>(a, 1)[0] == 1, "the first of the list ran first");
  copy(1, both, none, s.a);
  expect(failed == 0, "copy %d is of no bytes", (int)failed);
  copy(1, both, sizes, nullptr);                      // not for the legacy stream
  attributes.order = 0;
  copy(1, both, sizes, s.a);
  call<const char*>("cudasim_config", "driver=12040");
  expectClean("batches of copies");
}

static void memoryGoneBeforeACopyRuns() {
  Streams s;
  Ints memory(n, 1);
  Device a = upload(Ints(n, 0));
  OK("cuMemHostRegister_v2", (void*)memory.data(), (size_t)n * 4, 0u);
  OK("cuMemcpyHtoDAsync_v2", a, (const void*)memory.data(), (size_t)n * 4, s.a);
  OK("cuMemHostUnregister", (void*)memory.data());
  expectFinding("unregistered", 700, "GONE");
  int* p = nullptr;
  OK("cuMemHostAlloc", (void**)&p, (size_t)n * 4, 0u);
  OK("cuMemcpyHtoDAsync_v2", a, (const void*)p, (size_t)n * 4, s.a);
  OK("cuMemFreeHost", (void*)p);
  expectFinding("freed", 700, "GONE");
}

static void queriesMakeProgress() {
  Streams s;
  Device cells = upload(Ints(n, 0));
  for (int i = 0; i < 5; i++) launch("sim_increment", {4, 256, 0, s.a}, cells, n);
  OK("cuEventRecord", s.event, s.a);
  int polls = 0;
  while (call("cuEventQuery", s.event) == 600 && polls < 100) polls++;
  expect(polls > 0 && polls < 100, "%d polls until the event", polls);
  launch("sim_increment", {4, 256, 0, s.b}, cells, n);        // after what the event has told
  expectClean("a query orders the host");
  OK("cuStreamQuery", s.a);
  expect(download<int>(cells, 1)[0] == 6, "six increments");
}

static void eventsTakeTime() {
  Streams s;
  void *from = nullptr, *to = nullptr;
  float ms = -1;
  OK("cuEventCreate", &from, 0u);
  OK("cuEventCreate", &to, 0u);
  Device cells = upload(Ints(n, 0));
  EXPECT_CODE(400, "cuEventElapsedTime", &ms, from, to);
  OK("cuEventRecord", from, s.a);
  launch("sim_increment", {4, 256, 0, s.a}, cells, n);
  OK("cuEventRecord", to, s.a);
  EXPECT_CODE(600, "cuEventElapsedTime", &ms, from, to);
  OK("cuEventSynchronize", to);
  OK("cuEventElapsedTime", &ms, from, to);
  expect(ms > 0, "%g ms", ms);
  EXPECT_CODE(400, "cuEventElapsedTime", &ms, from, s.event);
  OK("cuEventDestroy_v2", from);
  OK("cuEventDestroy_v2", to);
}

static void graphsReplay() {
  Streams s;
  Device a = upload(Ints(n, 0)), b = upload(Ints(n, 0));
  void *graph = nullptr, *executable = nullptr;
  OK("cuStreamBeginCapture_v2", s.a, 0);
  launch("sim_increment", {4, 256, 0, s.a}, a, n);
  OK("cuEventRecord", s.event, s.a);
  EXPECT_CODE(907, "cuEventQuery", s.event);
  OK("cuStreamWaitEvent", s.b, s.event, 0u);
  launch("sim_copy", {4, 256, 0, s.b}, a, b, n);
  OK("cuEventRecord", s.event, s.b);
  OK("cuStreamWaitEvent", s.a, s.event, 0u);
  Device refused = 0;
  EXPECT_CODE(900, "cuMemAlloc_v2", &refused, (size_t)16);
  OK("cuStreamEndCapture", s.a, &graph);
  OK("cuGraphInstantiateWithFlags", &executable, graph, 0ull);
  OK("cuGraphDestroy", graph);
  expect(download<int>(a, 1)[0] == 0, "capture ran something");
  for (int i = 0; i < 3; i++) OK("cuGraphLaunch", executable, s.a);
  OK("cuStreamSynchronize", s.a);
  expect(download<int>(b, n) == Ints(n, 3), "three replays");
  OK("cuGraphExecDestroy", executable);
  expectClean("graph");
  OK("cuStreamBeginCapture_v2", s.a, 0);
  EXPECT_CODE(900, "cuStreamSynchronize", s.a);
  EXPECT_CODE(901, "cuStreamEndCapture", s.a, &graph);
  OK("cuEventRecord", s.event, s.b);
  OK("cuStreamBeginCapture_v2", s.a, 2);
  EXPECT_CODE(905, "cuStreamWaitEvent", s.a, s.event, 0u);
  Device allowed = allocate(64);                      // relaxed
  EXPECT_CODE(901, "cuStreamEndCapture", s.a, &graph);
  OK("cuMemFree_v2", allowed);
}

extern const std::vector<Case> streamCases = {
  {"MissingStreamWait", missingStreamWait}, {"OverwritingWhatAnotherStreamReads", overwritingWhatAnotherStreamReads},
  {"AsynchronousCopies", asynchronousCopies},
  {"CopiesOfABatchHaveNoOrder", copiesOfABatchHaveNoOrder},
  {"MemoryGoneBeforeACopyRuns", memoryGoneBeforeACopyRuns},
  {"QueriesMakeProgress", queriesMakeProgress}, {"EventsTakeTime", eventsTakeTime}, {"GraphsReplay", graphsReplay}};
