// Runs the tests of the simulator: "cudasim_test <library>" prints a line for each case and setting, and fails if one
// does. "cudasim_test <library> results" leaves out the planted bugs, for a library without checks.
#include "sim_test.h"

#include <cstdarg>

void* library;
static std::string problems;
static std::vector<Device> allocated;
static void* module;

void expect(bool good, const char* format, ...) {
  if (good) return;
  char b[1000];
  va_list v;
  va_start(v, format);
  vsnprintf(b, sizeof b, format, v);
  va_end(v);
  problems += std::string("; ") + b;
}

static std::string firstFinding() {
  return call<int>("cudasim_findings") ? call<const char*>("cudasim_finding", 0) : "(nothing found)";
}

void expectClean(const char* what) {
  int code = call("cuCtxSynchronize"), n = call<int>("cudasim_findings");
  expect(code == 0 && n == 0, "%s: code %d, %s", what, code, firstFinding().c_str());
  call<void>("cudasim_reset");
}

void expectFinding(const char* what, int want, const char* word) {
  int code = call("cuCtxSynchronize"), n = call<int>("cudasim_findings");
  bool found = false;
  for (int i = 0; i < n; i++) found |= strstr(call<const char*>("cudasim_finding", i), word) != nullptr;
  expect(code == want && found, "%s: code %d, want %d and %s; %s", what, code, want, word, firstFinding().c_str());
  if (getenv("CUDASIM_TEST_SHOW")) printf("  %s: %s\n", what, firstFinding().c_str());
  call<void>("cudasim_reset");
}

Device allocate(size_t bytes) {
  Device p = 0;
  OK("cuMemAlloc_v2", &p, bytes);
  allocated.push_back(p);
  return p;
}
void freeAll() {
  for (Device p : allocated) call("cuMemFree_v2", p);        // some tests have freed theirs
  allocated.clear();
}

void* kernel(const char* name) {
  void* f = nullptr;
  OK("cuModuleGetFunction", &f, module, name);
  if (!f) exit(1);
  return f;
}

// The PTX that a real driver would be given, as far as the simulator reads it: here of every kernel, made from its
// names.
static std::string image() {
  std::string ptx = ".version 7.8\n.target sm_70\n";
  static const struct { const char* name; int params;
  } kernels[] = {{"sim_copy", 3},
                 {"sim_copy16", 3},
                 {"sim_increment", 2},
                 {"sim_copy_past_end", 3},
                 {"sim_vector", 3},
                 {"sim_scan", 3},
                 {"sim_scan_no_first", 3},
                 {"sim_scan_no_second", 3},
                 {"sim_scan_no_third", 3},
                 {"sim_exchange", 1},
                 {"sim_exchange_no_syncwarp", 1},
                 {"sim_exchange_shuffle", 1},
                 {"sim_scan_shuffle", 3},
                 {"sim_same_barrier", 1},
                 {"sim_divergent_barrier", 1},
                 {"sim_early_return", 1},
                 {"sim_full_mask", 1},
                 {"sim_lane_missing", 1},
                 {"sim_mask_lacks_caller", 1},
                 {"sim_shuffle_from_outside", 1},
                 {"sim_count", 1},
                 {"sim_turns", 2},
                 {"sim_count_plain", 1},
                 {"sim_count_and_read", 2},
                 {"sim_two_lanes", 1},
                 {"sim_bytes", 1},
                 {"sim_next_block", 1},
                 {"sim_own_block", 2},
                 {"sim_shared", 1},
                 {"sim_shared_uninitialised", 1},
                 {"sim_shared_count", 1},
                 {"sim_shared_count_uninitialised", 1},
                 {"sim_shared_past_end", 1},
                 {"sim_dynamic_past_end", 1},
                 {"sim_gather", 5},
                 {"sim_gather_aligned", 5},
                 {"sim_diverge", 4},
                 {"sim_stride", 3},
                 {"sim_vectors", 2},
                 {"sim_intrinsics", 4},
                 {"sim_two_dimensions", 2},
                 {"sim_unique", 6}};
  for (auto& k : kernels) {
    ptx += ".visible .entry " + std::string(k.name) + "(\n";
    for (int i = 0; i < k.params; i++) ptx += "\t.param .u64 p" + std::to_string(i) + (i + 1 < k.params ? ",\n" : "\n");
    ptx += ")\n{\n\tret;\n}\n";
  }
  return ptx;
}

static int run(const std::vector<Case>& cases, const char* settings) {
  int failed = 0;
  for (const Case& c : cases) {
    problems.clear();
    call<void>("cudasim_defaults");
    const char* wrong = call<const char*>("cudasim_config", settings);
    expect(!wrong, "settings %s: %s", settings, wrong);
    c.run();
    freeAll();
    call<void>("cudasim_reset");
    printf("%s %s/%s%s\n", problems.empty() ? "ok" : "FAIL", c.name, settings, problems.c_str());
    failed += !problems.empty();
  }
  return failed;
}

int main(int argc, char** argv) {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  bool results = argc == 3 && !strcmp(argv[2], "results");
  if (argc != 2 && !results) return fprintf(stderr, "usage: cudasim_test <libcudasim.so> [results]\n"), 2;
  unsetenv("KHOP_CUDASIM");
  library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (!library) return fprintf(stderr, "%s\n", dlerror()), 1;
  void* context = nullptr;
  OK("cuInit", 0u);
  OK("cuDevicePrimaryCtxRetain", &context, 0);
  OK("cuCtxSetCurrent", context);
  OK("cuModuleLoadData", &module, (const void*)image().c_str());
  if (!problems.empty()) return printf("FAIL start%s\n", problems.c_str()), 1;
  int failed = 0;
  for (const char* settings : {"order=forward", "order=reverse", "order=random,seed=1", "order=random,seed=2",
                               "order=random,seed=3", "order=random,seed=4"}) {
    failed += run(resultCases, settings);
    if (!results)
      for (auto* cases : {&memoryCases, &raceCases, &barrierCases, &streamCases}) failed += run(*cases, settings);
  }
  if (results) return failed != 0;
  failed += run(countCases, "order=forward");
  failed += run(deviceCases, "order=random,seed=7");
  failed += run(driverCases, "order=random,seed=7");
  return failed != 0;
}
