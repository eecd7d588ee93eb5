#include "train/loop/compute.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "cairn/train/trainer.h"

#include "core/blas.h"
#include "testing/environment_variable.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using testing::EnvironmentVariable;
using ::testing::HasSubstr;
using ::testing::Not;

// Restores the number of threads.
struct Compute : ::testing::Test {
  ~Compute() override { at::set_num_threads(before_); }
  static constexpr int kUsual = 3;  // As on a machine with three cores.
  const int before_ = at::get_num_threads();
};

TEST_F(Compute, TakesNoMoreThreadsThanThereAreProcessors) {
  const EnvironmentVariable omp("OMP_NUM_THREADS", nullptr);
  const EnvironmentVariable mkl("MKL_NUM_THREADS", nullptr);
  at::set_num_threads(kUsual);
  EXPECT_THAT(set_up_threads(1.5, kUsual), HasSubstr("1 thread"));
  EXPECT_EQ(at::get_num_threads(), 1);
}

TEST_F(Compute, LeavesANumberThatSomebodyChose) {
  {
    const EnvironmentVariable omp("OMP_NUM_THREADS", "4");
    at::set_num_threads(kUsual);
    set_up_threads(0.5, kUsual);
    EXPECT_EQ(at::get_num_threads(), kUsual);
  }
  const EnvironmentVariable omp("OMP_NUM_THREADS", nullptr);
  at::set_num_threads(kUsual + 3);  // Set by the program.
  EXPECT_THAT(set_up_threads(1, kUsual), HasSubstr("6 threads"));
  EXPECT_EQ(at::get_num_threads(), kUsual + 3);
}

TEST_F(Compute, LeavesAProcessorToEachLoaderThread) {
  const EnvironmentVariable omp("OMP_NUM_THREADS", nullptr);
  const EnvironmentVariable mkl("MKL_NUM_THREADS", nullptr);
  at::set_num_threads(kUsual);
  EXPECT_THAT(set_up_threads(4, kUsual, 2),
              AllOf(HasSubstr("2 threads"), HasSubstr("beside 2 loader threads, on 4 processors")));
  EXPECT_EQ(at::get_num_threads(), 2);
  set_up_threads(4, kUsual, 1);
  EXPECT_EQ(at::get_num_threads(), kUsual) << "more processors than libtorch has threads";
  set_up_threads(4, kUsual, 9);
  EXPECT_EQ(at::get_num_threads(), 1);
  EXPECT_THAT(set_up_threads(4, kUsual), Not(HasSubstr("loader")));
  EXPECT_EQ(at::get_num_threads(), kUsual) << "the next Trainer may have no workers";
}

TEST_F(Compute, FirstLineNamesBlasThreadsAndProcessors) {
  auto log = std::make_shared<testing::LogRecorder>();
  TrainerOptions options = testing::tiny_options();
  options.loggers = {log};
  const Trainer trainer(std::move(options));
  ASSERT_FALSE(log->messages.empty());
  const std::string& line = log->messages.front();
  EXPECT_THAT(line, HasSubstr("computing with "));
  EXPECT_THAT(line, HasSubstr(std::to_string(at::get_num_threads()) + " thread"));
  EXPECT_THAT(line, HasSubstr("processor"));
  const std::optional<Blas> blas = loaded_blas();
  if (!blas || at::hasMKL()) return;
  EXPECT_THAT(line, HasSubstr(blas->name));
  if (blas->is_slow) {
    EXPECT_THAT(line, HasSubstr("warning: "));
    EXPECT_THAT(line, HasSubstr(kFastBlasPackage));
  } else {
    EXPECT_THAT(line, Not(HasSubstr("warning")));
  }
}

}  // namespace
}  // namespace cairn
