// What the parts of the simulator share. Start here; ../README.md has the map of the files.
//
// Two halves meet in this header. The host half (api_*.cc, streams.cc, memory.cc) answers the driver's calls, under one
// lock. The device half (run.cc, warp.cc, access.cc, race.h, lines.cc) runs kernels; all of it works on one thread, the
// worker, so it needs no lock and thread_local (= __shared__) has one address. While the worker runs, the caller waits
// for it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cuda_env.h"
#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define HIDDEN extern "C" __attribute__((visibility("hidden")))

// --- Driver result codes that the simulator gives --------------------------------------------------------------------

enum {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kPeerUnsupported = 217,
  kInvalidPtx = 218,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kLaunchTimeout = 702,
  kPeerEnabled = 704,
  kPeerNotEnabled = 705,
  kHostMemoryRegistered = 712,
  kHostMemoryNotRegistered = 713,
  kMisalignedAddress = 716,
  kLaunchFailed = 719,
  kNotSupported = 801,
  kCaptureUnsupported = 900,
  kCaptureInvalidated = 901,
  kCaptureUnmatched = 903,
  kCaptureIsolation = 905,
  kCapturedEvent = 907,
};

// --- Memory ----------------------------------------------------------------------------------------------------------

// A vector clock: for each stream, the number of its operations that are known to be complete.
typedef std::vector<uint32_t> Clock;
void join(Clock& into, const Clock& from);

// Who accessed a cell of 4 bytes last: a set of lanes at one time (see race.h).
struct Record {
  uint32_t lanes;
  uint32_t time : 28, bytes : 4;
  uint32_t launch : 18, pc : 14;
  uint32_t block : 24, warp : 5, level : 2, atomic : 1;
};
static_assert(sizeof(Record) == 16, "the shadow takes 16 bytes a cell");
constexpr uint32_t kMaxLaunches = 1 << 18, kMaxPcs = 1 << 14, kBlockMask = (1 << 24) - 1;

// Writers (or atomics) and readers are arrays of their own, so that memory that is only read costs only the second. The
// third keeps readers of one launch where another launch, not ordered after it, has read as well; it is almost never
// needed.
struct Shadow {
  Record *w = nullptr, *r = nullptr, *other = nullptr;
  Shadow at(size_t cell) const { return {w + cell, r + cell, other + cell}; }
};
Shadow newShadow(size_t bytes);
void freeShadow(Shadow, size_t bytes);

enum Space { HOST, DEVICE };
enum Kind { READ, WRITE, ATOMIC };

// Warp instructions that touched memory, the lanes that took part, and the 32-byte sectors and 128-byte lines they
// needed.
struct Traffic { uint64_t instructions, lanes, sectors, lines; };

// One asynchronous copy or fill of a part of a range, for the race check: kernels and copies meet here.
struct Transfer { uintptr_t lo, hi; uint32_t launch; bool write; };

// Memory that a kernel may address: an allocation on the device, or host memory that is registered or allocated
// page-locked.
struct Range {
  enum Origin : uint8_t { ALLOCATION, MANAGED, HOST_ALLOCATION, REGISTERED, IMAGE };
  uintptr_t lo = 1, hi = 0;            // an empty range contains nothing
  Origin origin = ALLOCATION;
  bool live = false, readOnly = false;
  int device = 0;                      // whose memory it is, if it is an ALLOCATION
  bool written = false, recorded = false, shared = false;   // by kernels: is there anything in shadow.w, .r, .other
  unsigned flags = 0;                  // as given to the driver
  Shadow shadow;
  uint32_t lastLaunch = 0;             // the newest in `touched`
  Clock touched;                       // operations of kernels on this range, by stream
  std::vector<Transfer> transfers;     // asynchronous copies that something may still race with
  uint32_t transfersChecked = 0;       // launch for which all of them are known to be ordered
  Traffic traffic[2] = {};             // reads, writes
  std::vector<uint64_t> seen;          // a bit for each 4 bytes of the host's that kernels have read
  Space space() const { return origin == ALLOCATION || origin == MANAGED ? DEVICE : HOST; }
  size_t bytes() const { return hi - lo; }
  Shadow cells(uintptr_t a) const { return shadow.at((a - (lo & ~3ull)) >> 2); }
};

// --- Execution -------------------------------------------------------------------------------------------------------

constexpr int kMaxThreads = 1024, kWarps = 32;
constexpr size_t kStack = 60 << 10, kDynamicShared = 160 << 10;

enum State { NEW, RUNNING, AT_BARRIER, IN_WARP, DONE };
struct Fiber {                         // a thread of a block
  void* sp; char* stack;
  State state;
  int thread, warp, lane; uint32_t bit;
  uint64_t value, result; int arg, width; bool bad;      // its part in a warp collective
};
struct Group { uint32_t mask, arrived; int op, line; };  // a warp collective that waits for lanes
struct Warp {
  uint32_t live, ready, barrier;
  int groups; Group group[33];
  uint32_t know[32][32];               // know[a][b]: up to which time lane a knows what lane b did
};

