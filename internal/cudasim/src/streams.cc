#include "streams.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <algorithm>

#include "config.h"
#include "fiber.h"
#include "findings.h"
#include "memory.h"

// --- The worker ------------------------------------------------------------------------------------------------------

static pthread_mutex_t jobLock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t jobCame = PTHREAD_COND_INITIALIZER, jobDone = PTHREAD_COND_INITIALIZER;
static const std::function<void()>* job;

static void* workerMain(void*) {
  initShared();
  initFibers();
  for (;;) {
    pthread_mutex_lock(&jobLock);
    while (!job) pthread_cond_wait(&jobCame, &jobLock);
    const auto* j = job;
    pthread_mutex_unlock(&jobLock);
    (*j)();
    pthread_mutex_lock(&jobLock);
    job = nullptr;
    pthread_cond_signal(&jobDone);
    pthread_mutex_unlock(&jobLock);
  }
  return nullptr;
}

void onWorker(const std::function<void()>& f) {
  pthread_mutex_lock(&jobLock);
  job = &f;
  pthread_cond_signal(&jobCame);
  while (job) pthread_cond_wait(&jobDone, &jobLock);
  pthread_mutex_unlock(&jobLock);
}

// [0] is the legacy default stream; never shrinks, entries are reused.
static std::deque<Stream> streams;

void startWorker() {
  G.launches.push_back({-1, 0, "the start"});
  streams.emplace_back();
  initMemory();
  // A host such as Go sends signals to its threads; none must be handled on the small stack of a fiber. Faults still
  // are.
  sigset_t most, old;
  sigfillset(&most);
  for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP}) sigdelset(&most, fault);
  pthread_sigmask(SIG_SETMASK, &most, &old);
  pthread_t t;
  pthread_create(&t, nullptr, workerMain, nullptr);
  pthread_detach(t);
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  onWorker([] {});
}

// --- Clocks ----------------------------------------------------------------------------------------------------------

static Clock hostClock;                               // what the host knows to be complete

void join(Clock& into, const Clock& from) {
  if (into.size() < from.size()) into.resize(from.size());
  for (size_t i = 0; i < from.size(); i++) into[i] = std::max(into[i], from[i]);
}

// Launch numbers are few (18 bits of a Record). When they are used up, everything is forgotten and counting starts
// anew.
static void forgetLaunches() {
  forEachRange([](Range& r) {
    if (r.space() == DEVICE && r.shadow.w) {
      if (r.written) std::fill(r.shadow.w, r.shadow.w + (r.bytes() + 3) / 4, Record{});
      if (r.recorded) std::fill(r.shadow.r, r.shadow.r + (r.bytes() + 3) / 4, Record{});
      if (r.shared) std::fill(r.shadow.other, r.shadow.other + (r.bytes() + 3) / 4, Record{});
    } else if (r.shadow.w) {
      freeShadow(r.shadow, r.bytes());
      r.shadow = newShadow(r.bytes());
    }
    r.lastLaunch = 0;
    r.transfers.clear();
  });
  G.launches.resize(1);
}

static uint32_t newLaunch(Stream& s, const char* name) {
  if (G.launches.size() >= kMaxLaunches) forgetLaunches();
  if ((size_t)s.index >= s.clock.size()) s.clock.resize(s.index + 1);
  G.launches.push_back({s.index, ++s.clock[s.index], name});
  return G.launches.size() - 1;
}

// --- Running ---------------------------------------------------------------------------------------------------------

static uint64_t streamRandom = 1;
void seedStreams(uint64_t seed) { streamRandom = mixSeed(seed, 0x73747265); }

static bool runnable(const Stream& s) {
  return !s.queue.empty() && (s.queue[0].kind != Operation::WAIT || s.queue[0].mark->ran);
}

static int64_t nanoseconds() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ll + t.tv_nsec;
}

struct OnDevice {                                     // while it lives, another device is the present one
  const int before = G.device;
  explicit OnDevice(int device) { G.device = device; }
  ~OnDevice() { G.device = before; }
};

static void runHead(Stream& s) {
  Operation op = std::move(s.queue.front());
  s.queue.pop_front();
  join(s.clock, op.host);
  switch (op.kind) {
    case Operation::RECORD:
      op.mark->ran = true;
      op.mark->clock = s.clock;
      op.mark->nanoseconds = nanoseconds();
      break;
    case Operation::WAIT:
      join(s.clock, op.mark->clock);
      break;
    default: {
      Launch* L = op.launch.get();
      OnDevice on(L->device);
      L->id = newLaunch(s, L->kernel ? L->kernel->name.c_str() : "a copy or fill");
      L->clock = s.clock;
      if (L->kernel && injectedLaunchFailure(L->kernel->name)) break;
      if (G.sticky() && G.sticky() != kLaunchFailed) break;       // the device is lost; a mere race lets the rest run
      DeviceOpen open;
      onWorker([&] { L->kernel ? runKernel(L) : op.work(L); });
    }
  }
}

