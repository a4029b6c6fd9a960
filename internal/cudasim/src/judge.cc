// A second opinion on each kernel: after ours has run, a judge runs the PTX of the same launch on memory as it was
// before, and the bytes that both leave are compared. README.md says how to ask for it.
//
// Memory is kept by pages: what ours is about to write, as it was (`before`), and what the judge has written
// (`judged`).
#include "judge.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <unordered_map>

#include "judging.h"

static const char* (*judge)(JudgeLaunch*);
static int logFile = -1;
static bool takes;                                    // its bytes become the memory's
static std::map<std::string, std::shared_ptr<std::string>> texts;     // by kernel

// --- Settings --------------------------------------------------------------------------------------------------------

void initJudge() {
  const char *library = getenv("KHOP_CUDASIM_JUDGE"), *log = getenv("KHOP_CUDASIM_JUDGE_LOG");
  if (!library || !*library) return;
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  judge = handle ? (const char* (*)(JudgeLaunch*))dlsym(handle, "khop_judge") : nullptr;
  if (log && *log) logFile = open(log, O_WRONLY | O_CREAT | O_APPEND, 0666);
  if (!judge || logFile < 0) {
    fprintf(stderr, "cudasim: KHOP_CUDASIM_JUDGE=%s: %s\n", library,
            judge ? "KHOP_CUDASIM_JUDGE_LOG names no file that can be written" : dlerror());
    abort();
  }
  takes = getenv("KHOP_CUDASIM_JUDGE_TAKES") != nullptr;
}

void judgeModule(const std::string& ptx, const std::vector<std::string>& entries) {
  if (!judge) return;
  auto text = std::make_shared<std::string>(ptx);
  for (const std::string& e : entries) texts[e] = text;
}

// --- Pages -----------------------------------------------------------------------------------------------------------

constexpr uintptr_t kPage = 4096;
typedef std::array<char, kPage> Page;
typedef std::unordered_map<uintptr_t, Page> Pages;
static Pages before, judged;
static uintptr_t lastKept;
static uint64_t written;                              // bytes, by the judge

static Page& copyOf(Pages& pages, uintptr_t page, const void* from) {
  auto added = pages.try_emplace(page);
  if (added.second) memcpy(added.first->second.data(), from, kPage);
  return added.first->second;
}

// The page as it was before the launch: kept, or still untouched in memory.
static const char* asItWas(uintptr_t page) {
  auto it = before.find(page);
  return it == before.end() ? (const char*)page : it->second.data();
}

void keepForJudge(uintptr_t a, size_t n) {
  for (uintptr_t page = a & ~(kPage - 1); page < a + n; page += kPage) {
    if (page == lastKept) continue;
    copyOf(before, page, (const void*)page);
    lastKept = page;
  }
}

static bool lives(uintptr_t a, size_t n) {
  static Range* last;
  if (last && last->live && a >= last->lo && a + n <= last->hi) return true;
  Range* r = findRange(a);
  if (!r || a + n > r->hi) return false;
  last = r;
  return true;
}

static int readForJudge(uint64_t from, size_t n, void* to) {
  if (!lives(from, n)) return 0;
  for (char* out = (char*)to; n;) {
    uintptr_t page = from & ~(kPage - 1);
    size_t part = std::min<size_t>(n, page + kPage - from);
    auto it = judged.find(page);
    memcpy(out, (it == judged.end() ? asItWas(page) : it->second.data()) + (from - page), part);
    from += part, out += part, n -= part;
  }
  return 1;
}

static int writeOfJudge(uint64_t to, size_t n, const void* from) {
  if (!lives(to, n) || findRange(to)->readOnly) return 0;
  written += n;
  for (const char* in = (const char*)from; n;) {
    uintptr_t page = to & ~(kPage - 1);
    size_t part = std::min<size_t>(n, page + kPage - to);
    memcpy(copyOf(judged, page, asItWas(page)).data() + (to - page), in, part);
    to += part, in += part, n -= part;
  }
  return 1;
}

// --- Comparison ------------------------------------------------------------------------------------------------------

struct Verdict { uint64_t changed = 0, differ = 0; uintptr_t first = 0; };

