#include "cairn/error.h"
#include "cairn/train/data.h"

namespace cairn {
namespace {

class IteratorLoader final : public DataLoaderBase {
 public:
  IteratorLoader(std::function<BatchIterator(std::int64_t epoch)> begin_epoch,
                 IteratorLoaderOptions options)
      : begin_epoch_(std::move(begin_epoch)), options_(options) {}

  std::optional<std::int64_t> num_batches() const override { return options_.num_batches; }
  std::optional<std::int64_t> batch_size() const override { return options_.batch_size; }
  bool uses_global_rng() const override { return options_.uses_global_rng; }

  void start_epoch(std::int64_t epoch, std::int64_t first_batch) override {
    next_batch_ = nullptr;  // The old epoch's function is destroyed before the new epoch begins.
    next_batch_ = begin_epoch_(epoch);
    if (!next_batch_) throw UsageError("iterator_loader(): begin_epoch gave no function");
    for (std::int64_t i = 0; i < first_batch && next(); ++i) {
    }
  }

  std::optional<Batch> next() override {
    if (!next_batch_) return std::nullopt;
    std::optional<Batch> batch = next_batch_();
    if (!batch) next_batch_ = nullptr;
    return batch;
  }

 private:
  std::function<BatchIterator(std::int64_t epoch)> begin_epoch_;
  IteratorLoaderOptions options_;
  BatchIterator next_batch_;
};

}  // namespace

std::shared_ptr<DataLoaderBase> iterator_loader(
    std::function<BatchIterator(std::int64_t epoch)> begin_epoch, IteratorLoaderOptions options) {
  return std::make_shared<IteratorLoader>(std::move(begin_epoch), options);
}

}  // namespace cairn
