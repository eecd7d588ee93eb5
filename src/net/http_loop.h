// The threads on which all requests of a client run concurrently. libcurl encrypts and decrypts on
// the thread of its handle: with one thread, all connections of a store would share one core.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "net/http.h"

namespace cairn {

// One thread. Its functions are thread-safe.
class HttpLoop {
 public:
  // Throws std::system_error if no thread can be started.
  HttpLoop();
  // Calls may outlive this object, and keep the thread alive. Each call cancels itself when it is
  // destroyed.
  ~HttpLoop();
  std::unique_ptr<HttpCall> start(HttpRequest request);
  // The number of requests that are started and not done. A request that has its answer no longer
  // counts: its connection is free for the next one.
  int under_way() const;

 private:
  class State;
  std::shared_ptr<State> state_;
};

// Like HttpLoop, on two threads. Thread-safe.
class HttpLoops {
 public:
  // Each request goes to the loop that has fewer requests. Requests that are sent one after another
  // all go to the first loop, which has the open connections. So the number of connections exceeds
  // the largest number of simultaneous requests by at most one.
  std::unique_ptr<HttpCall> start(HttpRequest request);
  // The number for each thread. The second thread starts when two requests are first under way at
  // once.
  std::vector<int> under_way() const;

 private:
  HttpLoop& choose();

  HttpLoop first_;
  // Held while a loop is chosen and the request starts: the choice depends on the started requests.
  mutable std::mutex mutex_;
  std::unique_ptr<HttpLoop> second_;
};

}  // namespace cairn