static void comparePage(uintptr_t page, Verdict& v) {
  auto it = judged.find(page);
  const char *was = asItWas(page), *theirs = it == judged.end() ? was : it->second.data();
  char* ours = (char*)page;
  for (uintptr_t i = 0; i < kPage; i++) {
    if (ours[i] == was[i] && theirs[i] == was[i]) continue;
    if (!findRange(page + i)) continue;               // beside a range: the host's own
    v.changed++;
    if (ours[i] == theirs[i]) continue;
    v.differ++;
    if (!v.first || page + i < v.first) v.first = page + i;
    if (takes) ours[i] = theirs[i];
  }
}

static Verdict compare() {
  Verdict v;
  for (auto& p : judged) comparePage(p.first, v);
  for (auto& p : before)
    if (!judged.count(p.first)) comparePage(p.first, v);
  return v;
}

// --- A launch --------------------------------------------------------------------------------------------------------

static Traffic trafficBefore[2];

static void sumTraffic(const Kernel* k, Traffic* sum) {
  for (int kind = 0; kind < 2; kind++) {
    const Traffic &h = k->traffic[HOST][kind], &d = k->traffic[DEVICE][kind];
    sum[kind] = {h.instructions + d.instructions, h.lanes + d.lanes, h.sectors + d.sectors, h.lines + d.lines};
  }
}

void judgeBegins(const Launch* L) {
  G.judging = judge && (G.config.checks & kOfKernels) && texts.count(L->kernel->name);
  before.clear();
  judged.clear();
  lastKept = 0;
  written = 0;
  sumTraffic(L->kernel, trafficBefore);
}

static void write(const Launch* L, const char* why, const Verdict& v, const JudgeLaunch& j, double seconds) {
  static const char* const orders[] = {"forward", "reverse", "random"};
  Traffic ours[2];
  sumTraffic(L->kernel, ours);
  char line[2048];
  int n = snprintf(line, sizeof line, "%s\t%s\t%llu\t%llu\t%llu\t%.4f\t%u,%u,%u\t%u\t%s", L->kernel->name.c_str(),
                   why ? "refused" : v.differ ? "differ" : "equal", (unsigned long long)written,
                   (unsigned long long)v.changed, (unsigned long long)v.differ, seconds, L->grid[0], L->grid[1],
                   L->grid[2], L->block[0] * L->block[1] * L->block[2], orders[G.config.order]);
  for (int kind = 0; kind < 2; kind++) {
    const Traffic &a = ours[kind], &b = trafficBefore[kind];
    const uint64_t mine[] = {a.instructions - b.instructions, a.lanes - b.lanes, a.sectors - b.sectors,
                             a.lines - b.lines};
    for (int i = 0; i < 4; i++)
      n += snprintf(line + n, sizeof line - n, "\t%llu\t%llu", (unsigned long long)mine[i],
                    (unsigned long long)j.traffic[kind][i]);
  }
  std::string text = why ? why : v.differ ? "first at " + std::to_string(v.first) : "";
  std::replace(text.begin(), text.end(), '\n', ' ');
  n += snprintf(line + n, sizeof line - n, "\t%.1000s\n", text.c_str());
  if (write(logFile, line, n) != n) abort();
}

void judgeEnds(const Launch* L, bool whole) {
  if (!G.judging) return;
  G.judging = false;
  if (!whole) return;                                 // ours has found a fault, and says so
  JudgeLaunch j{};
  j.ptx = texts[L->kernel->name]->c_str();
  j.kernel = L->kernel->name.c_str();
  std::copy(L->grid, L->grid + 3, j.grid);
  std::copy(L->block, L->block + 3, j.block);
  j.shared = L->shared;
  j.params = L->args.size();
  j.values = L->args.data();
  j.sizes = L->kernel->sizes.data();
  j.read = readForJudge;
  j.write = writeOfJudge;
  j.count = (G.config.checks & COUNT_LINES) != 0;
  auto start = std::chrono::steady_clock::now();
  const char* why = judge(&j);
  std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  write(L, why, why ? Verdict{} : compare(), j, took.count());
}
