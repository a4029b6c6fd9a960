// Shared memory. Each __shared__ variable is thread_local of the worker, so all of them lie in this library's TLS
// block. Which variable lies where is read from the symbol table of our own file.
#include <dlfcn.h>
#include <link.h>

#include <cstdio>
#include <cstring>

#include "findings.h"
#include "sim.h"

extern "C" thread_local char cudasim_dynamic_shared[kDynamicShared];   // in the generated dynamic.cc, with its aliases

static uintptr_t tlsLo, tlsSize, dynamicLo;
static Shadow cells;
static uint32_t *seen, *initialised;                  // by cell: the block that used it, that wrote it
static std::vector<uint16_t> owner;                   // by cell: the variable, as an index of owners; 0: none
static std::vector<Kernel*> owners;                   // null: of no kernel (dynamic shared memory)

bool isShared(uintptr_t a) { return a - tlsLo < tlsSize; }

static bool outside(uintptr_t a, unsigned size) {
  if (a - dynamicLo < kDynamicShared) return a + size > dynamicLo + G.launch->shared;
  if (owner.empty()) return false;                    // a stripped library: not checked
  size_t first = (a - tlsLo) >> 2, last = (a + size - 1 - tlsLo) >> 2;
  if (last >= owner.size()) return true;
  uint16_t o = owner[first];
  return !o || owner[last] != o || (owners[o] && owners[o] != G.launch->kernel);
}

Shadow sharedCells(uintptr_t a, unsigned size, Kind kind, int pc) {
  if (unlikely(outside(a, size))) badAddress(a, size, kind == READ ? "read" : kind == WRITE ? "write" : "atomic", pc);
  size_t at = (a - tlsLo) >> 2, n = ((a & 3) + size + 3) >> 2;
  Shadow c = cells.at(at);
  for (size_t i = 0; i < n; i++) {
    if (seen[at + i] != G.blockStamp) {               // the same bytes were another block's before
      seen[at + i] = G.blockStamp;
      c.w[i].lanes = c.r[i].lanes = 0;
    }
    if (kind == WRITE) initialised[at + i] = G.blockStamp;
    else if (unlikely(initialised[at + i] != G.blockStamp)) {
      report(kLaunchFailed, "UNINITIALISED shared memory is read at %s by %s", place(pc).c_str(), whoAmI().c_str());
      initialised[at + i] = G.blockStamp;             // once is enough
    }
  }
  return c;
}

std::string sharedComplaint() {
  char b[100];
  snprintf(b, sizeof b, "OUT OF BOUNDS of shared memory (dynamic size of this launch: %u bytes)", G.launch->shared);
  return b;
}

// --- Start -----------------------------------------------------------------------------------------------------------

static int lookAtSegments(dl_phdr_info* info, size_t, void* base) {
  uintptr_t self = (uintptr_t)&initShared, lo = ~0ull, hi = 0;
  bool us = false;
  for (int k = 0; k < info->dlpi_phnum; k++) {
    auto& p = info->dlpi_phdr[k];
    if (p.p_type != PT_LOAD) continue;
    uintptr_t from = info->dlpi_addr + p.p_vaddr, to = from + p.p_memsz;
    us |= self >= from && self < to;
    if (from < lo) lo = from;
    if (to > hi) hi = to;
  }
  if (!us) return 0;
  G.imageLo = lo;
  G.imageHi = hi;
  *(uintptr_t*)base = info->dlpi_addr;
  for (int k = 0; k < info->dlpi_phnum; k++)
    if (info->dlpi_phdr[k].p_type == PT_TLS) {
      tlsLo = (uintptr_t)info->dlpi_tls_data;
      tlsSize = info->dlpi_phdr[k].p_memsz;
    }
  return 1;
}

// A static shared variable of an extern "C" kernel is the symbol _ZZ<length><kernel>E<variable>.
static Kernel* kernelOfSymbol(const char* name) {
  if (strncmp(name, "_ZZ", 3)) return nullptr;
  char* rest;
  long length = strtol(name + 3, &rest, 10);
  return length > 0 && (size_t)length <= strlen(rest) ? findKernel(std::string(rest, length)) : nullptr;
}

static void readSymbols() {
  FILE* f = fopen(ownPath().c_str(), "rb");
  if (!f) return;
  std::string b;
  char buffer[65536];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, f));) b.append(buffer, n);
  fclose(f);
  if (b.size() < sizeof(ElfW(Ehdr))) return;
  auto* head = (const ElfW(Ehdr)*)b.data();
  auto* section = (const ElfW(Shdr)*)(b.data() + head->e_shoff);
  for (int i = 0; i < head->e_shnum; i++) {
    if (section[i].sh_type != SHT_SYMTAB) continue;
    owner.assign(tlsSize / 4 + 8, 0);
    owners.assign(1, nullptr);
    auto* symbol = (const ElfW(Sym)*)(b.data() + section[i].sh_offset);
    const char* names = b.data() + section[section[i].sh_link].sh_offset;
    for (size_t k = 0; k < section[i].sh_size / sizeof *symbol; k++) {
      const auto& s = symbol[k];
      if (ELF64_ST_TYPE(s.st_info) != STT_TLS || !s.st_size) continue;
      Kernel* kernel = kernelOfSymbol(names + s.st_name);
      owners.push_back(kernel);
      if (kernel) kernel->staticShared += s.st_size;
      for (uintptr_t o = s.st_value; o < s.st_value + s.st_size; o += 4) owner[o >> 2] = owners.size() - 1;
    }
  }
}

void initShared() {                                   // on the worker: addresses of TLS are those of this thread
  *(volatile char*)cudasim_dynamic_shared = 0;        // has the loader allocate our TLS now, on a big stack
  dynamicLo = (uintptr_t)cudasim_dynamic_shared;
  uintptr_t base = 0;
  dl_iterate_phdr(lookAtSegments, &base);
  initPlaces(base);
  readSymbols();
  cells = newShadow(tlsSize);
  seen = (uint32_t*)reserve(tlsSize + 64);
  initialised = (uint32_t*)reserve(tlsSize + 64);
}
