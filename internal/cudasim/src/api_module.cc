// Driver calls about modules and kernels.
//
// The image is the PTX that a real driver would compile. Here it says which kernels there are and what they take; the
// code that runs is the kernel of the same name that was compiled into this library from the same .cu file.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>

#include "config.h"
#include "findings.h"
#include "judging.h"
#include "streams.h"

std::map<std::string, Kernel>& kernels() {
  static std::map<std::string, Kernel> m;             // filled by constructors, in any order
  return m;
}
Kernel* findKernel(const std::string& name) {
  auto it = kernels().find(name);
  return it == kernels().end() ? nullptr : &it->second;
}
HIDDEN void cudasim_register(const char* name, void* function, void (*call)(void*, void**), int params,
                             const int* sizes) {
  Kernel k{name, function, call, std::vector<int>(sizes, sizes + params)};
  if (!kernels().emplace(name, k).second) {
    fprintf(stderr, "cudasim: two kernels are named %s\n", name);
    abort();
  }
}

// --- Modules ---------------------------------------------------------------------------------------------------------

struct Function { Kernel* kernel; int maxThreads, device; };
struct Module { std::map<std::string, Function> functions; };
static std::set<Module*> modules;
static std::set<Function*> functions;
size_t moduleCount() { return modules.size(); }

// Bytes of each parameter: ".param .u64 name" or ".param .align 8 .b8 name[40]".
static std::vector<int> parametersOf(const std::string& ptx, size_t at, size_t end) {
  std::vector<int> sizes;
  for (size_t p = at; (p = ptx.find(".param", p)) < end; p++) {
    int align, bits = 0, length = 0;
    const char* text = ptx.c_str() + p;
    if (sscanf(text, ".param .align %d .b%d %*[^][(),]%*[[]%d", &align, &bits, &length) != 3 &&
        sscanf(text, ".param .%*[usfb]%d", &bits) != 1) length = 0;
    sizes.push_back(bits / 8 * std::max(length, 1));
  }
  return sizes;
}
static std::string listed(const std::vector<int>& sizes) {
  std::string s;
  for (int n : sizes) s += (s.empty() ? "" : ", ") + std::to_string(n);
  return s;
}

// One .entry of a PTX text: its name, the number of its parameters, its .maxntid.
static CUresult readEntry(const std::string& ptx, size_t at, Module* m) {
  size_t name = ptx.find_first_not_of(" \t", at + 6), open = ptx.find_first_of(" \t\r\n({", name);
  if (open == std::string::npos) return kInvalidPtx;
  std::string entry = ptx.substr(name, open - name);
  size_t body = ptx.find('{', open), close = std::min(ptx.find(')', open), body);
  Kernel* k = findKernel(entry);
  if (!k) {
    m->functions[entry] = {nullptr, 0, 0};
    return kSuccess;
  }
  std::vector<int> params = parametersOf(ptx, open, close);
  if (params != k->sizes) {
    report(kInvalidPtx, "STALE PTX: kernel %s takes (%s) bytes in the PTX, (%s) in the .cu file: regenerate the PTX",
           entry.c_str(), listed(params).c_str(), listed(k->sizes).c_str());
    return kInvalidPtx;
  }
  int threads[3] = {attribute(1), 1, 1};
  size_t limit = ptx.find(".maxntid", close);
  if (limit < body) sscanf(ptx.c_str() + limit, ".maxntid %d, %d, %d", threads, threads + 1, threads + 2);
  m->functions[entry] = {k, threads[0] * threads[1] * threads[2], G.device};
  return kSuccess;
}

static CUresult load(void** module, const void* image) {
  if (!image) return kInvalidValue;
  std::string ptx = (const char*)image;
  if (ptx.find(".version") == std::string::npos) return kInvalidImage;
  auto m = std::make_unique<Module>();
  for (size_t at = 0; (at = ptx.find(".entry", at)) != std::string::npos; at++)
    if (CUresult rc = readEntry(ptx, at, m.get())) return rc;
  std::vector<std::string> entries;
  for (auto& f : m->functions) entries.push_back(f.first);
  judgeModule(ptx, entries);
  *module = m.get();
  modules.insert(m.release());
  return kSuccess;
}
API cuModuleLoadData(void** module, const void* image) {
  ENTER(CONTEXT);
  return load(module, image);
}
API cuModuleLoadDataEx(void** module, const void* image, unsigned n, int* options, void** values) {
  enum { kErrorLog = 5, kErrorLogBytes = 6 };
  ENTER(CONTEXT);
  char* log = nullptr;
  size_t room = 0;
  for (unsigned i = 0; i < n; i++) {
    if (options[i] == kErrorLog) log = (char*)values[i];
    if (options[i] == kErrorLogBytes) room = (size_t)values[i];
  }
  CUresult rc = load(module, image);
  if (rc && log && room) snprintf(log, room, "ptxas fatal   : simulated: this is no PTX of these kernels\n");
  return rc;
}
API cuModuleUnload(void* module) {
  ENTER(FREEING);
  auto it = modules.find((Module*)module);
  if (it == modules.end()) return kInvalidHandle;
  for (auto& f : (*it)->functions) functions.erase(&f.second);
  delete *it;
  modules.erase(it);
  return G.sticky();
}
API cuModuleGetFunction(void** function, void* module, const char* name) {
  ENTER(CONTEXT);
  if (!modules.count((Module*)module)) return kInvalidHandle;
  auto& all = ((Module*)module)->functions;
  auto it = all.find(name);
  if (it == all.end()) return kNotFound;
  if (!it->second.kernel) {
    report(kNotFound, "KERNEL NOT COMPILED: %s is in the PTX, but not in this library: build it again (make cudasim)",
           name);
    return kNotFound;
  }
  functions.insert(&it->second);
  *function = &it->second;
  return kSuccess;
}
API cuModuleGetGlobal_v2(unsigned long long*, size_t*, void*, const char*) {
  ENTER(CONTEXT);
  return kNotFound;
}

