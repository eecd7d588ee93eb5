// Finds ranks that must hold the same weights, and do not. A rank that clips gradients differently,
// or whose callback changes a weight, trains another model, and no collective notices.
//
//  1. At a save each rank hashes its parameters: all of them in a data-parallel run, its rows in a
//     hybrid-sharded one. Buffers (BatchNorm) and gradients may differ, and are not compared.
//  2. The rank that writes one file hashes the copies that the save makes, on a thread of its own.
//     The others hash live memory at once: they would only wait for the rank that copies.
//  3. At the next save and at the end of fit() the ranks exchange digests of their hashes and of
//     their learning rates. If these differ, they exchange all hashes, to name the first parameter.
//  4. Ranks whose processors or libtorch round differently are not compared with one another.
#pragma once

#include <cstdint>
#include <future>
#include <string>
#include <vector>

#include "cairn/export.h"
#include "cairn/tensor.h"

#include "checkpoint/plan/save_job.h"

namespace CAIRN_PUBLIC cairn {
class State;
}  // namespace cairn

namespace cairn {

class ReplicaCheck {
 public:
  // Steps 3 and 1, for a save. All ranks call it together, before anything that can fail on one
  // rank alone. With `hashes_copies` this rank calls hash_copies() for the save, otherwise begin()
  // hashes. Throws TrainingError, on all ranks alike, with the parameter, the ranks and the batch.
  void begin(const State& state, bool hashes_copies);
  // Step 2: lets `job`, a save of the whole state or of weights, hash its copies when the pipeline
  // has made them. Does nothing if begin() hashed.
  void hash_copies(const State& state, SaveJob& job);
  // Step 3, if begin() was called since. All ranks call it together. TrainingError as in begin().
  void compare();

 private:
  using Hashes = std::vector<std::uint64_t>;

  void hash_here(const State& state);

  bool is_begun_ = false;
  std::int64_t batch_ = 0;          // The batch of the save.
  std::int64_t shard_ = 0;          // Ranks with the same number have the same rows.
  std::vector<std::string> names_;  // Names of the hashed tensors, in order.
  Hashes rates_;                    // A hash of each group's learning rate.
  std::future<Hashes> hashes_;      // Not valid: there are none.
};

}  // namespace cairn