struct Kernel {
  std::string name; void* function; void (*call)(void*, void**); std::vector<int> sizes;
  unsigned staticShared = 0, maxDynamic = 48 << 10;
  uint64_t runs = 0;                   // since the settings changed: seeds the next one's schedule
  uint64_t launches = 0, threads = 0;  // since the counts were reset
  Traffic traffic[2][2] = {};          // [space][reads, writes]
  // Bytes of the host's that no kernel had read before. And reads of the warp that made the most of a launch, by space,
  // added up.
  uint64_t fresh = 0, longest[2] = {};
};

struct Launch {                        // one operation of a stream: a kernel, copy or fill
  uint32_t id = 0; Kernel* kernel = nullptr;
  int device = 0;                      // where it runs
  unsigned grid[3] = {1, 1, 1}, block[3] = {1, 1, 1}, shared = 0;
  std::vector<uint64_t> storage; std::vector<void*> args;     // the parameters, copied when the launch was queued
  Clock clock;                         // what is complete when it starts
  uint64_t longest[2] = {};            // reads of a warp, at most, by space
};
struct LaunchOrder { int stream; uint32_t number; const char* name; };

enum Order { FORWARD, REVERSE, RANDOM };
enum Checks { CHECK_ADDRESSES = 1, CHECK_RACES = 2, COUNT_LINES = 4, LAZY = 8, CHECK_HOST = 16 };
constexpr unsigned kOfKernels = CHECK_ADDRESSES | CHECK_RACES | COUNT_LINES;   // any of them: every access is looked at
constexpr unsigned kUsual = CHECK_ADDRESSES | CHECK_RACES | LAZY;              // counting takes two fifths of the time

constexpr int kMaxDevices = 8;
struct Config {
  Order order = FORWARD; uint64_t seed = 1; unsigned checks = kUsual;
  size_t memory = 16ull << 30;         // bytes of each device's memory
  int driver = 12040, devices = 1;
  // Devices reach each other's memory: 0 none, 1 all, else those of a group of so many.
  int peers = 0;
  int mig = 0;                                 // 1: devices are instances of boards
  std::map<int, int> attributes;       // those that differ from the default
};

struct Simulator {
  Config config;
  // hot, of the kernel that runs
  Fiber* current = nullptr; Launch* launch = nullptr;
  bool judging = false;                // what it writes is kept for judge.cc
  uint32_t block = 0, blockStamp = 0, orderedLaunch = 0; uint3 blockIdx;
  uint32_t now = 0, blockSync = 0;     // clock of the launch; its value at the block's last barrier
  Fiber fibers[kMaxThreads]; Warp warps[kWarps]; int warpsUsed = 0;
  uint64_t random = 1, scheduleHash = 0;
  // address spaces
  uintptr_t arena = 0; size_t arenaBytes = 0; Shadow arenaShadow;
  uintptr_t imageLo = 0, imageHi = 0;  // our own code and data
  // results
  std::vector<LaunchOrder> launches;   // by id; 0 is "before everything"
  int device = 0;                      // of the present call's context, or of what runs
  int lost[kMaxDevices] = {};          // the error that every call of a device returns from now on
  int& sticky() { return lost[device]; }
};
extern Simulator G;

// rnd is the stream of random choices within a launch; it is seeded anew for each, so that a kernel's schedule depends
// on the seed and on how many launches of that kernel came before, not on what other streams do.
uint64_t rnd();
uint64_t mixSeed(uint64_t a, uint64_t b);

// report.cc
int pcIndex(const void* pc);                          // a small number for a place in a kernel; 0: none
std::string place(int pc);                            // its text, to be resolved to a source line when it is read
std::string whoAmI();
void report(int code, const char* format, ...) __attribute__((format(printf, 2, 3)));
[[noreturn]] void abortLaunch();                      // run.cc: leaves the fiber for good and ends the launch
#define FAULT(code, ...) do { report(code, __VA_ARGS__); abortLaunch(); } while (0)

// memory.cc
Range* findRange(uintptr_t a);                        // the live range around a
Range* findForKernel(uintptr_t a, int pc);            // the same, and keeps it for the next access of that place
constexpr int kRangeCache = 1024;
extern Range* rangeCache[kRangeCache];
void forgetCaches();                                  // whenever an entry of rangeCache may be wrong
bool mayReach(int device, const Range&);              // its own memory, the host's, or that of a peer
[[noreturn]] void badAddress(uintptr_t a, unsigned size, const char* what, int pc);

// run.cc
void runKernel(Launch*);
void yield(Fiber*);
// warp.cc
void laneExited(Fiber*);
void startBlock(int threads);
extern int liveThreads;
// lines.cc
void logAccess(const Fiber*, const void* pc, uintptr_t a, unsigned bytes, bool write);
void countTraffic(int warp);                          // where all its lanes are at one place
void endTraffic(int warp);                            // at its end
void dropTraces();
// shared.cc
bool isShared(uintptr_t a);
Shadow sharedCells(uintptr_t a, unsigned size, Kind kind, int pc);   // checks bounds and initialisation
void initShared();
// transfers.cc
void checkTransfers(Range&, uintptr_t a, unsigned size, Kind kind, int pc);
void hostTransfer(Launch*, uintptr_t a, size_t n, bool write, bool async);
// modules.cc
Kernel* findKernel(const std::string& name);
std::map<std::string, Kernel>& kernels();
