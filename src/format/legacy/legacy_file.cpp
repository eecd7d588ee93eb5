// The file is five pickles and raw data, one after another:
//
//  1. the magic number
//  2. 1001, the version of this layout
//  3. a dict about the machine that wrote it; cairn ignores it
//  4. the object; its storages are persistent ids
//  5. the list of the storages' keys
//  6. for each key: the number of elements as an int64, and the elements, little-endian
//
// The place of a storage is known only after all storages before it, and its size only from the
// object's pickle. So the storages that this pickle gets are ranges of a source that learns their
// places later. The numbers of elements are then read together.
#include "format/legacy/legacy_file.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "cairn/error.h"

#include "core/checked.h"
#include "core/hash/seeded_hash.h"
#include "core/little_endian.h"
#include "format/pickle/read/keyed_storages.h"
#include "format/pickle/read/unpickle.h"
#include "format/pickle/write/pickle_size.h"

namespace cairn {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kMagic = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"sv;
constexpr std::size_t kMagicAtMost = 16;  // bytes before the magic number: PROTO, FRAME, LONG1
constexpr std::int64_t kVersion = 1001;

// A source of all storages, one after another, in the order in which the object's pickle asks for
// them. Their places in the file are not known while the pickle is read; place() sets them later.
class PlacedStorages final : public ByteSource {
 public:
  explicit PlacedStorages(std::shared_ptr<const ByteSource> file) : file_(std::move(file)) {}

  // Adds a storage and returns its offset in this source.
  std::uint64_t add(std::uint64_t bytes) {
    const std::uint64_t begin = size_;
    size_ = checked_add(size_, bytes);
    if (bytes > 0) parts_.push_back({begin, bytes, 0});
    return begin;
  }
  void place(std::uint64_t begin, std::uint64_t offset) {
    const auto part = find(begin);
    if (part != parts_.end() && part->begin == begin) part->offset = offset;
  }

  std::uint64_t size() const override { return size_; }
  const std::string& name() const override { return file_->name(); }
  bool in_memory() const override { return file_->in_memory(); }
  void read(std::span<const Range> ranges) const override {
    std::vector<Range> moved(ranges.begin(), ranges.end());
    for (Range& range : moved) {
      range.offset = offset_of(range.offset, range.into.size());
    }
    file_->read(moved);
  }
  SharedBytes view(std::uint64_t offset, std::uint64_t bytes) const override {
    return file_->view(offset_of(offset, bytes), bytes);
  }

 private:
  struct Part {
    std::uint64_t begin;
    std::uint64_t size;
    std::uint64_t offset;  // in the file
  };

  // Returns the part that contains the byte `at`, or end().
  std::vector<Part>::iterator find(std::uint64_t at) {
    const auto behind =
        std::upper_bound(parts_.begin(), parts_.end(), at,
                         [](std::uint64_t place, const Part& part) { return place < part.begin; });
    return behind == parts_.begin() ? parts_.end() : behind - 1;
  }

  std::uint64_t offset_of(std::uint64_t at, std::uint64_t bytes) const {
    check_range(at, bytes);
    if (bytes == 0) return 0;
    const auto behind =
        std::upper_bound(parts_.begin(), parts_.end(), at,
                         [](std::uint64_t place, const Part& part) { return place < part.begin; });
    const Part& part = *(behind - 1);  // the first one begins at 0
    if (bytes > part.size - (at - part.begin)) {
      throw UsageError("a range of more than one storage of " + name() + " was asked for");
    }
    return part.offset + (at - part.begin);
  }

  std::shared_ptr<const ByteSource> file_;
  std::uint64_t size_ = 0;
  std::vector<Part> parts_;
};

class LegacyStorages final : public pickle::KeyedStorages {
 public:
  explicit LegacyStorages(std::shared_ptr<const ByteSource> file)
      : file_(std::move(file)), placed_(std::make_shared<PlacedStorages>(file_)) {}

  // Finds the places of the storages of `keys`, which begin at `at`. Returns the end of the last
  // storage.
  std::uint64_t place(const List& keys, std::uint64_t at) {
    const std::vector<Found> found = follow(keys, at);
    check_counts(found);
    if (!found.empty()) check_fits(found.back());
    for (const Found& storage : found) {
      const Storage& known = *storage.loaded->storage;
      placed_->place(known.source_offset(), storage.at + sizeof(std::uint64_t));
    }
    if (found.size() != loaded_count()) {
      throw CorruptError("a storage of a tensor is missing", {},
                         found.empty() ? at : found.back().at);
    }
    return found.empty() ? at : end_of(found.back());
  }

 private:
  struct Found {
    const std::string* key;
    const Loaded* loaded;
    std::uint64_t at;  // of its number of elements
  };

  std::shared_ptr<const Storage> make(const pickle::StorageReference& reference) override {
    const std::uint64_t size = byte_size(reference);
    if (size > file_->size()) {
      throw CorruptError("storage " + std::string(reference.key) + " is larger than the file");
    }
    return storage_of(placed_, placed_->add(size), size, std::string(reference.location));
  }

  static std::uint64_t end_of(const Found& found) {
    return found.at + sizeof(std::uint64_t) + found.loaded->storage->size();
  }

