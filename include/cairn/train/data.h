// Data loaders. Their position is part of a checkpoint: a resumed run seeks, it does not replay.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "cairn/dist/sampler.h"
#include "cairn/export.h"
#include "cairn/train/batch.h"
#include "cairn/train/handle.h"
#include "cairn/value.h"

namespace CAIRN_PUBLIC cairn {

// A finite collection of samples, given batch by batch; SampleDataset gives them one by one. The
// methods of a Dataset are called from loader threads. So these methods must be safe to call
// concurrently, and must not draw from torch's global random generator.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  // The samples with these indices, stacked along dimension 0.
  virtual Batch get_batch(std::span<const std::int64_t> indices) const = 0;

  // As get_batch(), for data that differ from epoch to epoch, such as random augmentation.
  // DataLoader calls this; the default calls get_batch(). A sample must depend only on its index
  // and the epoch. Then a resumed run sees the same samples as a run that never stopped, whatever
  // num_workers and batch_size are.
  //
  // `epoch` counts from 0. In an evaluation, `epoch` is the number of batches trained before it.
  virtual Batch get_batch_in_epoch(std::span<const std::int64_t> indices,
                                   std::int64_t /*epoch*/) const {
    return get_batch(indices);
  }
};

// A dataset that gives one sample at a time, as Python's map-style datasets do.
class SampleDataset : public Dataset {
 public:
  // Sample `index` in epoch `epoch`: its tensors, without the dimension of the batch. All samples
  // have the same names, and tensors of the same sizes and dtypes. A sample depends only on the two
  // numbers. Use one generator per sample:
  //
  //   Batch get(std::int64_t index, std::int64_t epoch) const override {
  //     auto generator = at::detail::createCPUGenerator(sample_seed(kSeed, epoch, index));
  //     const bool flip = at::rand({}, generator, at::kFloat).item<float>() < 0.5;
  //     const auto i = static_cast<std::size_t>(index);
  //     return flip ? images_[i].flip(-1) : images_[i];
  //   }
  //
  // Called without gradients.
  virtual Batch get(std::int64_t index, std::int64_t epoch) const = 0;

  // The samples of epoch 0.
  Batch get_batch(std::span<const std::int64_t> indices) const override;
  // Copies the samples into the tensors of a batch, made by empty_for_batch(). Throws UsageError if
  // the samples differ in names, sizes or dtypes.
  Batch get_batch_in_epoch(std::span<const std::int64_t> indices,
                           std::int64_t epoch) const override;
};

// A tensor for a batch, contiguous and not initialised. For a get_batch() that writes into its
// result. In a DataLoader its memory is that of an earlier batch that no tensor uses any more, and
// pinned if the Trainer's device is a GPU. Elsewhere this is at::empty().
at::Tensor empty_for_batch(at::IntArrayRef sizes, at::ScalarType dtype);

// A seed for one sample in one epoch. The seed is well mixed, so seeds of neighbours are unrelated.
// It is the same in every version of cairn.
std::uint64_t sample_seed(std::int64_t seed, std::int64_t epoch, std::int64_t index);

// Samples are the rows of `tensors`, which have equal length.
std::shared_ptr<Dataset> tensor_dataset(Batch tensors);
std::shared_ptr<Dataset> tensor_dataset(Batch, Batch) = delete;  // tensor_dataset({x, y})

// The source of the Trainer's batches. Used on the training thread only.
//
// An epoch is one call of start_epoch(), and then next() until it returns nothing. The batches of
// an epoch must depend only on the epoch's number and the loader's options, unless
// uses_global_rng() is true.
class DataLoaderBase {
 public:
  virtual ~DataLoaderBase() = default;

  // Batches of an epoch, if known.
  virtual std::optional<std::int64_t> num_batches() const = 0;
  // Samples of a full batch, if known.
  virtual std::optional<std::int64_t> batch_size() const = 0;
  // Samples of an epoch, if known.
  virtual std::optional<std::int64_t> num_samples() const { return std::nullopt; }

  // Begins epoch `epoch` so that next() gives batch `first_batch`. Loaders that cannot seek draw
  // and drop the batches before it.
  virtual void start_epoch(std::int64_t epoch, std::int64_t first_batch) = 0;
  // The loader does not write into the tensors of a batch afterwards: a device may still read them.
  virtual std::optional<Batch> next() = 0;
  // The batch that next() will give next; null if there is none, or if fetching it early might
  // change what is drawn or given. start_epoch() and continue_epoch() drop what was shown. With
  // peek(), the ranks of a job agree on a batch in the message that ends the batch before. Throws
  // nothing: an error of the batch is next()'s.
  virtual const Batch* peek() { return nullptr; }

  // In a job of several processes: the number of samples at the end of this rank's epoch that other
  // ranks have, too. Samples are repeated so that all ranks have equally many samples. Evaluations
  // do not count the repeated samples.
  virtual std::int64_t num_repeated() const { return 0; }
  // False if every rank would get the same samples; the Trainer refuses such a loader in a job of
  // several processes. The default is true, so your own loaders are trusted.
  virtual bool is_of_rank() const { return true; }

