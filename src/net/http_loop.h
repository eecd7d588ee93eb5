// The threads in which all requests of a client move, side by side. libcurl encrypts and decrypts
// in the thread of its handle: with one, all connections of a store wait for one core.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "net/http.h"

namespace cairn {

// One thread. Safe from several.
class HttpLoop {
 public:
  // std::system_error where no thread is to be had.
  HttpLoop();
  // Its calls live on, and the thread with them: each cancels itself at its end.
  ~HttpLoop();
  std::unique_ptr<HttpCall> start(HttpRequest request);
  // How many were started and are not done. Who has an answer is not among them any more, and its
  // connection is there for the next one.
  int under_way() const;

 private:
  class State;
  std::shared_ptr<State> state_;
};

// As one loop, on two threads. Safe from several.
class HttpLoops {
 public:
  // Each request goes to the loop that has least to do. Those that are sent one after another all
  // go to the first, which has the connections: there are never more of these than requests were
  // under way at once, and one.
  std::unique_ptr<HttpCall> start(HttpRequest request);
  // Of each thread that there is. The second begins when two requests are under way at once.
  std::vector<int> under_way() const;

 private:
  HttpLoop& choose();

  HttpLoop first_;
  mutable std::mutex mutex_;  // of choosing and starting: it goes by what was started before
  std::unique_ptr<HttpLoop> second_;
};

}  // namespace cairn