  // Returns where each storage must be. The last one may reach beyond the end of the file.
  std::vector<Found> follow(const List& keys, std::uint64_t at) const {
    std::vector<Found> found;
    std::unordered_set<std::string, TextHash> seen;
    for (const Value& key : keys) {
      if (!key.is_str())
        throw CorruptError("a storage key should be a str, but is a " +
                           std::string(key.type_name()));
      const Loaded* known = find_loaded(key.as_str());
      if (known == nullptr) {
        throw CorruptError("storage " + key.as_str() + " belongs to no tensor", {}, at);
      }
      if (!seen.insert(key.as_str()).second) {
        throw CorruptError("storage " + key.as_str() + " is listed twice", {}, at);
      }
      if (at > file_->size() || file_->size() - at < sizeof(std::uint64_t)) {
        check_counts(found);  // may throw a more exact error
        throw CorruptError("a storage ends too early: its number of elements is missing", {}, at);
      }
      found.push_back({&key.as_str(), known, at});
      at = end_of(found.back());
      if (at > file_->size()) break;
    }
    return found;
  }

  // Checks the storages' numbers of elements, with one read for each 64 Ki storages.
  void check_counts(std::span<const Found> found) const {
    constexpr std::size_t kMaxAtOnce = std::size_t{64} << 10;
    for (; !found.empty(); found = found.subspan(std::min(found.size(), kMaxAtOnce))) {
      const std::span<const Found> now = found.first(std::min(found.size(), kMaxAtOnce));
      std::vector<std::uint64_t> counts(now.size());
      std::vector<ByteSource::Range> ranges;
      ranges.reserve(now.size());
      for (std::size_t i = 0; i < now.size(); ++i) {
        ranges.push_back({now[i].at, std::as_writable_bytes(std::span(&counts[i], 1))});
      }
      file_->read(ranges);
      for (std::size_t i = 0; i < now.size(); ++i) {
        const auto count =
            load_little_endian<std::uint64_t>(reinterpret_cast<const std::byte*>(&counts[i]));
        if (count == now[i].loaded->numel) continue;
        throw CorruptError("storage " + *now[i].key + " has " + std::to_string(count) +
                               " elements, but its tensors need " +
                               std::to_string(now[i].loaded->numel),
                           {}, now[i].at);
      }
    }
  }

  void check_fits(const Found& last) const {
    if (end_of(last) <= file_->size()) return;
    throw CorruptError("a storage ends too early: " + std::to_string(last.loaded->storage->size()) +
                           " bytes expected, " +
                           std::to_string(file_->size() - last.at - sizeof(std::uint64_t)) +
                           " left",
                       {}, last.at + sizeof(std::uint64_t));
  }

  std::shared_ptr<const ByteSource> file_;
  std::shared_ptr<PlacedStorages> placed_;
};

// The bytes before the storages are read in pieces of this size, so that usually one is enough.
constexpr std::uint64_t kLegacyHeadBytes = std::uint64_t{256} << 10;

class Reader {
 public:
  Reader(const std::shared_ptr<const ByteSource>& file, std::uint64_t at)
      : file_(file), storages_(file), budget_(file->size() - at), at_(at) {
    const std::uint64_t enough = std::min(pickle::kFirstPickleBytes, file->size() - at);
    if (!file_.has(at, enough)) file_.fetch({{at, kLegacyHeadBytes}});
  }

  LegacyObject read() {
    const Value magic = next_pickle();
    const auto* number = magic.get_if<BigInt>();
    if (number == nullptr || number->twos_complement != kMagic) {
      throw CorruptError("it does not begin with the magic number");
    }
    const Value version = next_pickle();
    if (version.kind() != Kind::kInt || version.as_int() != kVersion) {
      throw CorruptError("its version is not " + std::to_string(kVersion));
    }
    next_pickle();
    Value object = next_pickle();
    const Value keys = next_pickle();
    if (!keys.is_list()) throw CorruptError("its list of storages is not a list");
    return {std::move(object), storages_.place(keys.as_items(), at_)};
  }

  std::uint64_t at() const { return at_; }

 private:
  Value next_pickle() {
    SharedBytes pickle;
    Value value;
    try {
      pickle = pickle::pickle_at(file_, at_);
      value = pickle::unpickle(pickle.view, storages_, budget_);
    } catch (const CorruptError& e) {
      throw CorruptError(e.what(), {},
                         e.offset() == CorruptError::kNoOffset ? at_ : at_ + e.offset());
    }
    at_ += pickle.view.size();
    return value;
  }

  Windows file_;
  LegacyStorages storages_;
  MemoryBudget budget_;
  std::uint64_t at_;
};

}  // namespace

bool is_legacy_file(ByteView bytes) {
  const std::string_view start = as_text(bytes).substr(0, kMagicAtMost + kMagic.size());
  return start.starts_with('\x80') && start.find(kMagic) != std::string_view::npos;
}

LegacyObject read_legacy_object(const std::shared_ptr<const ByteSource>& source,
                                std::uint64_t begin) {
  const std::string& file = source->name();
  Reader reader(source, begin);
  try {
    return reader.read();
  } catch (const CorruptError& e) {
    const bool has_offset = e.offset() != CorruptError::kNoOffset;
    throw CorruptError(file + ": " + e.what(), file, has_offset ? e.offset() : reader.at());
  } catch (Error& e) {
    e.add_context(file);
    throw;
  }
}

}  // namespace cairn
