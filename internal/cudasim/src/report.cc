// Findings: what the checks found, as text for people. Places in kernels are kept as addresses, and are turned into
// source lines by addr2line only when somebody reads the finding.
#include <dlfcn.h>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "findings.h"
#include "sim.h"

static constexpr size_t kMaxFindings = 50;            // the first ones tell; the rest would repeat
static std::vector<std::string> findings;

// --- Places ----------------------------------------------------------------------------------------------------------

static const void* pcs[kMaxPcs];
static int pcCount = 1;
static uint16_t* pcTable;                             // direct: byte of our code -> index
static uintptr_t libraryBase;
static std::string libraryPath;

void initPlaces(uintptr_t base) {
  libraryBase = base;
  pcTable = (uint16_t*)reserve((G.imageHi - G.imageLo) * 2);
  Dl_info info;
  if (!dladdr((void*)&initPlaces, &info)) return;
  char* whole = realpath(info.dli_fname, nullptr);
  libraryPath = whole ? whole : info.dli_fname;
  free(whole);
}
const std::string& ownPath() { return libraryPath; }

int pcIndex(const void* pc) {
  uint16_t& e = pcTable[(uintptr_t)pc - G.imageLo];
  if (unlikely(!e)) {
    if (pcCount == (int)kMaxPcs) return 0;
    pcs[pcCount] = pc;
    e = pcCount++;
  }
  return e;
}

std::string place(int pc) {
  if (!pc) return "(no place in a kernel)";
  char b[64];
  snprintf(b, sizeof b, "<0x%lx>", (unsigned long)((uintptr_t)pcs[pc] - libraryBase - 1));   // inside of the call
  return b;
}

// Asks addr2line for the frames at an address, innermost first, and leaves out those of cuda_env.h.
static std::string sourceLine(const std::string& address) {
  std::string command = "addr2line -i -e '" + libraryPath + "' " + address + " 2>/dev/null", out;
  FILE* f = popen(command.c_str(), "r");
  if (!f) return address;
  // Of the repository that it was built in.
  const std::string root = libraryPath.substr(0, libraryPath.rfind("/dist/") + 1);
  char line[1024];
  while (fgets(line, sizeof line, f)) {
    std::string s(line, strcspn(line, "\n"));
    if (size_t p = s.find(" (discriminator"); p != std::string::npos) s.resize(p);
    if (s.compare(0, root.size(), root) == 0) s.erase(0, root.size());
    if (s.find("cuda_env") != std::string::npos || s.find(".khop.cc") != std::string::npos ||
        s.find("??") != std::string::npos)
      continue;
    out += (out.empty() ? "" : ", inlined at ") + s;
  }
  pclose(f);
  return out.empty() ? "offset " + address : out;
}

static std::string resolve(std::string text) {
  static std::map<std::string, std::string> known;    // addr2line takes its time
  for (size_t at; (at = text.find("<0x")) != std::string::npos;) {
    size_t end = text.find('>', at);
    if (end == std::string::npos) break;
    std::string address = text.substr(at + 1, end - at - 1);
    std::string& line = known[address];
    if (line.empty()) line = sourceLine(address);
    text.replace(at, end - at + 1, line);
  }
  return text;
}

// --- Findings --------------------------------------------------------------------------------------------------------

std::string whoAmI() {
  if (!G.current) return "a copy or fill";
  char b[200];
  snprintf(b, sizeof b, "kernel %s, block %u, thread %d", G.launch->kernel->name.c_str(), G.block, G.current->thread);
  return b;
}

void report(int code, const char* format, ...) {
  char b[900];
  va_list v;
  va_start(v, format);
  vsnprintf(b, sizeof b, format, v);
  va_end(v);
  if (!G.sticky()) G.sticky() = code;
  if (findings.size() >= kMaxFindings) return;
  static const char* const orders[] = {"forward", "reverse", "random"};
  char setting[80];
  snprintf(setting, sizeof setting, " [order=%s,seed=%llu]", orders[G.config.order], (unsigned long long)G.config.seed);
  findings.push_back(std::string(b) + setting);
}

int findingCount() { return findings.size(); }

const std::string& finding(int i) {
  static const std::string none;
  if (i < 0 || i >= (int)findings.size()) return none;
  return findings[i] = resolve(findings[i]);
}

void clearFindings() {
  findings.clear();
  for (int& code : G.lost) code = 0;
  clearSeenRaces();
}
