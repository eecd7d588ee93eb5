// The files SAVE and STOP in a folder of a far store.
//
//  1. A separate thread asks the store, so training waits for no answer.
//  2. The thread looks once per call of look(); the caller decides how often. A look costs one
//     request per name.
//  3. A file that exists is removed first and then reported, so that it is obeyed once. A file that
//     cannot be removed is not reported, or it would be obeyed forever. If the answer to a removal
//     was lost and the file is gone at the next look, it is reported.
//  4. If the store cannot be reached, nothing is found; the next look() asks again.
//  5. A removed name is kept until take(), for the life of this object. So the name outlives a
//     fit() that ends between the removal and the next take().
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
  // Cancels a look that is under way.
  ~ControlFiles();
  ControlFiles(const ControlFiles&) = delete;
  ControlFiles& operator=(const ControlFiles&) = delete;

  // Starts a look and returns at once. Returns false, and does nothing, if the previous look still
  // runs or no thread can be started.
  bool look();
  // The names found since the last call, in the order of `names`.
  std::vector<std::string> take();

 private:
  void run();
  void look_for_all();
  bool take_away(const std::string& name);

  const std::shared_ptr<ObjectStore> store_;
  const std::string folder_;
  const std::vector<std::string> names_;
  Cancellation cancellation_{"training is over"};
  std::set<std::string> seen_;  // Found, removal not confirmed. Only the thread uses it.

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_asked_ = false;  // From look() until every name has been looked for.
  bool is_over_ = false;
  std::set<std::string> found_;
  std::thread thread_;
};

}  // namespace cairn
