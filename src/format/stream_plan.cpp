#include "format/stream_plan.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "cairn/byte_source.h"
#include "cairn/error.h"

#include "core/hash/crc32.h"
#include "core/hash/xxh3.h"
#include "io/bytes/copying_sink.h"
#include "io/bytes/pieces.h"
#include "value/tensor/tensor_stream.h"

namespace cairn {
namespace {

constexpr std::size_t kCachedBytes = std::size_t{256} << 10;
constexpr std::uint64_t kAheadBytes = std::uint64_t{16} << 20;
constexpr std::uint64_t kSmallBytes = std::uint64_t{1} << 20;

// Writes in pieces that fit a core's cache.
void write_near(ByteView bytes, ByteSink& sink) {
  for (; bytes.size() > kCachedBytes; bytes = bytes.subspan(kCachedBytes)) {
    sink.write(bytes.first(kCachedBytes));
  }
  sink.write(bytes);
}

// Reads storages that are not in memory. Many small storages are read at once, since each call
// costs as much as 1 MiB from a device or several MiB from a bucket. Storages of a device are read
// in pieces. Other large storages are loaded whole, by PartStream.
class PartsAhead {
 public:
  explicit PartsAhead(const std::vector<CheckpointPlan::Part>& parts) : parts_(parts) {}

  // Returns whether `part` is to be written by this class's write().
  static bool should_read_ahead(const CheckpointPlan::Part& part) {
    const ByteSource* const source = part.storage->source();
    if (source == nullptr || part.elements != nullptr || part.storage->try_view()) return false;
    const std::uint64_t small = source->shows_in_order() ? kAheadBytes : kSmallBytes;
    return part.size < small || source->is_cheap_in_pieces();
  }

  void write(std::size_t index, ByteSink& sink) {
    const CheckpointPlan::Part& part = parts_[index];
    if (part.size <= kAheadBytes) return write_near(read(index), sink);
    ahead_.clear();
    for (std::uint64_t done = 0; done < part.size; done += kAheadBytes) {
      const auto piece = room().first(std::min(kAheadBytes, part.size - done));
      part.storage->read_into(done, piece);
      write_near(piece, sink);
    }
  }

 private:
  // Returns all bytes of a part. Throws only errors of this part: if one of the parts that are read
  // together cannot be read, each is read alone.
  ByteView read(std::size_t index) {
    if (!is_ahead(index)) {
      first_ = index;
      try {
        fill(is_alone_ ? index + 1 : parts_.size());
      } catch (const CancelledError&) {
        throw;
      } catch (const Error&) {
        if (std::exchange(is_alone_, true)) throw;
        fill(index + 1);
      }
    }
    return ahead_[index - first_];
  }

  bool is_ahead(std::size_t index) const {
    return index - first_ < ahead_.size() && ahead_[index - first_].size() == parts_[index].size;
  }

  // Reads parts from first_ on, at most up to `end`.
  void fill(std::size_t end) {
    ahead_.clear();
    const ByteSource& source = *parts_[first_].storage->source();
    std::vector<ByteView> ahead;
    std::vector<ByteSource::Range> ranges;
    std::span<std::byte> left = room();
    for (std::size_t i = first_; i < end; ++i) {
      const CheckpointPlan::Part& part = parts_[i];
      // write() asked for the first part, so it is read even if its storage now says otherwise.
      // Parts that write() will not ask for, such as those in memory, get no bytes in this buffer.
      const bool is_asked_for = part.size > 0 && (i == first_ || should_read_ahead(part));
      const std::uint64_t size = is_asked_for ? part.size : 0;
      if (size > left.size() || (is_asked_for && part.storage->source() != &source)) break;
      const auto into = left.first(size);
      if (is_asked_for) ranges.push_back({part.storage->source_offset(), into});
      ahead.push_back(into);
      left = left.subspan(size);
    }
    source.read(ranges);
    ahead_ = std::move(ahead);
  }

  std::span<std::byte> room() {
    if (room_ == nullptr) room_ = std::make_unique_for_overwrite<std::byte[]>(kAheadBytes);
    return {room_.get(), kAheadBytes};
  }

  const std::vector<CheckpointPlan::Part>& parts_;
  bool is_alone_ = false;
  std::size_t first_ = 0;
  std::vector<ByteView> ahead_;  // the parts from first_ on
  std::unique_ptr<std::byte[]> room_;
};

// Streams the parts of a plan. A storage that is computed when it is asked for is computed once for
// parts that follow one another.
class PartStream {
 public:
  explicit PartStream(const CheckpointPlan& plan) : plan_(plan), ahead_(plan.parts()) {}