static Stream* pickStream() {
  std::vector<Stream*> ready;
  for (Stream& s : streams)
    if (runnable(s)) ready.push_back(&s);
  if (ready.empty()) return nullptr;
  if (G.config.order == FORWARD) return ready.front();
  if (G.config.order == REVERSE) return ready.back();
  streamRandom = mixSeed(streamRandom, 1);
  return ready[(streamRandom >> 32) % ready.size()];
}

static void drain(const std::function<bool()>& until) {
  if (until()) return;
  DeviceOpen open;
  while (!until()) {
    Stream* s = pickStream();
    if (!s) {
      report(kLaunchTimeout, "STREAM DEADLOCK: every queued operation waits for an event");
      for (Stream& q : streams) q.queue.clear();
      return;
    }
    runHead(*s);
  }
}

void drainAll() {
  drain([] { return std::all_of(streams.begin(), streams.end(), [](const Stream& s) { return s.queue.empty(); }); });
}

void drainStream(Stream* s) {
  drain([&] { return s->queue.empty(); });
  join(hostClock, s->clock);
}

void runUpTo(const std::shared_ptr<Mark>& m) {
  drain([&] {
    return m->ran || std::all_of(streams.begin(), streams.end(), [](const Stream& s) { return s.queue.empty(); });
  });
}

void drainMark(const std::shared_ptr<Mark>& m) {
  runUpTo(m);
  join(hostClock, m->clock);
}

bool pollStream(Stream* s) {
  if (!s->queue.empty())
    if (Stream* next = pickStream()) runHead(*next);
  if (!s->queue.empty()) return false;
  join(hostClock, s->clock);
  return true;
}

bool pollMark(const std::shared_ptr<Mark>& m) {
  if (!m->ran)
    if (Stream* next = pickStream()) runHead(*next);
  if (!m->ran) return false;
  join(hostClock, m->clock);
  return true;
}

void synchronizeHost() {
  drainAll();
  for (Stream& s : streams) join(hostClock, s.clock);
}

// --- The default stream: it waits for all blocking streams, and they for it ------------------------------------------

static bool blocking(const Stream& s) { return s.index && s.device == G.device && !(s.flags & 1) && !s.destroyed; }

static void joinDefaultStream() {
  for (Stream& s : streams)
    if (blocking(s)) {
      drain([&] { return s.queue.empty(); });
      join(streams[0].clock, s.clock);
    }
}

static void leaveDefaultStream() {
  for (Stream& s : streams)
    if (blocking(s)) join(s.clock, streams[0].clock);
}

int deviceOf(const Stream* s) { return s->index ? s->device : G.device; }

void enqueue(Stream* s, Operation op) {
  if (op.launch) op.launch->device = deviceOf(s);
  if (s->capture) {
    s->capture->operations.push_back(std::move(op));
    return;
  }
  op.host = hostClock;
  if (s->index) {
    s->queue.push_back(std::move(op));
    return;
  }
  joinDefaultStream();
  s->queue.push_back(std::move(op));
  drain([&] { return s->queue.empty(); });
  leaveDefaultStream();
}

// Everything queued runs first, which is always legal; what no synchronisation orders before the copy is then found by
// the clocks, whatever the order was.
void runSynchronously(std::function<void(Launch*)> work) {
  drainAll();
  auto launch = std::make_shared<Launch>();
  enqueue(&streams[0], Operation{Operation::TRANSFER, launch, nullptr, std::move(work)});
  join(hostClock, streams[0].clock);
}

// --- Creating and destroying -----------------------------------------------------------------------------------------

// Its past is known to the host, so the index may start a new life.
static bool unused(const Stream& s) {
  size_t i = s.index;
  uint32_t last = i < s.clock.size() ? s.clock[i] : 0;
  return i && s.destroyed && s.queue.empty() && (last == 0 || (i < hostClock.size() && hostClock[i] >= last));
}

Stream* newStream(unsigned flags, int priority) {
  Stream* s = nullptr;
  for (Stream& old : streams)
    if (unused(old)) s = &old;
  if (!s) {
    streams.emplace_back();
    s = &streams.back();
    s->index = streams.size() - 1;
  }
  s->flags = flags;
  s->priority = priority;
  s->device = G.device;
  s->destroyed = false;
  return s;
}

Stream* findStream(void* handle) {
  if (!handle || handle == (void*)1) return &streams[0];      // CU_STREAM_LEGACY
  for (Stream& s : streams)
    if (&s == handle && !s.destroyed) return &s;
  return nullptr;
}

void destroyStream(Stream* s) { s->destroyed = true; }        // what is queued still runs, as with the real driver

size_t streamCount() {
  return std::count_if(streams.begin(), streams.end(), [](const Stream& s) { return s.index && !s.destroyed; });
}

bool anyCapture() {
  return std::any_of(streams.begin(), streams.end(), [](const Stream& s) { return s.capture && !s.capture->relaxed; });
}

void leaveCapture(Capture* c) {
  for (Stream& s : streams)
    if (s.capture == c) s.capture = nullptr;
}
