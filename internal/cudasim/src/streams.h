// Streams, events and what waits on them. Nothing that is queued runs before somebody synchronises or asks; then
// operations run one at a time, in an order that the streams and events allow and that the seed chooses.
#pragma once
#include <deque>
#include <functional>
#include <memory>

#include "sim.h"

struct Mark { bool ran = false; Clock clock; int64_t nanoseconds = 0; };      // one recording of an event
struct Capture;
struct Event {
  unsigned flags = 0;
  int device = 0;
  std::shared_ptr<Mark> last;                         // null: never recorded
  Capture* capture = nullptr;                         // recorded while this was captured
};
struct Operation {
  enum Kind { KERNEL, TRANSFER, RECORD, WAIT } kind;
  std::shared_ptr<Launch> launch;                     // KERNEL, TRANSFER
  std::shared_ptr<Mark> mark;                         // RECORD, WAIT
  std::function<void(Launch*)> work;                  // TRANSFER: what to do, on the worker
  Clock host = {};                                    // what the host knew to be complete when it queued this
};
// Operations taken down in place of being queued. Replayed in the order of their capture, within the stream of the
// launch.
struct Capture {
  std::vector<Operation> operations;
  bool relaxed = false;                               // allows calls that wait or allocate
  bool broken = false;                                // an operation that is not allowed came in between
};
struct Stream {
  int index = 0, priority = 0, device = 0;
  unsigned flags = 0;
  bool destroyed = false;
  std::deque<Operation> queue;
  Clock clock;                                        // what is complete when its last operation is
  Capture* capture = nullptr;
  bool captureOrigin = false;
};

void startWorker();
void onWorker(const std::function<void()>&);

Stream* newStream(unsigned flags, int priority);
Stream* findStream(void* handle);                     // null handle: the default stream; null: no such stream
int deviceOf(const Stream*);                          // the default stream is that of the present device
void destroyStream(Stream*);
size_t streamCount();
bool anyCapture();                                    // while one lasts, calls that wait or allocate are refused
void leaveCapture(Capture*);                          // all its streams

void enqueue(Stream*, Operation);                     // or into the stream's capture
void drainAll();
void drainStream(Stream*);                            // the host then knows that it is complete
void drainMark(const std::shared_ptr<Mark>&);
void runUpTo(const std::shared_ptr<Mark>&);           // the same, but the host does not know
bool pollStream(Stream*);                             // one step of progress, then: is it complete?
bool pollMark(const std::shared_ptr<Mark>&);
void synchronizeHost();                               // the host knows that everything is complete
// Runs work as one operation of the default stream, after everything else, and waits for it: a synchronous copy.
void runSynchronously(std::function<void(Launch*)> work);
void seedStreams(uint64_t seed);
