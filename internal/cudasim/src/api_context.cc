// Driver calls about the driver, the device, its contexts and errors.
#include <pthread.h>

#include <cstdio>
#include <cstring>

#include "config.h"
#include "findings.h"
#include "judging.h"
#include "memory.h"
#include "streams.h"

// The primary contexts, and those that cuCtxCreate makes. A context says which device it is of, and little more.
struct Context { bool live = false, primary = false; int users = 0; unsigned flags = 0; int device = 0; };
static Context primaries[kMaxDevices];
static bool started;
// A thread_local would give each thread of the host a copy of all shared memory.
static pthread_key_t currentKey;
typedef std::vector<Context*> Stack;

static Stack& contextStack() {
  auto* s = (Stack*)pthread_getspecific(currentKey);
  if (!s) pthread_setspecific(currentKey, s = new Stack);
  return *s;
}

bool driverStarted() { return started; }
void* currentContext() { return contextStack().empty() ? nullptr : contextStack().back(); }
bool contextIsLive(void* c) { return ((Context*)c)->live; }
int deviceOfContext(void* c) { return ((Context*)c)->device; }
void* primaryContext(int device) { return &primaries[device]; }
static bool noDevice(int device) { return device < 0 || device >= G.config.devices; }

static void setCurrent(Context* c) {
  Stack& s = contextStack();
  if (!s.empty()) s.pop_back();
  if (c) s.push_back(c);
}

// --- Driver and device -----------------------------------------------------------------------------------------------

API cuInit(unsigned flags) {
  ENTER(NOTHING);
  if (flags) return kInvalidValue;
  if (!started) {
    started = true;
    pthread_key_create(&currentKey, [](void* s) { delete (Stack*)s; });
    readEnvironment();
    initJudge();
    seedStreams(G.config.seed);
    startWorker();
  }
  return G.config.devices ? kSuccess : kNoDevice;
}
API cuDriverGetVersion(int* version) {
  ENTER(NOTHING);
  readEnvironment();
  *version = G.config.driver;
  return kSuccess;
}
API cuDeviceGetCount(int* n) {
  ENTER(INITIALIZED);
  *n = G.config.devices;
  return kSuccess;
}
API cuDeviceGet(int* device, int ordinal) {
  ENTER(INITIALIZED);
  if (noDevice(ordinal)) return kInvalidDevice;
  *device = ordinal;
  return kSuccess;
}
API cuDeviceGetName(char* name, int length, int device) {
  ENTER(INITIALIZED);
  if (noDevice(device)) return kInvalidDevice;
  if (length > 0) {
    strncpy(name, G.config.mig ? "khop CUDA simulator MIG 1g.10gb" : "khop CUDA simulator", length);
    name[length - 1] = 0;
  }
  return kSuccess;
}
// The board's, or of an instance its own.
static CUresult uuid(char* out, int device, bool own) {
  if (noDevice(device)) return kInvalidDevice;
  memcpy(out, own && G.config.mig ? "khop-cuda-mig-00" : "khop-cuda-sim-00", 16);
  out[15] += device;
  return kSuccess;
}
API cuDeviceGetUuid(char* out, int device) {
  ENTER(INITIALIZED);
  return uuid(out, device, G.config.driver >= 13000);
}
API cuDeviceGetUuid_v2(char* out, int device) {
  ENTER(INITIALIZED);
  return uuid(out, device, true);
}
API cuDeviceTotalMem_v2(size_t* bytes, int device) {
  ENTER(INITIALIZED);
  if (noDevice(device)) return kInvalidDevice;
  *bytes = G.config.memory;
  return kSuccess;
}
API cuDeviceGetAttribute(int* value, int number, int device) {
  ENTER(INITIALIZED);
  if (noDevice(device)) return kInvalidDevice;
  if (number <= 0) return kInvalidValue;
  *value = attribute(number);
  if (number == kPciBus) *value += device;
  return kSuccess;
}
API cuDeviceGetPCIBusId(char* out, int length, int device) {
  ENTER(INITIALIZED);
  if (noDevice(device) || length < 13) return noDevice(device) ? kInvalidDevice : kInvalidValue;
  snprintf(out, length, "0000:%02x:00.0", (unsigned char)(attribute(kPciBus) + device));
  return kSuccess;
}

