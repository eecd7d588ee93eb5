#include "resuming/node_copy.h"

#include <algorithm>
#include <vector>

#include "cairn/checkpoint/copy.h"
#include "cairn/dist/dist.h"
#include "cairn/error.h"
#include "cairn/storage/stores.h"

#include "checkpoint/ranks/joint_store.h"
#include "core/text/printable.h"
#include "dist/group.h"
#include "dist/team.h"
#include "io/file.h"
#include "storage/place.h"

namespace cairn {
namespace {

// The ranks on this rank's machine, in order.
std::vector<std::size_t> ranks_here() {
  std::vector<std::size_t> ranks;
  const std::vector<std::string> nodes = dist::machines_of_ranks();
  for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
    if (nodes[rank] == nodes[static_cast<std::size_t>(dist::rank())]) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace

NodeCopy::NodeCopy(const LoadJob& job, bool in_parts, Logger& logger) : nearest_(job) {
  if (dist::world_size() == 1 || in_parts || !job.options.store->may_be_far()) return;
  constexpr std::size_t kWorthItForWeights = 3;
  const std::vector<std::size_t> here = ranks_here();
  const std::size_t least = job.options.load_weights_only ? kWorthItForWeights : 2;
  const bool is_here = job.joint != nullptr && job.joint->is_all_here(job.path);
  const bool fetches =
      !is_here && here.size() >= least && here.front() == static_cast<std::size_t>(dist::rank());
  const std::string own = fetches ? fetch(job, logger) : std::string();
  const std::string path = Team::of_job().gather_all(own).at(here.front()).as_str();
  const auto local = local_store();
  if (path.empty() || !local->stat(path)) return;
  nearest_.path = path;
  nearest_.checkpoint.reset();
  nearest_.options.store = local;
}

// Returns "" if copying failed.
std::string NodeCopy::fetch(const LoadJob& job, Logger& logger) {
  const dist::LongWork long_work;
  try {
    folder_.emplace("cairn-copy");
    return copy_checkpoint(job.path, folder_->path() + "/",
                           {.verify = Verify::kQuick,  // Loading checks every byte.
                            .from_store = job.options.store,
                            .to_store = local_store()})
        .path;
  } catch (const Error& error) {
    folder_.reset();
    logger.log_message("warning: there is no copy of " + printable_line(job.path) +
                       " for the processes of this machine, so each of them reads it itself: " +
                       printable_line(error.what()));
    return {};
  }
}

}  // namespace cairn
