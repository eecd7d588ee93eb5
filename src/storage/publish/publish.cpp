#include "storage/publish/publish.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <random>
#include <utility>

#include "cairn/error.h"

#include "core/hash/xxh3.h"
#include "io/file.h"
#include "io/threads/cancellation.h"
#include "storage/publish/own_objects.h"

namespace cairn {
namespace {

// Passes everything on to the store's write, and counts the bytes.
class CountedWrite final : public ObjectWrite {
 public:
  explicit CountedWrite(ObjectWrite& under) : under_(under) {}
  void write(ByteView bytes) override {
    under_.write(bytes);
    bytes_ += bytes.size();
  }
  void write_at(std::uint64_t offset, SharedBytes bytes) override {
    bytes_ += bytes.view.size();
    under_.write_at(offset, std::move(bytes));
  }
  std::size_t piece_bytes() const override { return under_.piece_bytes(); }
  std::uint64_t bytes() const { return bytes_; }

 private:
  void publish() override {}  // The owner of `under_` commits it.

  ObjectWrite& under_;
  std::uint64_t bytes_ = 0;
};

// Step 4, and step 2 if the size differs: compares the bytes that it is given with the object.
class ComparingWrite final : public ObjectWrite {
 public:
  explicit ComparingWrite(std::shared_ptr<const ByteSource> there) : there_(std::move(there)) {}
  void write(ByteView bytes) override {
    compare(end_, bytes);
    end_ += bytes.size();
  }
  void write_at(std::uint64_t offset, SharedBytes bytes) override {
    compare(offset, bytes.view);
    end_ += bytes.view.size();
  }
  bool is_same() const { return is_same_ && end_ == there_->size(); }
  bool is_beginning() const { return is_same_ && end_ >= there_->size(); }
  std::uint64_t bytes() const { return end_; }

 private:
  void publish() override {}
  void compare(std::uint64_t offset, ByteView bytes) {
    if (!is_same_ || offset >= there_->size()) return;
    bytes = bytes.first(std::min<std::uint64_t>(bytes.size(), there_->size() - offset));
    is_same_ = bytes.empty() || std::ranges::equal(there(offset, bytes.size()), bytes);
  }
  // Reads a window, so that many small pieces cost one request.
  ByteView there(std::uint64_t offset, std::uint64_t size) {
    constexpr std::uint64_t kWindowBytes = 8 << 20;
    if (offset < begin_ || offset + size > begin_ + window_.view.size()) {
      window_ =
          there_->view(offset, std::min(std::max(size, kWindowBytes), there_->size() - offset));
      begin_ = offset;
    }
    return window_.view.subspan(offset - begin_, size);
  }

  std::shared_ptr<const ByteSource> there_;
  SharedBytes window_ = {};
  std::uint64_t begin_ = 0;  // offset of the window
  std::uint64_t end_ = 0;
  bool is_same_ = true;
};

// Step 5: hashes the bytes that `fill` writes.
class HashedWrite final : public ObjectWrite {
 public:
  void write(ByteView bytes) override {
    check_cancelled_here();
    hash_.write(bytes);
    size_ += bytes.size();
  }
  BytesFingerprint print() const { return {.size = size_, .hash = hash_.digest128()}; }

 private:
  void publish() override {}

  Xxh3 hash_;
  std::uint64_t size_ = 0;
};

class Publication {
 public:
  Publication(ObjectStore& store, const ObjectToPublish& object, const RetryPolicy& retry)
      : store_(store),
        object_(object),
        condition_(condition_of(object.replace)),
        has_failed_(object.may_be_there) {
    if (object.replace != Replace::kOwn) return;
    const OwnCondition own = object.own->condition(object.name, retry);
    condition_ = own.condition;
    replaces_ = own.replaces;
  }

  const std::string& version() const { return version_; }
  // Whether a write was sent whole, even if its answer failed.
  bool may_be_done() const { return may_be_done_; }

  std::uint64_t attempt() {
    try {
      if (!sent_ && has_failed_) check_replaced();
      if (!sent_) sent_ = send();
      check_size();
      return *sent_;
    } catch (const AlreadyExistsError&) {
      if (!has_failed_) throw;
      if (const auto found = store_.stat(object_.name)) version_ = found->version;
      const ComparingWrite there = compare();
      if (!there.is_same()) throw;
      return there.bytes();
    } catch (const StorageError&) {
      has_failed_ = true;
      throw;
    }
  }

 private:
  std::uint64_t send() {  // step 1
    const auto write = store_.begin(object_.name, {.condition = condition_,
                                                   .expected_bytes = object_.expected_bytes,
                                                   .is_private = object_.is_private});
    CountedWrite counted(*write);
    object_.fill(counted);
    may_be_done_ = true;
    write->commit();
    committed_ = write->committed();
    return counted.bytes();
  }

