// Several processes that train together: who this one is, and what they do at one moment together.
//
//   cairn::dist::initialize();                       // a Trainer does it by itself
//   if (cairn::dist::rank() == 0) ...
//   at::Tensor sum = at::tensor({loss});
//   cairn::dist::all_reduce(sum);                    // now the same on every rank
//
// The processes are started by torchrun, srun, mpirun or cairn-run: docs/distributed.md. Tensors
// travel by c10d's Gloo, those of a GPU by its NCCL where cairn was built with that. A process that
// nobody started together with others is rank 0 of 1, and everything here does nothing then, at no
// cost.
//
// All ranks call the same of these functions in the same order, on one thread each. A rank that
// does not come within the timeout, or whose process ended, is an error on all others, which names
// it: DistError. The group cannot be used after that; a job is started again, and resumes.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cairn/error.h"
#include "cairn/value.h"

namespace cairn::dist {

// Another rank ended, hangs, or cannot be reached. What to do next: look into the log of the ranks
// that are named, and start the job again.
class DistError : public Error {
 public:
  DistError(const std::string& message, std::vector<std::int64_t> missing_ranks)
      : Error(message), missing_ranks_(std::move(missing_ranks)) {}
  // Those that did not come; empty when that is not known.
  const std::vector<std::int64_t>& missing_ranks() const { return missing_ranks_; }

 private:
  std::vector<std::int64_t> missing_ranks_;
};

// What is not set comes from the environment: torchrun's variables, then Slurm's, then Open MPI's.
struct InitializeOptions {
  std::optional<std::int64_t> rank = std::nullopt;
  std::optional<std::int64_t> world_size = std::nullopt;
  std::optional<std::int64_t> local_rank = std::nullopt;
  std::optional<std::int64_t> local_world_size = std::nullopt;
  std::optional<std::int64_t> node_rank = std::nullopt;
  // Where rank 0 listens, and all others find it.
  std::optional<std::string> master_addr = std::nullopt;
  std::optional<std::int64_t> master_port = std::nullopt;
  // Of each thing that is done together: how long the first to come waits for the last, unless that
  // one says why (LongWork).
  std::chrono::milliseconds timeout = std::chrono::seconds(300);
};

// Meets the other processes. Call it before anything else of this file, once; a Trainer calls it
// when nobody did. UsageError for options or variables that contradict each other or lack
// something; DistError when not all came within the timeout.
void initialize(const InitializeOptions& options = {});
bool is_initialized();
// Leaves the group, if there is one; a process that ends does it by itself.
void shutdown();

// Before initialize() as the environment says.
std::int64_t rank();
std::int64_t world_size();
std::int64_t local_rank();        // among the processes of this machine
std::int64_t local_world_size();  // how many they are
std::int64_t node_rank();         // of the machine

// Which launcher's variables were taken: "rank 1 of 4 (torchrun's variables)".
std::string describe();

enum class ReduceOp : std::uint8_t { kSum, kProduct, kMin, kMax };

// Returns when all ranks have called it. `what` stands in the error's message.
void barrier(const std::string& what = "barrier()");
// The tensors of all ranks, which have one shape and dtype and lie all on the CPU or each on a GPU
// of its own, become one, in place.
void all_reduce(at::Tensor& tensor, ReduceOp op = ReduceOp::kSum);
// Rank `root`'s goes to all others, in place.
void broadcast(at::Tensor& tensor, std::int64_t root = 0);
// By rank. All have one shape and dtype.
std::vector<at::Tensor> all_gather(const at::Tensor& tensor);

// The same of anything that a checkpoint could hold, which may differ from rank to rank in shape
// and size: it travels as a torch.save file.
Value broadcast_value(const Value& value, std::int64_t root = 0);
std::vector<Value> all_gather_values(const Value& value);

// Around what this rank alone does for so long that the others, who wait for it, must not take it
// for hanging: writing a file, asking a server. As long as one lives they wait, however short the
// timeout is, and know nevertheless when the process ends or is cut off: it goes on saying that it
// is there, for at most six hours. Saves, uploads and loads of a Trainer do that by themselves.
// They may stand in one another; on the training thread; in one process they do nothing.
//
//   if (cairn::dist::rank() == 0) {
//     const cairn::dist::LongWork work;
//     cairn::save(weights, "s3://bucket/final.pt");
//   }
class LongWork {
 public:
  LongWork();
  ~LongWork();
  LongWork(const LongWork&) = delete;
  LongWork& operator=(const LongWork&) = delete;
};

}  // namespace cairn::dist