  // Called by the Trainer before an epoch begins, with the seed of the run. For loaders with an
  // order of their own and no seed from the user.
  virtual void set_default_seed(std::int64_t /*seed*/) {}
  // Called by the Trainer before an epoch begins, with the device that it copies batches to. For
  // loaders that pin memory.
  virtual void set_device(const at::Device& /*device*/) {}

  // True if the order of batches comes from torch's global generator. The Trainer then saves the
  // generator's state at the start of the epoch, and restores it before start_epoch() on resume.
  virtual bool uses_global_rng() const { return false; }

  // The options that fix the order of samples. These options are compared on resume, since a loader
  // with another seed or batch size would silently continue on other data. None if there is nothing
  // to compare.
  virtual Value state_dict() const { return None{}; }
  // Throws MismatchError if training cannot continue exactly with this loader.
  virtual void load_state_dict(const Value& /*state*/) {}

  // The next two functions are for an epoch that continues with another number of ranks.
  //
  // Returns how many samples of an epoch all ranks together had taken when their loaders had the
  // state `saved`. The ranks had taken the first `had` samples, and then `batches` batches on each
  // rank. Returns nullopt if this loader cannot tell. Also returns nullopt if those loaders differ
  // from this one in more than the number of ranks and the batch size of each. After nullopt,
  // load_state_dict() decides.
  virtual std::optional<std::int64_t> samples_after(const Value& /*saved*/, std::int64_t /*had*/,
                                                    std::int64_t /*batches*/) const {
    return std::nullopt;
  }
  // As start_epoch(), after the first `had` samples of the epoch, as samples_after() returned.
  // Deals the other samples to the present ranks. Returns the number of batches on this rank.
  virtual std::int64_t continue_epoch(std::int64_t /*epoch*/, std::int64_t /*had*/) { return 0; }
};

// The fields are in PyTorch's order.
struct DataLoaderOptions {
  std::int64_t batch_size = 1;  // samples of a step
  // The order of epoch e is randperm(n) of a generator seeded with seed + e, as in Python's
  // DistributedSampler. If false: 0, 1, 2, ...
  bool shuffle = false;
  // Threads that fetch ahead. 0, PyTorch's default, fetches on the training thread, which is
  // fastest for data in memory. The order of samples never depends on num_workers.
  int num_workers = 0;
  // Drops a last batch that is not full. Set it if BatchNorm or a compiled shape needs full
  // batches.
  bool drop_last = false;
  // The seed of the order, in place of PyTorch's generator. nullopt: TrainerOptions::seed, or, in a
  // run that resumes, the seed that the run began with; 0 without a Trainer. Compared when a run
  // resumes.
  std::optional<std::int64_t> seed = std::nullopt;
  // Batches that each worker fetches ahead; num_workers times as many are in memory.
  int prefetch_factor = 2;
  // In a job of several processes: this rank's part of the samples. The sampler replaces shuffle
  // and seed, which stay unset: .sampler = DistributedSamplerOptions{.shuffle = true}. batch_size
  // is that of one rank.
  std::optional<DistributedSamplerOptions> sampler = std::nullopt;
};

// cairn's own loader. start_epoch() takes constant time, plus one permutation.
class DataLoader final : public DataLoaderBase {
 public:
  explicit DataLoader(std::shared_ptr<const Dataset> dataset, DataLoaderOptions options = {});
  // The compiler shows the line of the deleted constructor.
  // clang-format off
  template <std::integral Number>
  DataLoader(std::shared_ptr<const Dataset>, Number) = delete;  // {.batch_size = 32}
  template <class Other>
  requires(!std::convertible_to<Other, std::shared_ptr<const Dataset>> &&
           !std::derived_from<std::remove_cvref_t<Other>, DataLoader>)
  explicit
  DataLoader(Other&&, DataLoaderOptions = {}) = delete;  // tensor_dataset(), make_shared<Mine>()
  // clang-format on
  ~DataLoader() override;
  DataLoader(DataLoader&&) noexcept;
  DataLoader& operator=(DataLoader&&) noexcept;

