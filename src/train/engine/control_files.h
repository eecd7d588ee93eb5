// The files SAVE and STOP in a folder of a store that is far away.
//
//  1. A thread of its own asks the store: training waits for no answer.
//  2. It looks once for each look(); how often that is, is the caller's business. A look is one
//     question for each name.
//  3. What is there is removed first, and then reported, so that it is obeyed once. One that cannot
//     be removed is not reported: it would be obeyed for ever. Behind a removal whose answer was
//     lost it is gone: that is reported, too.
//  4. A store that cannot be asked has nothing: it is asked again by the next look().
//  5. What was removed is kept until somebody takes it, for as long as this object lives: through
//     all fit()s of a Trainer, since one may end between the removal and its next take().
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cairn/storage/object_store.h"

#include "io/threads/cancellation.h"

namespace cairn {

class ControlFiles {
 public:
  ControlFiles(std::shared_ptr<ObjectStore> store, std::string folder,
               std::vector<std::string> names);
  // Ends what is under way.
  ~ControlFiles();
  ControlFiles(const ControlFiles&) = delete;
  ControlFiles& operator=(const ControlFiles&) = delete;

  // Begins to look, and does not wait for it. False while it is looking still, or when no thread is
  // to be had: then this call is as if it had not been.
  bool look();
  // Those of the names that were found since the last call, in their order.
  std::vector<std::string> take();

 private:
  void run();
  void look_for_all();
  bool take_away(const std::string& name);

  const std::shared_ptr<ObjectStore> store_;
  const std::string folder_;
  const std::vector<std::string> names_;
  Cancellation cancellation_{"training is over"};
  std::set<std::string> seen_;  // and not known to be removed; the thread's own

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_asked_ = false;  // from look() until all was looked for
  bool is_over_ = false;
  std::set<std::string> found_;
  std::thread thread_;
};

}  // namespace cairn
