// Zips written by hand, for tests. They are valid unless a field is given a wrong value.
#pragma once

#include <libdeflate.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/little_endian.h"

namespace cairn::testing {

struct RawRecord {
  std::string name;
  std::string content;
  // Values for the local header and the central directory that replace the true values.
  std::optional<std::string> local_name = {};
  std::optional<std::uint32_t> local_size = {};
  std::optional<std::uint32_t> local_crc = {};
  std::optional<std::uint32_t> central_size = {};
  std::optional<std::uint32_t> central_offset = {};
  std::uint16_t local_flags = 0;
  std::uint16_t central_flags = 0;
  std::uint16_t local_method = 0;
  std::uint16_t central_method = 0;
  std::uint16_t disk = 0;
  bool zero_crc = false;
  std::optional<std::uint32_t> expanded_size = {};  // of a compressed record
  std::optional<std::uint32_t> expanded_crc = {};   // of a compressed record
};

// Makes the record as a zip tool compresses it.
inline RawRecord deflated(const std::string& name, const std::string& content) {
  constexpr std::uint16_t kDeflate = 8;
  const std::unique_ptr<libdeflate_compressor, void (*)(libdeflate_compressor*)> compressor(
      libdeflate_alloc_compressor(6), libdeflate_free_compressor);
  std::string stored(libdeflate_deflate_compress_bound(compressor.get(), content.size()), '\0');
  stored.resize(libdeflate_deflate_compress(compressor.get(), content.data(), content.size(),
                                            stored.data(), stored.size()));
  return {.name = name,
          .content = stored,
          .local_method = kDeflate,
          .central_method = kDeflate,
          .expanded_size = static_cast<std::uint32_t>(content.size()),
          .expanded_crc = libdeflate_crc32(0, content.data(), content.size())};
}

// A zip as Python's zipfile writes it: no Zip64, no padding, sizes in the local headers.
class RawZip {
 public:
  explicit RawZip(const std::vector<RawRecord>& records) {
    for (const RawRecord& record : records) {
      add(record);
    }
  }

  std::string bytes() const {
    return local_ + central_ + end(count_, central_.size(), local_.size());
  }
  const std::string& local() const { return local_; }
  const std::string& central() const { return central_; }
  std::uint16_t count() const { return count_; }

  static std::string end(std::uint16_t count, std::size_t size, std::size_t offset) {
    std::string out = "PK\5\6";
    append_little_endian(out, std::uint32_t{0});
    append_little_endian(out, count);
    append_little_endian(out, count);
    append_little_endian(out, static_cast<std::uint32_t>(size));
    append_little_endian(out, static_cast<std::uint32_t>(offset));
    append_little_endian(out, std::uint16_t{0});
    return out;
  }

 private:
  void add(const RawRecord& r) {
    const auto size = static_cast<std::uint32_t>(r.content.size());
    const std::uint32_t stored_crc = libdeflate_crc32(0, r.content.data(), r.content.size());
    const std::uint32_t crc = r.zero_crc ? 0 : r.expanded_crc.value_or(stored_crc);
    const std::string local_name = r.local_name.value_or(r.name);
    const auto offset = static_cast<std::uint32_t>(local_.size());
    local_ += "PK\3\4";
    for (const std::uint16_t field : {std::uint16_t{20}, r.local_flags, r.local_method}) {
      append_little_endian(local_, field);
    }
    append_little_endian(local_, std::uint32_t{0});
    append_little_endian(local_, r.local_crc.value_or(crc));
    append_little_endian(local_, r.local_size.value_or(size));
    append_little_endian(local_, r.expanded_size.value_or(r.local_size.value_or(size)));
    append_little_endian(local_, static_cast<std::uint16_t>(local_name.size()));
    append_little_endian(local_, std::uint16_t{0});
    local_ += local_name + r.content;

    central_ += "PK\1\2";
    for (const std::uint16_t field :
         {std::uint16_t{20}, std::uint16_t{20}, r.central_flags, r.central_method}) {
      append_little_endian(central_, field);
    }
    append_little_endian(central_, std::uint32_t{0});
    append_little_endian(central_, crc);
    append_little_endian(central_, r.central_size.value_or(size));
    append_little_endian(central_, r.expanded_size.value_or(r.central_size.value_or(size)));
    append_little_endian(central_, static_cast<std::uint16_t>(r.name.size()));
    for (const std::uint16_t field :
         {std::uint16_t{0}, std::uint16_t{0}, r.disk, std::uint16_t{0}}) {
      append_little_endian(central_, field);
    }
    append_little_endian(central_, std::uint32_t{0});
    append_little_endian(central_, r.central_offset.value_or(offset));
    central_ += r.name;
    ++count_;
  }

  std::string local_;
  std::string central_;
  std::uint16_t count_ = 0;
};

}  // namespace cairn::testing
