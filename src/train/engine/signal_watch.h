// Signals that ask for a save or a stop, from a Trainer's construction to its end.
//
//  1. While any SignalWatch lives, the process has handlers for SIGTERM, SIGINT, SIGUSR1 and
//     SIGUSR2. The last watch restores the previous handlers. Signals that the process was started
//     to ignore stay ignored.
//  2. The handlers only set flags, which take_signals() clears. A request that comes before fit()
//     is remembered until fit() serves it.
//  3. While a Trainer evaluates outside fit() or is about to be closed, nothing serves requests. A
//     SIGTERM or SIGINT that comes then takes its previous effect (that of the previous handler) at
//     once. SIGUSR1 and SIGUSR2 are remembered for the next fit(). Signals that came while a fit()
//     was under way are remembered, too.
//  4. A second SIGTERM or SIGINT takes its previous effect at any time.
#pragma once

namespace cairn {

// May be constructed and destroyed on any thread.
class SignalWatch {
 public:
  SignalWatch();  // Expects that the owner will serve.
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  // Whether the owner is going to serve requests.
  void expect_to_serve(bool will_serve);
  bool expects_to_serve() const { return serving_; }

 private:
  bool serving_ = false;
};

struct AskedSignals {
  int save = 0;  // SIGUSR2, or 0
  int stop = 0;  // SIGTERM, SIGINT or SIGUSR1, or 0
};
// The signals since the last call.
AskedSignals take_signals();
bool is_stop_asked();
// Gives a remembered SIGTERM or SIGINT its previous effect now, unless a watch expects to serve it.
// Other signals stay remembered.
void leave_if_interrupted();

}  // namespace cairn
