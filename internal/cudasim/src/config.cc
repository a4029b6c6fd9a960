#include "config.h"

#include <pthread.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// --- Device attributes -----------------------------------------------------------------------------------------------

// A middling card, but for its one multiprocessor: kernels fit their grids to it, and eight blocks show all that more
// would. The numbers are those of CUdevice_attribute.
static const std::map<int, int> defaults = {
  {1, 1024}, {2, 1024}, {3, 1024}, {4, 64},           // threads a block, block dimensions
  {5, 2147483647}, {6, 65535}, {7, 65535},            // grid dimensions
  {8, 48 << 10}, {9, 64 << 10}, {10, 32},             // shared memory a block, constant memory, warp size
  {11, 2147483647}, {12, 65536}, {13, 1410000},       // pitch, registers a block, clock in kHz
  {14, 512}, {15, 1}, {16, 1}, {17, 0}, {18, 0},      // texture alignment, overlap, SMs, time-out, integrated
  {19, 1}, {20, 0}, {31, 1}, {32, 0},                 // can map host memory, compute mode, concurrent kernels, ECC
  {33, 1}, {34, 0}, {35, 0},                          // PCI bus and device, TCC
  {36, 1215000}, {37, 5120}, {38, 4 << 20},           // memory clock, bus width, L2
  {39, 2048}, {40, 2}, {41, 1}, {50, 0},              // threads an SM, copy engines, unified addressing, PCI domain
  {75, 8}, {76, 0}, {78, 1}, {79, 1}, {80, 1},        // compute capability, stream priorities, L1 caches
  {81, 164 << 10}, {82, 65536}, {83, 1},              // shared memory and registers an SM, managed memory
  // Multi-GPU board and group, native atomics over the bus, single/double ratio.
  {84, 0}, {85, 0}, {86, 0}, {87, 2},
  // Pageable, concurrent managed, preemption, host pointers of registered memory.
  {88, 0}, {89, 0}, {90, 1}, {91, 1},
  {95, 0}, {97, (int)kDynamicShared},                 // cooperative launch, opt-in shared memory
  {99, 1}, {100, 0}, {101, 0},                        // host registration, host page tables, direct managed access
  {106, 32}, {113, 1}, {115, 0},                      // blocks an SM, read-only host registration, memory pools
};

int attribute(int number) {
  auto set = G.config.attributes.find(number);
  if (set != G.config.attributes.end()) return set->second;
  auto known = defaults.find(number);
  return known == defaults.end() ? 0 : known->second;
}

bool mayPeer(int device, int other) {
  int group = G.config.peers;
  return device != other && group > 0 && (group == 1 || device / group == other / group);
}

// --- Settings --------------------------------------------------------------------------------------------------------

static const char* parseOrder(const std::string& v, Config& c) {
  if (v == "forward") c.order = FORWARD;
  else if (v == "reverse") c.order = REVERSE;
  else if (v == "random") c.order = RANDOM;
  else return "order is forward, reverse or random";
  return nullptr;
}

static const char* parseChecks(const std::string& v, Config& c) {
  static const std::map<std::string, unsigned> names = {{"all", kOfKernels},
                                                        {"default", kUsual},
                                                        {"none", 0},
                                                        {"addresses", CHECK_ADDRESSES},
                                                        {"races", CHECK_ADDRESSES | CHECK_RACES},
                                                        {"lines", CHECK_ADDRESSES | COUNT_LINES},
                                                        {"lazy", LAZY},
                                                        {"host", CHECK_HOST}};
  unsigned checks = 0;
  for (size_t at = 0; at <= v.size();) {
    size_t end = std::min(v.find('+', at), v.size());
    auto it = names.find(v.substr(at, end - at));
    if (it == names.end()) return "checks is all, default, none, or addresses, races, lines, host, lazy joined by +";
    checks |= it->second;
    at = end + 1;
  }
  c.checks = checks;
  return nullptr;
}

static const char* parseNumber(const std::string& v, long long& n) {
  char* end;
  n = strtoll(v.c_str(), &end, 0);
  if (end == v.c_str()) return "a number is missing";
  switch (*end) {
    case 'g': n <<= 30; end++; break;
    case 'm': n <<= 20; end++; break;
    case 'k': n <<= 10; end++; break;
    default: break;
  }
  return *end ? "a number has something behind it" : nullptr;
}

