// Several processes that train together: their ranks, and collectives over them.
//
//   cairn::dist::initialize();                       // a Trainer does it by itself
//   if (cairn::dist::rank() == 0) ...
//   at::Tensor sum = at::tensor({loss});
//   cairn::dist::all_reduce(sum);                    // now the same on every rank
//
// torchrun, srun, mpirun or cairn-run starts the processes: docs/distributed.md. Tensors travel by
// c10d's Gloo; tensors of a GPU by c10d's NCCL, if cairn was built with NCCL. A process that was
// started alone is rank 0 of 1. All functions here then do nothing, at no cost.
//
// All ranks call the same functions of this header in the same order, each on one thread. If a rank
// does not come within the timeout, or its process ends, all others throw a DistError that names
// that rank. The group cannot be used after the error: start the job again, and it resumes.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cairn/error.h"
#include "cairn/export.h"
#include "cairn/value.h"

namespace CAIRN_PUBLIC cairn {
namespace dist {

// Another rank ended, hangs or cannot be reached. Look into the logs of the ranks that are named,
// and start the job again.
class DistError : public Error {
 public:
  DistError(const std::string& message, std::vector<std::int64_t> missing_ranks)
      : Error(message), missing_ranks_(std::move(missing_ranks)) {}
  // The ranks that did not come; empty if that is not known.
  const std::vector<std::int64_t>& missing_ranks() const { return missing_ranks_; }

 private:
  std::vector<std::int64_t> missing_ranks_;
};

// Options that are not set come from the environment: torchrun's variables, then Slurm's, then Open
// MPI's.
struct InitializeOptions {
  std::optional<std::int64_t> rank = std::nullopt;
  std::optional<std::int64_t> world_size = std::nullopt;
  std::optional<std::int64_t> local_rank = std::nullopt;
  std::optional<std::int64_t> local_world_size = std::nullopt;
  std::optional<std::int64_t> node_rank = std::nullopt;
  // Where rank 0 listens, and all other ranks connect.
  std::optional<std::string> master_addr = std::nullopt;
  std::optional<std::int64_t> master_port = std::nullopt;
  // For each collective: how long the first rank waits for the last, unless the last is in a
  // LongWork.
  std::chrono::milliseconds timeout = std::chrono::seconds(300);
};

// Meets the other processes. Call it once, before anything else in this file. A Trainer calls it if
// the program did not. Throws UsageError for options or variables that are contradictory or
// incomplete, and DistError if not all ranks came within the timeout.
void initialize(const InitializeOptions& options = {});
bool is_initialized();
// Leaves the group, if there is one. A process that ends also leaves the group.
void shutdown();

// Before initialize() their values come from the environment variables.
std::int64_t rank();
std::int64_t world_size();
std::int64_t local_rank();        // among the processes of this machine
std::int64_t local_world_size();  // number of processes on this machine
std::int64_t node_rank();         // number of this machine

// The rank, and which launcher's variables gave it: "rank 1 of 4 (torchrun's variables)".
std::string describe();

enum class ReduceOp : std::uint8_t { kSum, kProduct, kMin, kMax };

// Returns when all ranks have called it. `what` appears in the error's message.
void barrier(const std::string& what = "barrier()");
// Reduces the tensors of all ranks into one, in place. All tensors have one shape and dtype. The
// tensors are all on the CPU, or each on a GPU of its own.
void all_reduce(at::Tensor& tensor, ReduceOp op = ReduceOp::kSum);
// Sends rank `root`'s tensor to all others, in place.
void broadcast(at::Tensor& tensor, std::int64_t root = 0);
// Returns the tensors of all ranks, by rank. All have one shape and dtype.
std::vector<at::Tensor> all_gather(const at::Tensor& tensor);

// As broadcast() and all_gather(), for any Value that a checkpoint could hold. Shape and size may
// differ from rank to rank: the Value travels as a torch.save file.
Value broadcast_value(const Value& value, std::int64_t root = 0);
std::vector<Value> all_gather_values(const Value& value);

// Tells the other ranks that this rank is busy, for example writing a file, so that they wait and
// do not take it for hanging. While a LongWork is in scope the others wait, even longer than the
// timeout, for at most six hours. The others still notice if this rank's process ends or is cut
// off. A Trainer does this by itself for its saves, uploads and loads. May be nested. Use it on the
// training thread. In a job of one process it does nothing.
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

}  // namespace dist
}  // namespace cairn
