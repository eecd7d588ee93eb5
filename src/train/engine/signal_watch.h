// Signals that ask for a save or a stop, from a Trainer's construction to its end.
//
//  1. While any SignalWatch lives the process has handlers for SIGTERM, SIGINT, SIGUSR1 and
//  SIGUSR2;
//     the last one puts back those of before. Signals that the program was started to ignore stay
//     ignored.
//  2. The handlers only set flags, which take_signals() empties: a request that comes before fit()
//     is remembered until fit() serves it.
//  3. Nobody serves a request while a Trainer outside of fit() evaluates or is about to be closed.
//     SIGTERM and SIGINT that come then have the effect of before, at once; SIGUSR1 and SIGUSR2 are
//     remembered for the next fit(). So is what came while a fit() was under way.
//  4. A second SIGTERM or SIGINT has the effect of before at any time.
#pragma once

namespace cairn {

// Constructed and destroyed in any thread.
class SignalWatch {
 public:
  SignalWatch();  // expects to serve
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  // Whether the owner will come to serve what is asked.
  void expect_to_serve(bool will_serve);
  bool expects_to_serve() const { return serving_; }

 private:
  bool serving_ = false;
};

struct AskedSignals {
  int save = 0;  // SIGUSR2, or 0
  int stop = 0;  // SIGTERM, SIGINT or SIGUSR1, or 0
};
// What was asked since the last call.
AskedSignals take_signals();
bool is_stop_asked();
// Lets a SIGTERM or SIGINT that was remembered have its effect now, unless a watch expects to serve
// it. Others stay remembered.
void leave_if_interrupted();

}  // namespace cairn