// --- Kernels ---------------------------------------------------------------------------------------------------------

enum {
  FUNC_MAX_THREADS,
  FUNC_STATIC_SHARED,
  FUNC_CONST,
  FUNC_LOCAL,
  FUNC_REGISTERS,
  FUNC_PTX,
  FUNC_BINARY,
  FUNC_CACHE,
  FUNC_MAX_DYNAMIC
};

API cuFuncGetAttribute(int* value, int what, void* function) {
  ENTER(CONTEXT);
  Function* f = (Function*)function;
  if (!functions.count(f)) return kInvalidHandle;
  switch (what) {
    case FUNC_MAX_THREADS: *value = f->maxThreads; break;
    case FUNC_STATIC_SHARED: *value = f->kernel->staticShared; break;
    case FUNC_REGISTERS: *value = 32; break;
    case FUNC_PTX: *value = 70; break;
    case FUNC_BINARY: *value = attribute(75) * 10 + attribute(76); break;
    case FUNC_MAX_DYNAMIC: *value = f->kernel->maxDynamic; break;
    default: *value = 0; break;
  }
  return kSuccess;
}
API cuFuncSetAttribute(void* function, int what, int value) {
  ENTER(CONTEXT);
  Function* f = (Function*)function;
  if (!functions.count(f)) return kInvalidHandle;
  if (what != FUNC_MAX_DYNAMIC) return kSuccess;
  if (value < 0 || value + (int)f->kernel->staticShared > attribute(97)) return kInvalidValue;
  f->kernel->maxDynamic = value;
  return kSuccess;
}
API cuFuncSetCacheConfig(void*, int) {
  ENTER(CONTEXT);
  return kSuccess;
}
API cuFuncSetSharedMemConfig(void*, int) {
  ENTER(CONTEXT);
  return kSuccess;
}
static CUresult occupancy(int* blocks, void* function, int threads, size_t shared) {
  Function* f = (Function*)function;
  if (!functions.count(f)) return kInvalidHandle;
  if (threads <= 0 || threads > f->maxThreads) return kInvalidValue;
  int byThreads = attribute(39) / ((threads + 31) / 32 * 32), n = std::min(byThreads, attribute(106));
  size_t bytes = f->kernel->staticShared + shared;
  if (bytes) n = std::min(n, (int)(attribute(81) / bytes));
  *blocks = n;
  return kSuccess;
}
API cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void* function, int threads, size_t shared) {
  ENTER(CONTEXT);
  return occupancy(blocks, function, threads, shared);
}
API cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, void* function, int threads, size_t shared,
                                                         unsigned) {
  ENTER(CONTEXT);
  return occupancy(blocks, function, threads, shared);
}

static bool validShape(const Function* f, const unsigned* grid, const unsigned* block, unsigned shared) {
  for (int i = 0; i < 3; i++)
    if (!grid[i] || !block[i] || grid[i] > (unsigned)attribute(5 + i) || block[i] > (unsigned)attribute(2 + i))
      return false;
  uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
  return threads <= (uint64_t)f->maxThreads && threads <= kMaxThreads && shared <= f->kernel->maxDynamic;
}

// Parameters are copied when the launch is queued, as by the driver.
static std::shared_ptr<Launch> newLaunch(Kernel* k, void** params) {
  auto L = std::make_shared<Launch>();
  L->kernel = k;
  size_t total = 2;
  for (int s : k->sizes) total += (s + 15) / 16 * 2;
  L->storage.resize(total);
  char* at = (char*)(((uintptr_t)L->storage.data() + 15) & ~15ull);
  for (size_t i = 0; i < k->sizes.size(); i++) {
    memcpy(at, params[i], k->sizes[i]);
    L->args.push_back(at);
    at += (k->sizes[i] + 15) / 16 * 16;
  }
  return L;
}

API cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void* stream, void** params, void** extra) {
  ENTER(CONTEXT);
  Function* f = (Function*)function;
  Stream* s = findStream(stream);
  if (!functions.count(f) || !s || f->device != deviceOf(s)) return kInvalidHandle;
  unsigned grid[] = {gx, gy, gz}, block[] = {bx, by, bz};
  if (extra || (!params && !f->kernel->sizes.empty()) || !validShape(f, grid, block, shared)) return kInvalidValue;
  auto L = newLaunch(f->kernel, params);
  std::copy(grid, grid + 3, L->grid);
  std::copy(block, block + 3, L->block);
  L->shared = shared;
  enqueue(s, Operation{Operation::KERNEL, L, nullptr, nullptr});
  return kSuccess;
}