  const DataLoaderOptions& options() const;  // as given, with the sampler's ranks filled in
  std::optional<std::int64_t> num_batches() const override;
  std::optional<std::int64_t> batch_size() const override;
  std::optional<std::int64_t> num_samples() const override;
  std::int64_t num_repeated() const override;
  bool is_of_rank() const override;  // with a sampler
  void set_default_seed(std::int64_t seed) override;
  void set_device(const at::Device& device) override;  // pins batches for any device but the CPU
  void start_epoch(std::int64_t epoch, std::int64_t first_batch) override;
  std::optional<Batch> next() override;  // rethrows what get_batch() threw
  const Batch* peek() override;
  Value state_dict() const override;
  void load_state_dict(const Value& state) override;
  std::optional<std::int64_t> samples_after(const Value& saved, std::int64_t had,
                                            std::int64_t batches) const override;
  std::int64_t continue_epoch(std::int64_t epoch, std::int64_t had) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A loader from a function that begins an epoch and returns a function for its batches. Resuming
// inside an epoch draws and drops the batches before the position, one by one.
struct IteratorLoaderOptions {
  std::optional<std::int64_t> num_batches = std::nullopt;
  std::optional<std::int64_t> batch_size = std::nullopt;
  bool uses_global_rng = true;
};
using BatchIterator = std::function<std::optional<Batch>()>;
std::shared_ptr<DataLoaderBase> iterator_loader(
    std::function<BatchIterator(std::int64_t epoch)> begin_epoch,
    IteratorLoaderOptions options = {});

namespace detail {

// Drops the batches that the workers of a torch::data loader still fetch for an iterator that was
// left early. As long as there are such batches, begin() refuses. Only a derived class can drop
// them.
template <class TorchLoader>
struct InFlight : TorchLoader {
  static void drop(TorchLoader& loader) { (loader.*&InFlight::shuttle_).drain(); }
};

}  // namespace detail

// Adapts a torch::data loader, which must outlive the result. Its batches are Example<> (data,
// target) of stacked tensors, or `to_batch` turns them into a Batch. Resuming inside an epoch
// replays the sampler from the generator's saved state and drops batches one by one.
template <class TorchLoader, class ToBatch>
std::shared_ptr<DataLoaderBase> from_torch_data(TorchLoader& loader, ToBatch to_batch,
                                                IteratorLoaderOptions options = {}) {
  return iterator_loader(
      [&loader, to_batch,
       is_inside = std::make_shared<bool>(false)](std::int64_t) -> BatchIterator {
        if constexpr (requires { loader.options().workers; }) {
          // Only for this loader's own iterator. If other code holds an iterator, begin() refuses,
          // since that code would lose batches.
          if (*is_inside) detail::InFlight<TorchLoader>::drop(loader);
        }
        *is_inside = true;
        auto here = std::make_shared<decltype(loader.begin())>(loader.begin());
        auto first = std::make_shared<bool>(true);
        return [&loader, to_batch, is_inside, here, first]() -> std::optional<Batch> {
          if (!*first) ++*here;
          *first = false;
          *is_inside = *here != loader.end();
          if (!*is_inside) return std::nullopt;
          return to_batch(**here);
        };
      },
      options);
}

template <class TorchLoader>
std::shared_ptr<DataLoaderBase> from_torch_data(TorchLoader& loader,
                                                IteratorLoaderOptions options = {}) {
  return from_torch_data(
      loader,
      [](const auto& example) {
        return Batch{example.data, example.target};
      },
      options);
}

// How the Trainer treats the batches of a loader (composer/core/data_spec.py), in Composer's order:
//   DataSpec{.dataloader = loader, .get_num_tokens_in_batch = count_tokens}
// Functions that are not set default to Composer's.
struct DataSpec {
  Handle<DataLoaderBase> dataloader = nullptr;
  // Numbers per epoch, for your own code: the Trainer counts the batches that it gets.
  std::optional<std::int64_t> num_samples = std::nullopt;
  std::optional<std::int64_t> num_tokens = std::nullopt;
  std::function<Batch(Batch)> batch_transforms = nullptr;       // on the host, the whole batch
  std::function<Batch(Batch)> microbatch_transforms = nullptr;  // on the device, before forward
  // By default every tensor is cut along dimension 0.
  std::function<std::vector<Batch>(const Batch&, std::int64_t microbatch_size)> split_batch =
      nullptr;
  // Counts samples, for times ("1000sp") and for the weights of microbatches. Default: the length
  // of dimension 0.
  std::function<std::int64_t(const Batch&)> get_num_samples_in_batch = nullptr;
  // Counts tokens ("1e9tok"). Default: the elements of a tensor named "input_ids", including
  // padding; 0 if there is none.
  std::function<std::int64_t(const Batch&)> get_num_tokens_in_batch = nullptr;

  explicit operator bool() const { return static_cast<bool>(dataloader); }
};

// The type of options called `dataloader`: a loader, by value or by pointer, or a DataSpec.
struct DataSpecOrLoader : DataSpec {
  DataSpecOrLoader() = default;
  // NOLINTBEGIN(google-explicit-constructor)
  DataSpecOrLoader(DataSpec spec) : DataSpec(std::move(spec)) {}
  template <class Loader>
  requires std::constructible_from<Handle<DataLoaderBase>, Loader &&> DataSpecOrLoader(
      Loader&& loader)
      : DataSpec{.dataloader = std::forward<Loader>(loader)} {}
  // The compiler shows the line of the deleted constructor.
  // clang-format off
  template <class Other>
  requires(!std::constructible_from<Handle<DataLoaderBase>, Other&&> &&
           !std::derived_from<std::remove_cvref_t<Other>, DataSpec>)
  DataSpecOrLoader(Other&&) = delete;  // DataLoader(dataset, {...}); torch's: from_torch_data(*it)
  // clang-format on
  // NOLINTEND(google-explicit-constructor)
};

}  // namespace cairn
