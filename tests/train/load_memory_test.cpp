// Loads with too little memory: every allocation of a load fails once, and nothing is changed. This
// file replaces operator new for its whole program.

#include <c10/core/CPUAllocator.h>
#include <gmock/gmock.h>
#include <torch/version.h>

#include <cstdlib>
#include <functional>
#include <new>

#include "cairn/error.h"
#include "cairn/optim/optimizers.h"
#include "cairn/train/state_dict.h"
#include "cairn/train/trainer.h"

#include "testing/loading_run.h"
#include "testing/temp_folder.h"
#include "testing/tiny_model.h"

namespace {

// Per thread; used while armed.
thread_local bool is_counting = false;
thread_local std::uint64_t allocations = 0;
thread_local std::uint64_t failing = 0;  // The number of the allocation that fails. 0: none.

bool fails_now() { return is_counting && ++allocations == failing; }

}  // namespace

void* operator new(std::size_t bytes) {
  if (!fails_now()) {
    if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  }
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*bytes*/) noexcept { std::free(memory); }

namespace cairn {
namespace {

using testing::current_checkpoint;
using testing::loading_run;
using testing::TempFolder;

// libtorch's CPU allocator, which fails when its turn has come.
class FailingAllocator final : public c10::Allocator {
 public:
#if TORCH_VERSION_MAJOR < 2
  c10::DataPtr allocate(std::size_t bytes) const override { return memory(bytes); }
#else
  c10::DataPtr allocate(std::size_t bytes) override { return memory(bytes); }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
#endif
  c10::DeleterFnPtr raw_deleter() const override {
    return c10::GetDefaultCPUAllocator()->raw_deleter();
  }

 private:
  static c10::DataPtr memory(std::size_t bytes) {
    TORCH_CHECK(bytes == 0 || !fails_now(), "no memory");
    return c10::GetDefaultCPUAllocator()->allocate(bytes);
  }
};

// Loads while allocation number `n` fails. Returns whether the load succeeded.
bool load_with_failure(const Checkpoint& opened, Trainer& trainer, std::uint64_t n) {
  allocations = 0;
  failing = n;
  is_counting = true;
  try {
    load_checkpoint(opened, trainer.state(), trainer.logger());
    is_counting = false;
    return true;
  } catch (const std::exception&) {
    is_counting = false;
    return false;
  }
}

TEST(LoadMemory, AnyAllocationThatFailsChangesNothing) {
  static FailingAllocator allocator;
  c10::SetCPUAllocator(&allocator, /*priority=*/1);
  const TempFolder folder;
  std::string path;
  {
    Trainer trained(loading_run());
    trained.fit();
    path = trained.save_checkpoint(folder / "saved.pt");
  }
  // Opens the checkpoint before allocations fail: opening has nothing to change yet, and JSON's
  // destructor needs memory.
  const Checkpoint opened = open_checkpoint(path);
  auto trainer = std::make_unique<Trainer>(loading_run());
  Trainer again(loading_run());
  const Value before = current_checkpoint(*trainer);
  ASSERT_TRUE(load_with_failure(opened, again, 0));
  // By now everything that is made only once exists.
  ASSERT_TRUE(load_with_failure(opened, again, 0));
  const std::uint64_t all = allocations;
  const Value loaded = current_checkpoint(again);
  ASSERT_NE(loaded, before);

  std::uint64_t failed = 0;
  for (std::uint64_t n = 1; n <= all; ++n) {
    if (load_with_failure(opened, *trainer, n)) {  // The load did without that memory.
      ASSERT_EQ(current_checkpoint(*trainer), loaded) << "allocation " << n << " of " << all;
      trainer = std::make_unique<Trainer>(loading_run());
      continue;
    }
    ++failed;
    ASSERT_EQ(current_checkpoint(*trainer), before) << "allocation " << n << " of " << all;
  }
  EXPECT_GT(failed, all / 2) << all;
  EXPECT_TRUE(load_with_failure(opened, *trainer, 0));
  EXPECT_EQ(current_checkpoint(*trainer), loaded);
}

// --- Number of allocations -----------------------------------------------------------------------

constexpr int kTensors = 2000;

struct Many : Model {
  Many() {
    for (int i = 0; i < kTensors; ++i) {
      std::string name = "a_parameter_with_a_long_name_" + std::to_string(i);
      net->register_parameter(name, torch::rand({3, 2}));
    }
  }
  torch::nn::Module& module() override { return *net; }
  Outputs forward(const Batch& /*batch*/) override { return {}; }
  Losses loss(const Outputs& /*outputs*/, const Batch& /*batch*/) override { return {}; }
  std::shared_ptr<torch::nn::Module> net = std::make_shared<torch::nn::Module>();
};

std::uint64_t allocations_of(const std::function<void()>& body) {
  allocations = 0;
  failing = 0;
  is_counting = true;
  body();
  is_counting = false;
  return allocations;
}

// With many small tensors, the work per tensor takes most of the time.
TEST(LoadMemory, GatheringAgainTakesFourAllocationsATensor) {
  Many model;
  const auto gather = [&] { (void)state_dict(model.module()); };
  gather();
  EXPECT_LE(allocations_of(gather), 4 * kTensors + 100U);
}

TEST(LoadMemory, LoadingTakesFewAllocationsATensor) {
  const TempFolder folder;
  State state;
  Logger logger{state};
  state.model = std::make_shared<Many>();
  const std::string path =
      save_checkpoint(state, folder / "saved.pt", SaveCheckpointOptions{.weights_only = true});
  const auto load = [&] { load_checkpoint(path, state, logger, {.load_weights_only = true}); };
  load();
  EXPECT_LE(allocations_of(load), 11 * kTensors + 2000U);
  const auto in_place = [&] {
    load_checkpoint(path, state, logger, {.load_weights_only = true, .in_place = true});
  };
  EXPECT_LE(allocations_of(in_place), 10 * kTensors + 2000U);
}

}  // namespace
}  // namespace cairn
