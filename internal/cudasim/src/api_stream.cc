// Driver calls about streams and events.
#include <unistd.h>

#include <cstring>
#include <set>

#include "config.h"
#include "streams.h"

static std::set<Event*> events;                       // live ones
size_t eventCount() { return events.size(); }

static Event* findEvent(void* handle) { return events.count((Event*)handle) ? (Event*)handle : nullptr; }

static void endCapture(Capture* c) {
  leaveCapture(c);
  for (Event* e : events)
    if (e->capture == c) e->capture = nullptr;
}

// --- Streams ---------------------------------------------------------------------------------------------------------

API cuStreamCreate(void** stream, unsigned flags) {
  ENTER(CONTEXT);
  if (flags & ~1u) return kInvalidValue;
  *stream = newStream(flags, 0);
  return kSuccess;
}
API cuStreamCreateWithPriority(void** stream, unsigned flags, int priority) {
  ENTER(CONTEXT);
  if (flags & ~1u) return kInvalidValue;
  *stream = newStream(flags, priority > 0 ? 0 : priority < -5 ? -5 : priority);
  return kSuccess;
}
API cuStreamDestroy_v2(void* stream) {
  ENTER(FREEING);
  Stream* s = findStream(stream);
  if (!s || !s->index) return kInvalidHandle;
  if (s->capture) endCapture(s->capture);
  destroyStream(s);
  return G.sticky();
}
API cuStreamGetFlags(void* stream, unsigned* flags) {
  ENTER(CONTEXT);
  Stream* s = findStream(stream);
  if (!s) return kInvalidHandle;
  *flags = s->flags;
  return kSuccess;
}
API cuStreamGetPriority(void* stream, int* priority) {
  ENTER(CONTEXT);
  Stream* s = findStream(stream);
  if (!s) return kInvalidHandle;
  *priority = s->priority;
  return kSuccess;
}
API cuStreamSynchronize(void* stream) {
  ENTER(CONTEXT);
  Stream* s = findStream(stream);
  if (!s) return kInvalidHandle;
  if (s->capture) return s->capture->broken = true, kCaptureUnsupported;
  drainStream(s);
  return G.sticky();
}
API cuStreamQuery(void* stream) {
  ENTER(CONTEXT);
  Stream* s = findStream(stream);
  if (!s) return kInvalidHandle;
  if (s->capture) return s->capture->broken = true, kCaptureUnsupported;
  bool complete = pollStream(s);
  return G.sticky() ? G.sticky() : complete ? kSuccess : kNotReady;
}
API cuStreamWaitEvent(void* stream, void* event, unsigned) {
  ENTER(CONTEXT);
  Stream* s = findStream(stream);
  Event* e = findEvent(event);
  if (!s || !e) return kInvalidHandle;
  // Joins the capture; replay keeps the order of capture, so nothing waits.
  if (e->capture) {
    if (s->capture && s->capture != e->capture) return kCaptureInvalidated;
    s->capture = e->capture;
    return kSuccess;
  }
  if (s->capture) return s->capture->broken = true, kCaptureIsolation;       // an event from outside
  if (e->last) enqueue(s, Operation{Operation::WAIT, nullptr, e->last, nullptr});
  return kSuccess;
}

// --- Events ----------------------------------------------------------------------------------------------------------

enum { EVENT_NO_TIMING = 2 };

API cuEventCreate(void** event, unsigned flags) {
  ENTER(CONTEXT);
  if (flags & ~3u) return kInvalidValue;
  Event* e = new Event;
  e->flags = flags;
  e->device = G.device;
  events.insert(e);
  *event = e;
  return kSuccess;
}
API cuEventDestroy_v2(void* event) {
  ENTER(FREEING);
  Event* e = findEvent(event);
  if (!e) return kInvalidHandle;
  events.erase(e);                                    // waits that are queued keep the mark
  delete e;
  return G.sticky();
}
API cuEventRecord(void* event, void* stream) {
  ENTER(CONTEXT);
  Event* e = findEvent(event);
  Stream* s = findStream(stream);
  if (!e || !s || e->device != deviceOf(s)) return kInvalidHandle;
  e->capture = s->capture;
  if (s->capture) return kSuccess;
  e->last = std::make_shared<Mark>();
  enqueue(s, Operation{Operation::RECORD, nullptr, e->last, nullptr});
  return kSuccess;
}
API cuEventQuery(void* event) {
  ENTER(CONTEXT);
  Event* e = findEvent(event);
  if (!e) return kInvalidHandle;
  if (e->capture) return kCapturedEvent;
  bool complete = !e->last || pollMark(e->last);
  return G.sticky() ? G.sticky() : complete ? kSuccess : kNotReady;
}
API cuEventSynchronize(void* event) {
  ENTER(CONTEXT);
  Event* e = findEvent(event);
  if (!e) return kInvalidHandle;
  if (e->capture) return kCapturedEvent;
  if (e->last) drainMark(e->last);
  return G.sticky();
}
API cuEventElapsedTime(float* milliseconds, void* start, void* end) {
  ENTER(CONTEXT);
  Event *a = findEvent(start), *b = findEvent(end);
  if (!a || !b || !a->last || !b->last || (a->flags | b->flags) & EVENT_NO_TIMING) return kInvalidHandle;
  if (!a->last->ran || !b->last->ran) return kNotReady;
  *milliseconds = (b->last->nanoseconds - a->last->nanoseconds) * 1e-6f;
  return kSuccess;
}

