// Measures how much an upload slows training: batches per second of Trainer::fit() without an
// upload, during one at full speed, and during one at 1 Gbit/s. The server, on the same machine,
// keeps nothing (testing/s3_sink.cpp). The model is that of train_bench, which trains on one core.
// The three take turns, block by block, so that other work on the machine affects all of them. The
// results are medians of the blocks' ratios.
//
//   upload_bench [BLOCKS [BATCHES_PER_BLOCK]]

#include <torch/torch.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <thread>
#include <vector>

#include "cairn/optim/optimizers.h"
#include "cairn/storage/s3.h"
#include "cairn/train/trainer.h"

#include "models.h"
#include "testing/child_process.h"

namespace {

using Clock = std::chrono::steady_clock;
using cairn::testing::ChildProcess;

constexpr std::size_t kObjectBytes = std::size_t{256} << 20;
constexpr double kGigabit = 125e6;  // bytes per second

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

cairn::Trainer make_trainer() {
  const cairn::bench::Task task = cairn::bench::make_task("perceptron");
  return cairn::Trainer(
      {.model = std::make_shared<cairn::bench::NetModel>(task.make()),
       .train_dataloader = cairn::DataLoader(cairn::tensor_dataset({task.x, task.y}),
                                             {.batch_size = task.batch_size, .shuffle = true}),
       .optimizers = cairn::AdamW({.lr = 1e-3}),
       .run_name = "bench",
       .progress_bar = false,
       .device = "cpu"});
}

// Uploads one object after the other, from construction on.
class Uploads {
 public:
  // `rate`: bytes per second at most; 0: no limit.
  Uploads(cairn::ObjectStore& store, const std::vector<std::byte>& block, double rate)
      : store_(store), block_(block), rate_(rate), thread_([this] { run(); }) {}
  // Ends the uploads. Returns the bytes per second that were sent.
  double stop() {
    is_over_ = true;
    const double rate = static_cast<double>(sent_) / seconds_since(begin_);
    thread_.join();
    return rate;
  }

 private:
  void run() {
    while (!is_over_) {
      const auto object = store_.begin("upload", {.expected_bytes = kObjectBytes});
      for (std::size_t done = 0; done < kObjectBytes && !is_over_; done += block_.size()) {
        object->write(block_);
        sent_ += block_.size();
        if (rate_ == 0) continue;
        const std::chrono::duration<double> due(static_cast<double>(sent_) / rate_);
        std::this_thread::sleep_until(begin_ + std::chrono::duration_cast<Clock::duration>(due));
      }
      if (!is_over_) object->commit();
    }
  }

  cairn::ObjectStore& store_;
  const std::vector<std::byte>& block_;
  const double rate_;
  const Clock::time_point begin_ = Clock::now();
  std::atomic<bool> is_over_ = false;
  std::atomic<std::size_t> sent_ = 0;
  std::thread thread_;
};

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

struct UploadCase {
  const char* what;
  double rate;
  std::vector<double> slowed = {};  // batches/s relative to a quiet block
  std::vector<double> rates = {};
};

}  // namespace

int main(int argc, char** argv) {
  const int blocks = argc > 1 ? std::atoi(argv[1]) : 15;
  const std::int64_t batches = argc > 2 ? std::atoll(argv[2]) : 4000;
  ChildProcess server({CAIRN_S3_SINK});
  const auto line = server.wait_for_line("http://");
  if (!line) return 2;
  const auto store = cairn::s3_store({.bucket = "bucket",
                                      .endpoint_url = line->substr(0, line->find('\n')),
                                      .access_key_id = "AKID",
                                      .secret_access_key = "secret"});
  std::vector<std::byte> block(std::size_t{1} << 20);
  std::mt19937_64 random(1);
  for (std::byte& byte : block)
    byte = static_cast<std::byte>(random());

  cairn::Trainer trainer = make_trainer();
  const auto train = [&] {
    const auto begin = Clock::now();
    trainer.fit({.duration = cairn::Time::batches(batches)});
    return static_cast<double>(batches) / seconds_since(begin);
  };
  train();  // warm up
  std::vector<double> alone;
  std::vector<UploadCase> all = {{.what = "as fast as it goes", .rate = 0},
                                 {.what = "1 Gbit/s", .rate = kGigabit}};
  for (int i = 0; i < blocks; ++i) {
    const double before = train();
    alone.push_back(before);
    for (UploadCase& beside : all) {
      Uploads uploads(*store, block, beside.rate);
      const double with = train();
      beside.rates.push_back(uploads.stop());
      beside.slowed.push_back(with / before);
    }
  }
  std::printf("%lld batches a block, medians of %d: %.0f batches/s\n",
              static_cast<long long>(batches), blocks, median(alone));
  for (const UploadCase& beside : all) {
    std::printf("beside an upload, %-19s %6.0f MB/s: %.3f of that speed\n", beside.what,
                median(beside.rates) / 1e6, median(beside.slowed));
  }
  return 0;
}
