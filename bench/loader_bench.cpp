// Compares batches per second of cairn's DataLoader with torch::data's stateless loader, over the
// same samples, made by the same ATen calls. Both take turns, epoch by epoch, so that other work on
// the machine affects both. The results are medians.
//
//   loader_bench DATASET WORKERS [epochs]
//     DATASET: rows (a row of two tensors: no work) or images (crop, flip, normalise 3x64x64)
//   loader_bench train WORKERS [blocks]    batches a second of a Trainer over images
//
// bench/loader_bench.py runs this in turns with Python's DataLoader.
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cairn/optim/optimizers.h"
#include "cairn/train/trainer.h"

#include "models.h"

namespace {

using Clock = std::chrono::steady_clock;
using Example = torch::data::Example<>;
using torch::indexing::Slice;

constexpr std::int64_t kSamples = 8192;
constexpr std::int64_t kBatchSize = 32;
constexpr std::int64_t kImages = 256;
constexpr std::int64_t kSide = 64;
constexpr std::int64_t kMargin = 8;

// --- What both loaders load ----------------------------------------------------------------------

struct Rows {
  at::Tensor x = torch::randn({kSamples, 64});
  at::Tensor y = torch::randint(10, {kSamples});
};

struct Images {
  at::Tensor pixels =
      torch::randint(256, {kImages, 3, kSide + kMargin, kSide + kMargin}, torch::kByte);
  at::Tensor labels = torch::randint(10, {kImages});
  at::Tensor mean = torch::full({3, 1, 1}, 120.0);
  at::Tensor deviation = torch::full({3, 1, 1}, 60.0);

  std::pair<at::Tensor, at::Tensor> get(std::int64_t index, std::int64_t epoch) const {
    const std::uint64_t random = cairn::sample_seed(0, epoch, index);
    const auto top = static_cast<std::int64_t>(random % (kMargin + 1));
    const auto left = static_cast<std::int64_t>((random >> 8) % (kMargin + 1));
    at::Tensor image =
        pixels.select(0, index % kImages).slice(1, top, top + kSide).slice(2, left, left + kSide);
    if ((random >> 16) % 2 != 0) image = image.flip(2);
    return {image.to(torch::kFloat).sub(mean).div(deviation), labels.select(0, index % kImages)};
  }
};

// --- As cairn's datasets -------------------------------------------------------------------------

class ImageDataset final : public cairn::SampleDataset {
 public:
  explicit ImageDataset(Images images) : images_(std::move(images)) {}
  std::int64_t size() const override { return kSamples; }
  cairn::Batch get(std::int64_t index, std::int64_t epoch) const override {
    auto [image, label] = images_.get(index, epoch);
    return {std::move(image), std::move(label)};
  }

