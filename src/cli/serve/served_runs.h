// The runs that `cairn serve` shows: finds them, and reads what is new of them.
//
//  1. The place is the folder of a run, or a folder of such folders. It is listed again every so
//     often: new runs appear.
//  2. The log of each run is read on from where it was read. The checkpoints of a run that a page
//     shows are listed again if something in their folders has changed, or one could not be read.
//  3. If no page shows a run, only its newest checkpoints are looked at. When it has ended, all
//     except its status is forgotten, until its log or its folders change.
//
// So a refresh costs what is new, and a call or two for each run.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/report/gathered_run.h"
#include "cli/runs/run_status.h"

namespace cairn::cli {

using SteadyTime = std::chrono::steady_clock::time_point;

class ServedRuns {
 public:
  // Throws what store_of() throws. Looks at nothing yet.
  explicit ServedRuns(std::string place);
  ~ServedRuns();
  ServedRuns(const ServedRuns&) = delete;
  ServedRuns& operator=(const ServedRuns&) = delete;

  // Looks at what has changed. `shown`: the names of the runs of which all() is wanted. Throws what
  // listing the place throws. An error that one run alone has is the `problem` of its status, whose
  // rest is older then.
  void refresh(const std::set<std::string>& shown, SteadyTime now);

  // Reads what refresh() leaves out of runs that no page showed until now.
  void complete(const std::set<std::string>& shown, SteadyTime now);

  // How all runs stand, by name: the name of a run is that of its folder.
  std::vector<RunStatus> runs() const;
  // All that is known of those runs, except for those that are gone.
  std::vector<GatheredRun> all(const std::set<std::string>& shown) const;
  // How many folders may hold runs and were not looked at.
  std::size_t not_looked_at() const { return not_looked_at_; }
  bool is_far() const { return is_far_; }
  // Another number when something that the functions above give has changed.
  std::uint64_t revision() const { return revision_; }

 private:
  class Run;

  void look_for_runs();

  std::string place_;
  std::shared_ptr<ObjectStore> store_;
  bool is_far_;
  std::optional<SteadyTime> found_at_ = std::nullopt;
  std::size_t not_looked_at_ = 0;
  std::uint64_t revision_ = 0;
  std::map<std::string, std::unique_ptr<Run>> runs_;
};

}  // namespace cairn::cli
