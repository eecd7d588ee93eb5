#include "dist/job_id.h"

#include <fmt/format.h>

#include <cstdint>
#include <vector>

#include "cairn/dist/dist.h"
#include "cairn/error.h"

#include "io/durable/atomic_file.h"

namespace cairn::dist {
namespace {

const std::string kIdKey = "job";
const std::string kSizeKey = "world_size";
const std::string kMade = "made by rank 0";

bool is_made(const std::string& id) { return id.starts_with(kMade); }

void write(c10d::Store& door, const std::string& key, const std::string& text) {
  door.set(key, std::vector<std::uint8_t>(text.begin(), text.end()));
}

std::string read(c10d::Store& door, const std::string& key) {
  const std::vector<std::uint8_t> bytes = door.get(key);
  return {bytes.begin(), bytes.end()};
}

std::string shown(const std::string& id) {
  return id.empty() || is_made(id) ? "has no id" : "has the id \"" + id + "\"";
}

std::string place_of(const Launch& launch) {
  return launch.master_addr + ":" + std::to_string(*launch.master_port);
}

void wait_for_rank_zero(c10d::Store& door, const Launch& launch,
                        std::chrono::milliseconds timeout) {
  try {
    door.wait({kIdKey}, timeout);
  } catch (const std::exception& error) {
    const std::string why = error.what();
    throw DistError(
        fmt::format("rank {} of {}: meeting at {} failed: rank 0 did not come ({}). Look into the "
                    "log of that process, and whether another program listens there",
                    launch.rank, launch.world_size, place_of(launch),
                    why.substr(0, why.find('\n'))),
        {0});
  }
}

}  // namespace

std::string agree_on_job(c10d::Store& door, const Launch& launch,
                         std::chrono::milliseconds timeout) {
  const std::string size = std::to_string(launch.world_size);
  if (launch.rank == 0) {
    std::string id = launch.job_id;
    // torchrun's store outlives the group, so ranks could read a random id that an earlier group
    // left in the store.
    if (id.empty()) id = kMade + (launch.is_store_hosted ? "" : ", " + random_digits());
    write(door, kSizeKey, size);
    write(door, kIdKey, id);
    return id;
  }
  wait_for_rank_zero(door, launch, timeout);
  const std::string id = read(door, kIdKey);
  if (launch.job_id.empty() ? !is_made(id) : launch.job_id != id) {
    throw DistError(
        fmt::format("rank {} of {} met another job at {}: the job of this rank {}, and the one "
                    "that listens there {}. End that job, or set MASTER_PORT to another port",
                    launch.rank, launch.world_size, place_of(launch), shown(launch.job_id),
                    shown(id)),
        {});
  }
  const std::string said = read(door, kSizeKey);
  if (said != size) {
    throw UsageError(fmt::format(
        "rank {} was started as one of {} ranks, and rank 0, which listens at {}, as one of {}: "
        "WORLD_SIZE must be the same on all ranks",
        launch.rank, size, place_of(launch), said));
  }
  return id;
}

}  // namespace cairn::dist