 private:
  Images images_;
};

std::shared_ptr<const cairn::Dataset> own(const Rows& rows) {
  return cairn::tensor_dataset({rows.x, rows.y});
}
std::shared_ptr<const cairn::Dataset> own(const Images& images) {
  return std::make_shared<ImageDataset>(images);
}

// --- As torch::data's ----------------------------------------------------------------------------

struct TorchRows : torch::data::Dataset<TorchRows> {
  explicit TorchRows(Rows given) : rows(std::move(given)) {}
  Example get(std::size_t index) override {
    const auto i = static_cast<std::int64_t>(index);
    return {rows.x.select(0, i), rows.y.select(0, i)};
  }
  torch::optional<std::size_t> size() const override { return kSamples; }
  Rows rows;
};

struct TorchImages : torch::data::Dataset<TorchImages> {
  explicit TorchImages(Images given) : images(std::move(given)) {}
  Example get(std::size_t index) override {
    auto [image, label] = images.get(static_cast<std::int64_t>(index), 0);
    return {std::move(image), std::move(label)};
  }
  torch::optional<std::size_t> size() const override { return kSamples; }
  Images images;
};

TorchRows theirs(const Rows& rows) { return TorchRows(rows); }
TorchImages theirs(const Images& images) { return TorchImages(images); }

// -------------------------------------------------------------------------------------------------

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

// Batches a second. `count` gives the number of batches.
double rate_of(auto count) {
  const Clock::time_point start = Clock::now();
  const std::int64_t batches = count();
  return static_cast<double>(batches) / std::chrono::duration<double>(Clock::now() - start).count();
}

template <class Data>
void compare(const std::string& name, int workers, int epochs) {
  const Data data;
  cairn::DataLoader mine(own(data),
                         {.batch_size = kBatchSize, .shuffle = true, .num_workers = workers});
  auto other = torch::data::make_data_loader<torch::data::samplers::RandomSampler>(
      theirs(data).map(torch::data::transforms::Stack<>()),
      torch::data::DataLoaderOptions(kBatchSize).workers(static_cast<std::size_t>(workers)));
  std::int64_t epoch = 0;
  const auto with_cairn = [&] {
    std::int64_t batches = 0;
    mine.start_epoch(epoch++, 0);
    for (std::optional<cairn::Batch> batch; (batch = mine.next());)
      ++batches;
    return batches;
  };
  const auto with_torch = [&] {
    std::int64_t batches = 0;
    for (const Example& batch : *other)
      batches += batch.data.dim() > 0 ? 1 : 0;
    return batches;
  };
  with_cairn();  // warm up
  with_torch();
  std::vector<double> rates;
  std::vector<double> ratios;
  for (int i = 0; i < epochs; ++i) {
    const double rate = rate_of(with_cairn);
    rates.push_back(rate);
    ratios.push_back(rate / rate_of(with_torch));
  }
  std::printf("%s %d workers: cairn %.1f batches/s; of torch::data's speed: %.3f\n", name.c_str(),
              workers, median(rates), median(ratios));
}

// A small network, so that the loader matters.
struct Pooled final : cairn::bench::Net {
  Pooled() { register_module("perceptron", perceptron); }
  at::Tensor forward(const at::Tensor& x) override {
    return perceptron->forward(torch::avg_pool2d(x, 4).flatten(1));
  }
  std::shared_ptr<cairn::bench::Perceptron> perceptron =
      std::make_shared<cairn::bench::Perceptron>(std::vector<std::int64_t>{768, 512, 512, 10});
};

void train(int workers, int blocks) {
  cairn::Trainer trainer(
      {.model = std::make_shared<cairn::bench::NetModel>(std::make_shared<Pooled>()),
       .train_dataloader = cairn::DataLoader(
           own(Images()), {.batch_size = kBatchSize, .shuffle = true, .num_workers = workers}),
       .optimizers = cairn::SGD({.lr = 1e-3}),
       .run_name = "bench",
       .progress_bar = false});
  std::vector<double> rates;
  for (int i = 0; i <= blocks; ++i) {
    constexpr std::int64_t kBatches = 128;
    const double rate = rate_of([&] {
      trainer.fit({.duration = cairn::Time::batches(kBatches)});
      return kBatches;
    });
    if (i > 0) rates.push_back(rate);  // The first warms up.
  }
  std::printf("training, %d workers: %.1f batches/s\n", workers, median(rates));
}

}  // namespace

int main(int argc, char** argv) try {
  const auto argument = [&](int i, const char* otherwise) {
    return std::string(argc > i ? argv[i] : otherwise);
  };
  const std::string dataset = argument(1, "images");
  const int workers = std::stoi(argument(2, "2"));
  const int epochs = std::stoi(argument(3, "9"));
  if (dataset == "train") {
    train(workers, epochs);
  } else if (dataset == "rows") {
    compare<Rows>(dataset, workers, epochs);
  } else {
    compare<Images>(dataset, workers, epochs);
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "loader_bench: %s\n", error.what());
  return 2;
}
