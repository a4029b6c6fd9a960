// Device memory that several processes share. A handle says which memory of which process it is; opening it maps that
// memory to addresses of this process's own device. Each process checks its own kernels only: races between two are not
// found.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "config.h"
#include "findings.h"
#include "memory.h"
#include "streams.h"

typedef unsigned long long Device;                    // CUdeviceptr

static constexpr uintptr_t kPage = 4096;
static const char kMagic[8] = "khopsim";

struct Handle {                                       // CUipcMemHandle
  char magic[8];
  int pid, fd;
  uint64_t inode, offset, bytes;
  int device;
  char reserved[20];
};
static_assert(sizeof(Handle) == 64, "what CUDA gives for a handle");

struct Import { Handle of; Range* range; uintptr_t pages; size_t span; int count; };
static std::map<uintptr_t, Import> imports;           // by the address that was given out

API cuIpcGetMemHandle(Handle* h, Device p) {
  ENTER(CONTEXT);
  Range* r = findRange(p);
  if (!h || !r || r->lo != p || r->origin != Range::ALLOCATION) return kInvalidValue;
  ArenaFile f = arenaFile(p);
  struct stat s;
  if (fstat(f.fd, &s)) return kNotSupported;
  memset(h, 0, sizeof *h);
  memcpy(h->magic, kMagic, sizeof kMagic);
  h->pid = getpid();
  h->fd = f.fd;
  h->inode = s.st_ino;
  h->offset = f.offset;
  h->bytes = r->bytes();
  h->device = r->device;
  return kSuccess;
}

// Opens the file that a handle is of, if its process is alive and it is the same.
static int openFile(const Handle& h) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", h.pid, h.fd);
  int fd = open(path, O_RDWR | O_CLOEXEC);
  struct stat s;
  if (fd >= 0 && (fstat(fd, &s) || s.st_ino != h.inode || h.offset + h.bytes > (uint64_t)s.st_size)) {
    close(fd);
    fd = -1;
  }
  return fd;
}

API cuIpcOpenMemHandle_v2(Device* p, Handle h, unsigned flags) {
  ENTER(CONTEXT);
  if (!p || flags != 1 || memcmp(h.magic, kMagic, sizeof kMagic) || !h.bytes || h.bytes > G.config.memory)
    return kInvalidValue;
  if (h.pid == getpid()) return kInvalidContext;      // the real one refuses its own, too
  if (h.device != G.device && !mayPeer(G.device, h.device)) return kPeerUnsupported;
  for (auto& [at, i] : imports) {
    if (memcmp(&i.of, &h, sizeof h)) continue;
    i.count++;
    *p = at;
    return kSuccess;
  }
  int fd = openFile(h);
  if (fd < 0) return kInvalidValue;
  // Whole pages of an allocation give way to those of the file; what was exported begins anywhere in the first.
  uintptr_t within = h.offset % kPage;
  size_t span = (within + h.bytes + kPage - 1) / kPage * kPage;
  CUresult rc = kOutOfMemory;
  if (Range* r = allocateDevice(span + kPage)) {
    uintptr_t pages = r->lo / kPage * kPage + kPage;
    if (mapArena(pages, span, {fd, (off_t)(h.offset - within)})) {
      *p = pages + within;
      imports[*p] = {h, r, pages, span, 1};
      rc = kSuccess;
    } else {
      freeDevice(r);
    }
  }
  close(fd);
  return rc;
}

API cuIpcCloseMemHandle(Device p) {
  ENTER(FREEING);
  auto it = imports.find(p);
  if (it == imports.end()) return kInvalidValue;
  if (--it->second.count) return G.sticky();
  drainAll();                                         // the real one waits for the device, too
  Import i = it->second;
  imports.erase(it);
  if (!mapArena(i.pages, i.span, arenaFile(i.pages))) return kOutOfMemory;
  freeDevice(i.range);
  return G.sticky();
}
