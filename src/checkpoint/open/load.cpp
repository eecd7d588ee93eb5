#include <cerrno>
#include <new>

#include "cairn/error.h"

#include "checkpoint/open/checkpoint.h"
#include "checkpoint/open/guarded_source.h"
#include "checkpoint/open/source.h"
#include "checkpoint/open/training_info.h"
#include "checkpoint/open/verify/check_shown.h"
#include "checkpoint/open/verify/check_whole.h"
#include "core/out_of_memory.h"
#include "storage/place.h"

namespace cairn {
namespace {

void check_sizes(const std::vector<StorageRead>& reads) {
  for (const StorageRead& read : reads) {
    if (read.storage->size() == read.into.size()) continue;
    throw UsageError("a storage of " + std::to_string(read.storage->size()) +
                     " bytes cannot be read into " + std::to_string(read.into.size()));
  }
}

}  // namespace

Checkpoint::Checkpoint(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

const std::string& Checkpoint::path() const { return impl_->path; }

CheckpointInfo Checkpoint::info() const { return training_info(*impl_->source); }

VerifyReport Checkpoint::verify(Verify how) const { return impl_->source->verify(how); }

VerifyReport Checkpoint::read(const std::vector<StorageRead>& reads, Verify how) const {
  check_sizes(reads);
  return guarded(impl_->path, [&] { return impl_->source->read_into(reads, how); });
}

VerifyReport read_elsewhere(const Checkpoint& checkpoint, const std::vector<StorageRead>& reads,
                            Verify how, const PutBytes& put) {
  check_sizes(reads);
  return guarded(checkpoint.path(), [&] {
    PendingReads pending(reads, nullptr, put);
    return Checkpoint::Impl::source_of(checkpoint).read_into(pending, how);
  });
}

void check_content(const Checkpoint& checkpoint, const std::string& content) {
  if (Checkpoint::Impl::source_of(checkpoint).content() == content) return;
  throw StorageError(checkpoint.path() + " is not the checkpoint that rank 0 found there: it was " +
                         "replaced meanwhile; start again. If that does not help, this rank has "
                         "another checkpoint at this path: copy the same checkpoint there",
                     EAGAIN);
}

Checkpoint Checkpoint::Impl::make(std::string path,
                                  std::shared_ptr<const CheckpointSource> source) {
  return Checkpoint(std::make_shared<const Impl>(Impl{std::move(path), std::move(source)}));
}

Checkpoint open_checkpoint(const std::string& path, const std::shared_ptr<ObjectStore>& store) try {
  return Checkpoint::Impl::make(store ? path : shown_place(path),
                                open_source(path, {.store = store}));
} catch (const std::bad_alloc&) {
  throw_out_of_memory("opening a checkpoint");
}

namespace {

Value load_from(const CheckpointSource& source, const std::string& path,
                const LoadOptions& options) {
  if (source.info().format == "torchscript") {
    throw UnsupportedError(path + ": this is a TorchScript archive, not a state dict; try: " +
                           "cairn convert --weights-only " + path + " weights.pt");
  }
  if (!options.raw) check_whole(source.verify(options.verify), path);
  Value value = source.read();
  if (!options.ignore_keys.empty()) options.ignore_keys.apply(value);
  check_shown(value, source, path, options.most_repetition);
  return value;
}

}  // namespace

Value load(const Checkpoint& checkpoint, const LoadOptions& options) try {
  if (options.raw) {
    throw UsageError(checkpoint.path() +
                     " is open for verified reading only; to read its raw bytes, " +
                     "call load() with its path");
  }
  return load_from(Checkpoint::Impl::source_of(checkpoint), checkpoint.path(), options);
} catch (const std::bad_alloc&) {
  throw_out_of_memory("loading a checkpoint");
}

Value load(const std::string& path, const LoadOptions& options) try {
  const Access access = options.raw ? Access::kRaw : Access::kVerified;
  const auto source = open_source(path, {.store = options.store, .access = access});
  return load_from(*source, options.store ? path : shown_place(path), options);
} catch (const std::bad_alloc&) {
  throw_out_of_memory("loading a checkpoint");
}

}  // namespace cairn
