#include <torch/torch.h>

#include <algorithm>

#include "cairn/error.h"
#include "cairn/train/data.h"

#include "train/data/batch_memory.h"
#include "train/data/dealing.h"
#include "train/data/prefetcher.h"

namespace cairn {
namespace {

void check(const std::shared_ptr<const Dataset>& dataset, const DataLoaderOptions& options) {
  std::string wrong;
  if (!dataset) wrong += " the dataset is null;";
  if (options.batch_size < 1) wrong += " batch_size is less than 1;";
  if (options.num_workers < 0) wrong += " num_workers is negative;";
  if (options.prefetch_factor < 1) wrong += " prefetch_factor is less than 1;";
  if (options.sampler && (options.shuffle || options.seed)) {
    wrong += " shuffle and seed are those of the sampler: set them there;";
  }
  if (wrong.empty() && dataset->size() < (options.drop_last ? options.batch_size : 1)) {
    wrong += " the dataset has too few samples for one batch;";
  }
  if (wrong.empty()) return;
  wrong.back() = '.';
  throw UsageError("DataLoader:" + wrong);
}

// The order of the samples, equal to that of Python's DistributedSampler(seed).set_epoch(epoch).
at::Tensor shuffled_order(std::int64_t size, std::int64_t seed, std::int64_t epoch) {
  const auto of_epoch = static_cast<std::uint64_t>(seed + epoch);
  return at::randperm(size, at::detail::createCPUGenerator(of_epoch), at::kLong);
}

}  // namespace

std::uint64_t sample_seed(std::int64_t seed, std::int64_t epoch, std::int64_t index) {
  std::uint64_t mixed = 0;
  for (const std::int64_t part : {seed, epoch, index}) {
    // SplitMix64: one step, then its finalizer.
    mixed = (mixed ^ static_cast<std::uint64_t>(part)) + 0x9E3779B97F4A7C15;
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB;
    mixed ^= mixed >> 31;
  }
  return mixed;
}

struct DataLoader::Impl {
  std::shared_ptr<const Dataset> dataset;
  DataLoaderOptions options;
  std::optional<DistributedSampler> sampler;
  std::int64_t size;  // Samples per epoch.
  std::int64_t num_batches;
  std::int64_t default_seed = 0;  // From the Trainer.
  std::int64_t epoch = 0;
  at::Tensor order = {};  // The order of this epoch; int64, contiguous.
  std::int64_t next_batch = 0;
  std::int64_t end_batch = 0;  // In `order`.
  std::optional<Batch> peeked = std::nullopt;
  std::exception_ptr peek_error = nullptr;
  std::unique_ptr<BatchMemory> memory = std::make_unique<BatchMemory>();
  std::unique_ptr<Prefetcher> prefetcher = nullptr;  // Null without workers.

  std::int64_t batches_of(std::int64_t samples) const {
    const std::int64_t round_up = options.drop_last ? 0 : options.batch_size - 1;
    return (samples + round_up) / options.batch_size;
  }
  std::int64_t seed() const {
    return sampler ? sampler->seed() : options.seed.value_or(default_seed);
  }
  // The order of a whole epoch. Call it only if there is no sampler.
  at::Tensor order_of_all(std::int64_t epoch_of) const {
    return options.shuffle ? shuffled_order(size, seed(), epoch_of) : at::arange(size, at::kLong);
  }
  void begin(std::int64_t epoch_of, at::Tensor order_of, std::int64_t first_batch);

