#include "train/state/load/load_staging.h"

#include <torch/torch.h>

#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include "cairn/error.h"
#include "cairn/train/state.h"

#include "checkpoint/open/verify/check_whole.h"
#include "checkpoint/open/verify/whole_read.h"
#include "core/text/size_text.h"
#include "io/threads/parallel.h"
#include "train/state/device/device_storage.h"
#include "train/state/device/mirror.h"
#include "train/state/device/staging.h"
#include "train/state/load/module_load.h"

namespace cairn {
namespace {

// Reading less takes no longer than starting a thread.
constexpr std::uint64_t kLeastWhole = std::uint64_t{1} << 20;
// A smaller file is in the page cache since it was opened, or takes only a few reads.
constexpr std::uint64_t kLeastAhead = std::uint64_t{32} << 20;
// The most bytes of the file that may be read in vain.
constexpr std::uint64_t kMaxUnwantedBytes = std::uint64_t{16} << 20;

constexpr Refusal kRefusal = {.called = "it"};  // The code that catches the error adds the name.

// The most bytes of a checkpoint that can be wanted: the weights, and the optimizer's state. The
// latter is up to five times as large for weights in half precision. Also whether most of the
// weights are on devices.
struct WantedEstimate {
  std::uint64_t bytes = 0;
  bool is_of_devices = false;
};
WantedEstimate estimate_wanted(const State& state, const LoadCheckpointOptions& options) {
  constexpr std::uint64_t kWithOptimizer = 6;
  std::uint64_t bytes = 0;
  std::uint64_t of_devices = 0;
  for_each_named_tensor(state.model->module(),
                        [&](const std::string&, const std::string&, const at::Tensor& tensor) {
                          const std::uint64_t size = tensor.numel() * tensor.element_size();
                          bytes += size;
                          if (has_streams(tensor.device())) of_devices += size;
                        });
  const bool is_all = !options.load_weights_only && state.optimizer != nullptr;
  return {is_all ? kWithOptimizer * bytes : bytes, of_devices > bytes / 2};
}

// Moves the entries whose keys are wanted out of a dict, and leaves None in their place. So moved
// entries without another owner can be staged in place.
Dict taken_out(Value& dict, const std::function<bool(const Value& key)>& is_wanted) {
  std::vector<Value> keys;
  for (const auto& [key, value] : dict.as_dict()) {
    if (is_wanted(key)) keys.push_back(key);
  }
  Dict taken;
  for (const Value& key : keys) {
    Value* const value = dict.mutable_dict().find(key);
    // A NaN key is never found.
    if (value != nullptr) taken.set(key, std::exchange(*value, Value()));
  }
  return taken;
}

void put_back(Value& dict, const Dict& taken) {
  for (const auto& [key, value] : taken) {
    dict.mutable_dict().set(key, value);
  }
}

}  // namespace

struct LoadStaging::Whole {
  Whole(const Checkpoint& opened, std::shared_ptr<const ByteSource> source)
      : file(std::move(source)), memory(file->size()), read(opened, memory.all()) {}

  std::shared_ptr<const ByteSource> file;
  Mirror memory;
  WholeRead read;  // Destroyed first.
};

LoadStaging::LoadStaging(Checkpoint opened) : opened_(std::move(opened)) {}

LoadStaging::~LoadStaging() = default;

void LoadStaging::begin(const State& state, const LoadCheckpointOptions& options) {
  const bool is_all =
      options.verify == Verify::kFull && options.ignore_keys.empty() && state.model != nullptr;
  if (!is_all) return;
  std::shared_ptr<const ByteSource> file = WholeRead::file_of(opened_);
  if (file == nullptr || file->size() < kLeastWhole) return;
  try {
    const bool is_large = file->size() >= kLeastAhead;
    if (options.in_place && is_large) ahead_ = std::make_unique<CacheAhead>(file);
    const WantedEstimate wanted = estimate_wanted(state, options);  // The estimate takes time, too.
    if (file->size() / 5 * 4 > wanted.bytes + kMaxUnwantedBytes) {
      ahead_ = nullptr;
      return;
    }
    if (options.in_place) return;
    if (wanted.is_of_devices) {
      if (is_large) ahead_ = std::make_unique<CacheAhead>(std::move(file));
      return;
    }
    whole_ = std::make_unique<Whole>(opened_, std::move(file));
  } catch (const std::bad_alloc&) {     // Step 3 reads the file, or reports that memory is short.
  } catch (const std::system_error&) {  // No thread could be started: the same.
  }
}

bool LoadStaging::takes_targets() const {
  return whole_ == nullptr && may_read_to_devices(opened_);
}

void LoadStaging::stage(Value& checkpoint, const Wanted& wanted) {
  Dict taken;
  if (wanted.with_others) {
    taken = taken_out(checkpoint, [](const Value& key) { return key != Value("state"); });
  }
  Value& state = checkpoint.mutable_dict()["state"];
  if (state.is_dict()) taken.set("state", taken_out(state, wanted.of_state));
  StageMemory memory{.targets = wanted.targets};
  if (whole_) {
    memory = {.file = whole_->file.get(), .mirror = &whole_->memory, .copies = &copies_};
  }
  Value near = staged(std::move(taken), wanted.storage, reads_, memory);
  if (state.is_dict()) {
    put_back(state, near.at("state").as_dict());
    near.mutable_dict().erase("state");
  }
  put_back(checkpoint, near.as_dict());
}

void LoadStaging::finish(Verify verify) {
  if (failure_) std::rethrow_exception(failure_);
  if (std::exchange(is_finished_, true)) return;
  try {
    if (auto whole = std::exchange(whole_, nullptr)) {
      check_whole(whole->read.finish(), opened_.path(), kRefusal);
      whole = nullptr;  // The parts of the mirror that are in use stay.
      copy_from_mirror();
      if (reads_.empty()) return;
    }
    read(std::exchange(reads_, {}), verify);
  } catch (...) {
    failure_ = std::current_exception();
    throw;
  }
}

// Each piece of the mirror is freed after the last copy from it.
void LoadStaging::copy_from_mirror() {
  std::uint64_t bytes = 0;
  for (const MirrorCopy& copy : copies_) {
    bytes += copy.from.nbytes();
  }
  const auto copy_one = [&](std::size_t i) {
    const MirrorCopy copy = std::exchange(copies_[i], {});
    std::memcpy(copy.to.data_ptr().get(), copy.from.data(), copy.from.nbytes());
  };
  for_each_parallel(copies_.size(), copy_one, bytes);
  copies_.clear();
}

void LoadStaging::read(StagedReads reads, Verify verify) {
  if (!reads.empty()) ahead_ = nullptr;
  check_whole(read_staged(opened_, std::move(reads), verify), opened_.path(), kRefusal);
}

void LoadStaging::refuse_size(Verify verify) {
  whole_ = nullptr;
  reads_ = {};
  copies_.clear();
  const VerifyReport report = opened_.verify(verify);
  check_whole(report, opened_.path(), kRefusal);
  throw Error("there is not enough memory for its tensors beside the present ones; the file has " +
              size_text(report.bytes));
}

}  // namespace cairn