// --- Capture and graphs ----------------------------------------------------------------------------------------------

// A graph is the list of captured operations. It is replayed in the order of its capture, as one sequence of the stream
// that launches it: a wait that is missing between the streams of a capture is therefore not found.
struct Graph { std::vector<Operation> operations; };
static std::set<Graph*> graphs;

enum { CAPTURE_RELAXED = 2 };

API cuStreamBeginCapture_v2(void* stream, int mode) {
  ENTER(CONTEXT);
  Stream* s = findStream(stream);
  if (!s || !s->index) return !s ? kInvalidHandle : kCaptureUnsupported;
  if (s->capture) return kInvalidValue;
  s->capture = new Capture;
  s->capture->relaxed = mode == CAPTURE_RELAXED;
  s->captureOrigin = true;
  return kSuccess;
}
API cuStreamEndCapture(void* stream, void** graph) {
  ENTER(CONTEXT);
  Stream* s = findStream(stream);
  if (!s) return kInvalidHandle;
  if (!s->capture) return kInvalidValue;
  if (!s->captureOrigin) return kCaptureUnmatched;
  Capture* c = s->capture;
  endCapture(c);
  s->captureOrigin = false;
  Graph* g = c->broken ? nullptr : new Graph{c->operations};
  if (g) graphs.insert(g);
  *graph = g;
  delete c;
  return g ? kSuccess : kCaptureInvalidated;
}
API cuStreamIsCapturing(void* stream, int* status) {
  ENTER(CONTEXT);
  Stream* s = findStream(stream);
  if (!s) return kInvalidHandle;
  *status = !s->capture ? 0 : s->capture->broken ? 2 : 1;
  return kSuccess;
}
static CUresult instantiate(void** executable, void* graph) {
  if (!graphs.count((Graph*)graph)) return kInvalidValue;
  Graph* g = new Graph{((Graph*)graph)->operations};
  graphs.insert(g);
  *executable = g;
  return kSuccess;
}
API cuGraphInstantiate_v2(void** executable, void* graph, void*, char*, size_t) {
  ENTER(CONTEXT);
  return instantiate(executable, graph);
}
API cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
  ENTER(CONTEXT);
  return instantiate(executable, graph);
}
API cuGraphLaunch(void* executable, void* stream) {
  ENTER(CONTEXT);
  Stream* s = findStream(stream);
  if (!s || !graphs.count((Graph*)executable)) return s ? kInvalidValue : kInvalidHandle;
  for (Operation op : ((Graph*)executable)->operations) {
    auto copy = std::make_shared<Launch>();           // each replay is an operation of its own
    copy->kernel = op.launch->kernel;
    copy->shared = op.launch->shared;
    std::copy(op.launch->grid, op.launch->grid + 3, copy->grid);
    std::copy(op.launch->block, op.launch->block + 3, copy->block);
    // They point into the storage of the captured launch, which the graph keeps.
    copy->args = op.launch->args;
    auto original = op.launch;
    auto work = op.work;
    enqueue(s, Operation{op.kind, std::shared_ptr<Launch>(copy.get(), [copy, original](Launch*) {}), nullptr, work});
  }
  return kSuccess;
}
static CUresult destroyGraph(void* graph) {
  if (!graphs.erase((Graph*)graph)) return kInvalidValue;
  delete (Graph*)graph;
  return G.sticky();
}
API cuGraphDestroy(void* graph) {
  ENTER(FREEING);
  return destroyGraph(graph);
}
API cuGraphExecDestroy(void* executable) {
  ENTER(FREEING);
  return destroyGraph(executable);
}