static const char* parseOne(const std::string& key, const std::string& v, Config& c) {
  if (key == "order") return parseOrder(v, c);
  if (key == "checks") return parseChecks(v, c);
  long long n;
  if (const char* wrong = parseNumber(v, n)) return wrong;
  if (key == "seed") c.seed = n;
  else if (key == "memory") c.memory = n;
  else if (key == "driver") c.driver = n;
  else if (key == "devices" && n >= 0 && n <= kMaxDevices) c.devices = n;
  else if (key == "devices") return "devices is 0 to 8";
  else if (key == "peers") c.peers = n;
  else if (key == "mig") c.mig = n;
  else if (key.compare(0, 4, "attr") == 0) c.attributes[atoi(key.c_str() + 4)] = n;
  else return "unknown setting: there are order, seed, checks, memory, driver, devices, peers, mig and attr<number>";
  return nullptr;
}

std::string settings() {
  static const char* const orders[] = {"forward", "reverse", "random"};
  const Config& c = G.config;
  std::string s = std::string("order=") + orders[c.order] + ",seed=" + std::to_string(c.seed) + ",checks=";
  s += !(c.checks & kOfKernels) ? "none" : c.checks & CHECK_RACES ? "races" : "addresses";
  if (c.checks & COUNT_LINES) s += "+lines";
  if (c.checks & LAZY) s += "+lazy";
  if (c.checks & CHECK_HOST) s += "+host";
  s += ",memory=" + std::to_string(c.memory) + ",driver=" + std::to_string(c.driver) +
       ",devices=" + std::to_string(c.devices) + ",peers=" + std::to_string(c.peers) +
       ",mig=" + std::to_string(c.mig);
  for (auto& a : c.attributes) s += ",attr" + std::to_string(a.first) + "=" + std::to_string(a.second);
  return s;
}

const char* configure(const char* settings) {
  Config c = G.config;
  std::string s = settings;
  for (size_t at = 0; at < s.size();) {
    size_t end = std::min(s.find(',', at), s.size()), equals = s.find('=', at);
    if (equals == std::string::npos || equals > end) return "a setting is <name>=<value>";
    if (const char* wrong = parseOne(s.substr(at, equals - at), s.substr(equals + 1, end - equals - 1), c))
      return wrong;
    at = end + 1;
  }
  G.config = c;
  return nullptr;
}

void readEnvironment() {
  const char* s = getenv("KHOP_CUDASIM");
  if (!s) return;
  if (const char* wrong = configure(s)) {
    fprintf(stderr, "cudasim: KHOP_CUDASIM=%s: %s\n", s, wrong);
    abort();
  }
}

// --- Failures on purpose ---------------------------------------------------------------------------------------------

struct Failure { std::string name; int remaining, code; };
static std::vector<Failure> failures;

static std::string plainName(std::string name) {      // cuMemAlloc_v2 is cuMemAlloc
  for (const char* suffix : {"_v2", "_v3"})
    if (name.size() > 3 && !name.compare(name.size() - 3, 3, suffix)) name.resize(name.size() - 3);
  return name;
}

void failCall(const std::string& name, int nth, int code) { failures.push_back({plainName(name), nth, code}); }
void clearFailures() { failures.clear(); }

int takeFailure(const std::string& name) {
  std::string plain = plainName(name);
  for (size_t i = 0; i < failures.size(); i++) {
    Failure& f = failures[i];
    if (f.name != plain || --f.remaining > 0) continue;
    int code = f.code;
    failures.erase(failures.begin() + i);
    return code;
  }
  return 0;
}

// Errors after which a real context is of no use any more.
static bool deviceLost(int code) {
  switch (code) {
    case 46: case 79: case 214: case 220: case 226: case 700: case 702:
    case 710: case 714: case 715: case 716: case 717: case 718: case 719:
      return true;
    default:
      return false;
  }
}

bool injectedLaunchFailure(const std::string& kernel) {
  int code = takeFailure("kernel:" + kernel);
  if (code && !G.sticky()) G.sticky() = code;
  return code != 0;
}

// --- The frame of a call ---------------------------------------------------------------------------------------------

Call::Call(const char* name, Needs needs) {
  pthread_mutex_lock(&lock);
  void* context = driverStarted() ? currentContext() : nullptr;
  G.device = context ? deviceOfContext(context) : 0;
  if (int code = takeFailure(name)) {
    if (deviceLost(code)) G.sticky() = code;
    error = code;
    return;
  }
  if (needs == NOTHING) return;
  if (!driverStarted()) error = kNotInitialized;
  else if (needs == INITIALIZED) return;
  else if (!context || !contextIsLive(context)) error = kInvalidContext;
  else if (needs == CONTEXT) error = G.sticky();
}

Call::~Call() { pthread_mutex_unlock(&lock); }