// --- Peers: whether kernels of one device reach the memory of another ------------------------------------------------

API cuDeviceCanAccessPeer(int* can, int device, int other) {
  ENTER(INITIALIZED);
  if (noDevice(device) || noDevice(other)) return kInvalidDevice;
  *can = mayPeer(device, other);
  return kSuccess;
}
API cuCtxEnablePeerAccess(void* context, unsigned flags) {
  ENTER(CONTEXT);
  if (!context || !contextIsLive(context)) return kInvalidContext;
  int other = deviceOfContext(context);
  if (flags) return kInvalidValue;
  if (other == G.device) return kInvalidDevice;
  if (!mayPeer(G.device, other)) return kPeerUnsupported;
  return letReach(G.device, other, true) ? kSuccess : kPeerEnabled;
}
API cuCtxDisablePeerAccess(void* context) {
  ENTER(CONTEXT);
  if (!context || !contextIsLive(context)) return kInvalidContext;
  return letReach(G.device, deviceOfContext(context), false) ? kSuccess : kPeerNotEnabled;
}

// --- Primary context -------------------------------------------------------------------------------------------------

API cuDevicePrimaryCtxRetain(void** context, int device) {
  ENTER(INITIALIZED);
  if (noDevice(device)) return kInvalidDevice;
  Context& primary = primaries[device];
  primary.live = primary.primary = true;
  primary.device = device;
  primary.users++;
  *context = &primary;
  return kSuccess;
}
API cuDevicePrimaryCtxRelease_v2(int device) {
  ENTER(INITIALIZED);
  if (noDevice(device)) return kInvalidDevice;
  Context& primary = primaries[device];
  if (!primary.users) return kInvalidContext;
  if (--primary.users == 0) primary.live = false;
  return kSuccess;
}
API cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
  ENTER(INITIALIZED);
  if (noDevice(device)) return kInvalidDevice;
  *flags = primaries[device].flags;
  *active = primaries[device].live;
  return kSuccess;
}
API cuDevicePrimaryCtxSetFlags_v2(int device, unsigned flags) {
  ENTER(INITIALIZED);
  if (noDevice(device)) return kInvalidDevice;
  primaries[device].flags = flags;
  return kSuccess;
}
API cuDevicePrimaryCtxReset_v2(int device) {
  ENTER(INITIALIZED);
  report(kInvalidContext, "PRIMARY CONTEXT RESET: everybody in the process shares it; release it in place of that");
  return noDevice(device) ? kInvalidDevice : kSuccess;
}

// --- Current context -------------------------------------------------------------------------------------------------

API cuCtxCreate_v2(void** context, unsigned flags, int device) {
  ENTER(INITIALIZED);
  if (noDevice(device)) return kInvalidDevice;
  Context* c = new Context;
  c->live = true;
  c->flags = flags;
  c->device = device;
  contextStack().push_back(c);
  *context = c;
  return kSuccess;
}
API cuCtxDestroy_v2(void* context) {
  ENTER(INITIALIZED);
  Context* c = (Context*)context;
  if (!c || c->primary || !c->live) return kInvalidContext;
  // Never deleted: other threads may still have it as their current one.
  c->live = false;
  if (currentContext() == c) contextStack().pop_back();
  return kSuccess;
}
API cuCtxSetCurrent(void* context) {
  ENTER(INITIALIZED);
  if (context && !contextIsLive(context)) return kInvalidContext;
  setCurrent((Context*)context);
  return kSuccess;
}
API cuCtxGetCurrent(void** context) {
  ENTER(INITIALIZED);
  *context = currentContext();
  return kSuccess;
}
API cuCtxPushCurrent_v2(void* context) {
  ENTER(INITIALIZED);
  if (!context || !contextIsLive(context)) return kInvalidContext;
  contextStack().push_back((Context*)context);
  return kSuccess;
}
API cuCtxPopCurrent_v2(void** context) {
  ENTER(INITIALIZED);
  if (contextStack().empty()) return kInvalidContext;
  if (context) *context = currentContext();
  contextStack().pop_back();
  return kSuccess;
}
API cuCtxGetDevice(int* device) {
  ENTER(CONTEXT);
  *device = G.device;
  return kSuccess;
}
API cuCtxGetFlags(unsigned* flags) {
  ENTER(CONTEXT);
  *flags = ((Context*)currentContext())->flags;
  return kSuccess;
}
API cuCtxGetApiVersion(void*, unsigned* version) {
  ENTER(INITIALIZED);
  *version = 3020;
  return kSuccess;
}
API cuCtxSynchronize() {
  ENTER(CONTEXT);
  if (anyCapture()) return kCaptureUnsupported;
  synchronizeHost();
  return G.sticky();
}
API cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  ENTER(CONTEXT);
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return kSuccess;
}
API cuCtxGetLimit(size_t* value, int) {
  ENTER(CONTEXT);
  *value = 1024;
  return kSuccess;
}
API cuCtxSetLimit(int, size_t) {
  ENTER(CONTEXT);
  return kSuccess;
}
API cuCtxGetCacheConfig(int* config) {
  ENTER(CONTEXT);
  *config = 0;
  return kSuccess;
}
API cuCtxSetCacheConfig(int) {
  ENTER(CONTEXT);
  return kSuccess;
}
API cuCtxGetSharedMemConfig(int* config) {
  ENTER(CONTEXT);
  *config = 1;
  return kSuccess;
}
API cuCtxSetSharedMemConfig(int) {
  ENTER(CONTEXT);
  return kSuccess;
}