  // Step 4, for a store that cannot check versions itself.
  void check_replaced() {
    if (replaces_.empty()) return;
    const auto there = store_.stat(object_.name);
    if (!there || there->version == replaces_) return;
    const ComparingWrite comparison = compare();
    if (comparison.is_same()) {
      sent_ = comparison.bytes();
    } else if (!comparison.is_beginning()) {
      throw AlreadyExistsError(store_.describe(object_.name) + " is of version " + there->version +
                               ", no longer of version " + replaces_ +
                               ": another job writes it, too. It was not overwritten. Stop one " +
                               "of the two jobs, or give them run names of their own");
    }
  }

  void check_size() {  // step 2
    const auto reported = std::exchange(committed_, std::nullopt);
    const auto there = reported ? reported : store_.stat(object_.name);
    if (there && there->type == ObjectInfo::Type::kObject && there->size == *sent_) {
      version_ = there->version;
      return;
    }
    const std::uint64_t sent = *sent_;
    sent_.reset();
    if (condition_.when != WriteCondition::If::kAlways) renew_condition(there);
    throw StorageError(store_.describe(object_.name) + ": " + std::to_string(sent) +
                           " bytes were sent, and the store " +
                           (there ? "has " + std::to_string(there->size) : "has no such object"),
                       0, /*retryable=*/true);
  }

  // The condition was met, and our write replaced the object that the caller meant. So the next
  // attempt may replace an object that is ours. The next attempt may replace any other object only
  // under the caller's condition.
  void renew_condition(const std::optional<ObjectInfo>& there) {
    if (!there) {
      condition_ = WriteCondition::absent();
    } else if (there->type == ObjectInfo::Type::kObject && compare().is_beginning()) {
      condition_ = store_.features().versioned_writes ? WriteCondition::of_version(there->version)
                                                      : WriteCondition{};
    }
  }

  ComparingWrite compare() {  // step 4
    ComparingWrite comparison(store_.open(object_.name));
    object_.fill(comparison);
    return comparison;
  }

  ObjectStore& store_;
  const ObjectToPublish& object_;
  WriteCondition condition_;
  std::string replaces_;  // The version that may be replaced, if the store cannot check versions.
  std::optional<std::uint64_t> sent_;    // Bytes committed; reset if the store lacks them.
  std::optional<ObjectInfo> committed_;  // As the write reported it; nullopt: ask the store.
  bool has_failed_;
  bool may_be_done_ = false;
  std::string version_;  // of the object that was found to be ours
};

// Step 5. If the bytes cannot be read here, there is no hash, and the object counts as another
// job's.
void note_sent_bytes(const ObjectToPublish& object) {
  try {
    HashedWrite sent;
    object.fill(sent);
    sent.commit();
    object.own->note_sent(object.name, sent.print());
  } catch (const CancelledError&) {
    object.own->note_cancelled(object.name);
  } catch (const std::exception&) {
    // The caller throws the error of the write itself.
  }
}

}  // namespace

std::uint64_t write_until_seen(ObjectStore& store, const ObjectToPublish& object,
                               const RetryPolicy& retry) {
  Publication publication(store, object, retry);
  std::uint64_t bytes = 0;
  try {
    bytes = with_retries(retry, [&] { return publication.attempt(); });
  } catch (const StorageError&) {
    if (object.own != nullptr) note_sent_bytes(object);
    throw;
  } catch (const CancelledError&) {
    if (object.own != nullptr && publication.may_be_done()) object.own->note_cancelled(object.name);
    throw;
  }
  if (object.own == nullptr) return bytes;
  object.own->know(object.name, publication.version());
  if (publication.version().empty()) note_sent_bytes(object);
  return bytes;
}

void check_write_access(ObjectStore& store, const std::string& folder, const RetryPolicy& retry) {
  // The name is random: another job that starts now must not remove this job's object before this
  // job is done.
  std::random_device random;
  const std::string name = join_path(
      folder, fmt::format(".credentials_validated_successfully-{:08x}{:08x}", random(), random()));
  const auto write =
      // Nobody reads this object. So, unlike write_until_seen(), nothing looks for it afterwards.
      [&] {
        const auto out = store.begin(name);
        out->write(as_bytes("credentials_validated_successfully"));
        out->commit();
      };
  try {
    with_retries(retry, write);
  } catch (Error& e) {
    e.add_context("cannot write into " + store.describe(folder) +
                  " (checked before training begins: correct the name, the credentials or the " +
                  "rights)");
    throw;
  }
  try {
    store.remove(name);
  } catch (const Error&) {
    // The credentials may write but not remove. The object does no harm.
  }
}

}  // namespace cairn