  void write(std::size_t index, ByteSink& sink) {
    try {
      const CheckpointPlan::Part& part = plan_.parts()[index];
      if (part.size == 0) return;
      PartsAhead::should_read_ahead(part) ? ahead_.write(index, sink) : write(part, sink);
    } catch (Error& e) {
      const std::string name = plan_.name_of(index);
      if (!name.empty()) e.add_context(name);
      throw;
    }
  }

 private:
  void write(const CheckpointPlan::Part& part, ByteSink& sink) {
    if (part.storage.get() != loaded_) {
      bytes_ = {};  // before the next one is loaded
      loaded_ = nullptr;
      bytes_ = part.storage->bytes();
      loaded_ = part.storage.get();
    }
    if (part.elements != nullptr) return write_elements(*part.elements, bytes_, sink);
    for_each_piece(bytes_, kCachedBytes, [&](ByteView piece) { sink.write(piece); });
  }

  const CheckpointPlan& plan_;
  PartsAhead ahead_;
  const Storage* loaded_ = nullptr;
  SharedBytes bytes_;
};

// Computes the CRC-32 of every part. If `to` is a CopyingSink, the CRC is computed in the same pass
// as the copy.
class CrcSink final : public ByteSink {
 public:
  explicit CrcSink(ByteSink& to) : to_(to), copying_(dynamic_cast<CopyingSink*>(&to)) {}
  void write(ByteView bytes) override {
    if (copying_ != nullptr) {
      crc_ = copying_->write_with_crc32(bytes, crc_);
    } else {
      crc_ = crc32(bytes, crc_);
      to_.write(bytes);
    }
  }
  // Returns the CRC of the bytes written since the last call.
  std::uint32_t take_crc() { return std::exchange(crc_, 0); }

 private:
  ByteSink& to_;
  CopyingSink* copying_;
  std::uint32_t crc_ = 0;
};

using OnWritten = std::function<void(std::uint64_t bytes)>;

std::vector<std::uint64_t> xxh3_of_parts(const CheckpointPlan& plan, const OnWritten& on_half) {
  PartStream parts(plan);
  std::vector<std::uint64_t> digests;
  digests.reserve(plan.parts().size());
  for (std::size_t i = 0; i < plan.parts().size(); ++i) {
    Xxh3 hash;
    parts.write(i, hash);
    digests.push_back(hash.digest64());
    if (on_half) on_half(plan.parts()[i].size / 2);
  }
  return digests;
}

}  // namespace

std::vector<std::uint64_t> xxh3_of_parts(const CheckpointPlan& plan) {
  return xxh3_of_parts(plan, nullptr);
}

void set_between(const CheckpointPlan& plan, std::size_t index,
                 std::span<const std::uint64_t> checks, std::string& text) {
  text.clear();
  plan.append_between(index, checks, text);
  if (index == plan.parts().size()) return;
  const std::uint64_t room = plan.parts()[index].offset - plan.between_begin(index);
  if (text.size() != room) {
    throw UsageError("the bytes before part " + std::to_string(index) + " of the file have " +
                     std::to_string(text.size()) + " bytes, but the plan has room for " +
                     std::to_string(room));
  }
}

void stream_plan(const CheckpointPlan& plan, ByteSink& sink, const OnWritten& on_written) {
  const std::size_t count = plan.parts().size();
  const bool is_read_twice = plan.check() == CheckpointPlan::Check::kXxh3First;
  std::vector<std::uint64_t> checks =
      is_read_twice ? xxh3_of_parts(plan, on_written) : std::vector<std::uint64_t>(count);
  PartStream parts(plan);
  CrcSink with_crc(sink);
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    set_between(plan, i, checks, text);
    sink.write(as_bytes(text));
    if (plan.check() == CheckpointPlan::Check::kCrc32) {
      parts.write(i, with_crc);
      checks[i] = with_crc.take_crc();
    } else {
      parts.write(i, sink);
    }
    const std::uint64_t size = plan.parts()[i].size;
    if (on_written) on_written(is_read_twice ? size - size / 2 : size);
  }
  set_between(plan, count, checks, text);
  sink.write(as_bytes(text));
}

}  // namespace cairn
