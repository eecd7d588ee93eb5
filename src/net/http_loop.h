// The thread in which all requests of a client move, side by side.
#pragma once

#include <memory>

#include "net/http.h"

namespace cairn {

class HttpLoop {
 public:
  HttpLoop();
  // Cancels what is under way.
  ~HttpLoop();
  std::unique_ptr<HttpCall> start(HttpRequest request);

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace cairn