  // Called on loader threads, with their own reference to the order and their own epoch.
  Batch fetch(const at::Tensor& order_of, std::int64_t epoch_of, std::int64_t number) const {
    const std::int64_t begin = number * options.batch_size;
    const std::int64_t end = std::min(begin + options.batch_size, order_of.numel());
    const auto* indices = order_of.data_ptr<std::int64_t>();
    const BatchMemoryScope scope(*memory);
    Batch batch = dataset->get_batch_in_epoch({indices + begin, indices + end}, epoch_of);
    if (!memory->is_pinned()) return batch;
    return batch.map([&](const at::Tensor& tensor) { return memory->pinned(tensor); });
  }
};

DataLoader::DataLoader(std::shared_ptr<const Dataset> dataset, DataLoaderOptions options) {
  check(dataset, options);
  std::optional<DistributedSampler> sampler;
  if (options.sampler) {
    sampler.emplace(dataset->size(), *options.sampler);
    options.sampler = sampler->options();
  }
  const std::int64_t size = sampler ? sampler->size() : dataset->size();
  impl_ = std::make_unique<Impl>(Impl{.dataset = std::move(dataset),
                                      .options = options,
                                      .sampler = sampler,
                                      .size = size,
                                      .num_batches = 0});
  impl_->num_batches = impl_->batches_of(size);
}

DataLoader::~DataLoader() = default;
DataLoader::DataLoader(DataLoader&&) noexcept = default;
DataLoader& DataLoader::operator=(DataLoader&&) noexcept = default;

const DataLoaderOptions& DataLoader::options() const { return impl_->options; }
std::optional<std::int64_t> DataLoader::num_batches() const { return impl_->num_batches; }
std::optional<std::int64_t> DataLoader::batch_size() const { return impl_->options.batch_size; }
std::optional<std::int64_t> DataLoader::num_samples() const {
  return impl_->options.drop_last ? impl_->num_batches * impl_->options.batch_size : impl_->size;
}

std::int64_t DataLoader::num_repeated() const {
  const Impl& self = *impl_;
  if (!self.sampler) return 0;
  // Repeated samples are at the end, and so are the samples that drop_last leaves out.
  return std::max<std::int64_t>(0,
                                self.sampler->num_repeated() - (self.size - num_samples().value()));
}
bool DataLoader::is_of_rank() const { return impl_->sampler.has_value(); }

void DataLoader::set_default_seed(std::int64_t seed) {
  impl_->default_seed = seed;
  if (impl_->sampler) impl_->sampler->set_default_seed(seed);
}

void DataLoader::set_device(const at::Device& device) {
  if (!device.is_cpu()) impl_->memory->pin();
}

void DataLoader::Impl::begin(std::int64_t epoch_of, at::Tensor order_of, std::int64_t first_batch) {
  epoch = epoch_of;
  order = std::move(order_of);
  end_batch = batches_of(order.numel());
  next_batch = std::clamp<std::int64_t>(first_batch, 0, end_batch);
  peeked.reset();
  peek_error = nullptr;
  if (options.num_workers == 0) return;
  if (!prefetcher) {
    prefetcher = std::make_unique<Prefetcher>(options.num_workers,
                                              options.num_workers * options.prefetch_factor);
  }
  prefetcher->start([this, given = order,
                     epoch_of](std::int64_t number) { return fetch(given, epoch_of, number); },
                    next_batch, end_batch);
}

void DataLoader::start_epoch(std::int64_t epoch, std::int64_t first_batch) {
  const torch::NoGradGuard no_grad;
  Impl& self = *impl_;
  self.begin(
      epoch,
      self.sampler ? at::tensor(self.sampler->indices(epoch), at::kLong) : self.order_of_all(epoch),
      first_batch);
}

std::optional<std::int64_t> DataLoader::samples_after(const Value& saved, std::int64_t had,
                                                      std::int64_t batches) const {
  const auto was = Dealing::of(saved);
  const auto is = Dealing::of(state_dict());
  if (!was || !is || !is->may_go_on_from(*was)) return std::nullopt;
  return was->samples_after(had, batches);
}

std::int64_t DataLoader::continue_epoch(std::int64_t epoch, std::int64_t had) {
  const torch::NoGradGuard no_grad;
  Impl& self = *impl_;
  at::Tensor rest;
  if (self.sampler) {
    rest = at::tensor(self.sampler->remaining_indices(epoch, had), at::kLong);
  } else {
    const std::int64_t begin = std::clamp<std::int64_t>(had, 0, self.size);
    rest = self.order_of_all(epoch).slice(0, begin).contiguous();
  }
  self.begin(epoch, std::move(rest), 0);
  return self.end_batch;
}

const Batch* DataLoader::peek() {
  Impl& self = *impl_;
  if (!self.peeked && !self.peek_error) {
    try {
      self.peeked = next();
    } catch (...) {
      self.peek_error = std::current_exception();
    }
  }
  return self.peeked ? &*self.peeked : nullptr;
}

std::optional<Batch> DataLoader::next() {
  Impl& self = *impl_;
  if (self.peek_error) std::rethrow_exception(std::exchange(self.peek_error, nullptr));
  if (self.peeked) return std::exchange(self.peeked, std::nullopt);
  if (self.prefetcher) return self.prefetcher->next();
  if (self.next_batch >= self.end_batch) return std::nullopt;
  return self.fetch(self.order, self.epoch, self.next_batch++);
}

Value DataLoader::state_dict() const {
  const DataLoaderOptions& options = impl_->options;
  Dict state = {{"seed", impl_->seed()},
                {"shuffle", options.shuffle},
                {"batch_size", options.batch_size},
                {"drop_last", options.drop_last},
                {"size", impl_->dataset->size()}};
  if (!impl_->sampler) return state;
  const DistributedSamplerOptions& sampler = impl_->sampler->options();
  state.set("shuffle", sampler.shuffle);
  state.set("num_replicas", *sampler.num_replicas);
  state.set("sampler_drop_last", sampler.drop_last);
  return state;
}

void DataLoader::load_state_dict(const Value& state) {
  const Value mine = state_dict();
  const bool shuffles = mine.at("shuffle").as_bool();
  const auto text = [](const Value& v) {
    return v.get_if<bool>() ? (v.as_bool() ? "true" : "false") : std::to_string(v.as_int());
  };
  const auto find = [](const Value& in, const std::string& key) -> const Value* {
    return in.is_dict() ? in.find(key) : nullptr;
  };
  std::string differences;
  const auto compare = [&](const std::string& key) {
    const Value* saved = find(state, key);
    const Value* present = find(mine, key);
    if (saved == present || (saved != nullptr && present != nullptr && *saved == *present)) return;
    const auto shown = [&](const Value* value) {
      const bool readable = value != nullptr && (value->is_int() || value->get_if<bool>());
      return readable ? std::string(text(*value)) : "none";
    };
    differences +=
        "\n  " + key + ": " + shown(saved) + " in the checkpoint, " + shown(present) + " here";
  };
  for (const auto& [key, value] : mine.as_dict()) {
    if (key == Value("seed") && !shuffles) continue;
    compare(key.as_str());
  }
  for (const char* key : {"num_replicas", "sampler_drop_last"}) {
    if (find(mine, key) == nullptr) compare(key);
  }
  if (differences.empty()) return;
  throw MismatchError(
      "the data loader differs from the one that the checkpoint was made with, so that training "
      "would go on with other samples:" +
      differences);
}

}  // namespace cairn