// --- Errors ----------------------------------------------------------------------------------------------------------

struct ErrorText { int code; const char *name, *text; };
static const ErrorText errors[] = {
  {0, "CUDA_SUCCESS", "no error"},
  {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
  {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
  {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
  {4, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
  {46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"},
  {79, "CUDA_ERROR_CONTAINED", "Invalid access of peer GPU memory over nvlink or a hardware error"},
  {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
  {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
  {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
  {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
  {208, "CUDA_ERROR_ALREADY_MAPPED", "resource already mapped"},
  {209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
  {214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
  {217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "peer access is not supported between these two devices"},
  {218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
  {220, "CUDA_ERROR_NVLINK_UNCORRECTABLE", "uncorrectable NVLink error detected during the execution"},
  {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain."},
  {304, "CUDA_ERROR_OPERATING_SYSTEM", "OS call failed or operation not supported on this OS"},
  {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
  {401, "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"},
  {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
  {600, "CUDA_ERROR_NOT_READY", "device not ready"},
  {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
  {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
  {702, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"},
  {704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"},
  {705, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "peer access has not been enabled"},
  {708, "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE", "cannot set while device is active in this process"},
  {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
  {710, "CUDA_ERROR_ASSERT", "device-side assert triggered"},
  {712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "part or all of the requested memory range is already mapped"},
  {713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "pointer does not correspond to a registered memory region"},
  {714, "CUDA_ERROR_HARDWARE_STACK_ERROR", "hardware stack error"},
  {715, "CUDA_ERROR_ILLEGAL_INSTRUCTION", "an illegal instruction was encountered"},
  {716, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
  {717, "CUDA_ERROR_INVALID_ADDRESS_SPACE", "operation not supported on global/shared address space"},
  {718, "CUDA_ERROR_INVALID_PC", "invalid program counter"},
  {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
  {800, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
  {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
  {802, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"},
  {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "system has unsupported display driver / cuda driver combination"},
  {804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", "forward compatibility was attempted on non supported HW"},
  {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
  {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"},
  {903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "capture was not ended in the same stream as it began"},
  {904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"},
  {907, "CUDA_ERROR_CAPTURED_EVENT", "operation not permitted on an event last recorded in a capturing stream"},
  {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};
static const ErrorText* errorText(int code) {
  for (const ErrorText& e : errors)
    if (e.code == code) return &e;
  return nullptr;
}
API cuGetErrorName(int code, const char** name) {
  const ErrorText* e = errorText(code);
  *name = e ? e->name : nullptr;
  return e ? kSuccess : kInvalidValue;
}
API cuGetErrorString(int code, const char** text) {
  const ErrorText* e = errorText(code);
  *text = e ? e->text : nullptr;
  return e ? kSuccess : kInvalidValue;
}
