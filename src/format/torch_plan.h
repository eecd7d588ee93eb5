// A torch.save file as a CheckpointPlan: docs/formats/torch_file.md.
//
//  1. data.pkl      the object, with a number in place of every storage; then the room that it may
//                   grow into (pickle/encode.h): repeated STOPs, which no reader gets to
//  2. byteorder     "little"
//  3. data/0 ...    the storages, in the order of first use: the parts
//  4. version       "3\n", the version of this layout
//  5. the caller's extra records
//
// No .format_version: it would let PyTorch compute where storages lie instead of looking.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/format/torch_file.h"

#include "format/checkpoint_plan.h"
#include "format/pickle/write/encode.h"
#include "format/zip/layout.h"

namespace cairn {

// Where the storages of a torch.save file stand. Follows from their sizes, that of the pickle's
// record, and the length of the prefix; of a storage only from those before it.
class StoragePlaces {
 public:
  StoragePlaces(std::size_t prefix_size, std::uint64_t pickle_bytes);

  // The offset of the next storage's bytes.
  std::uint64_t add(std::uint64_t size);
  // The records data.pkl and byteorder, and those of the storages so far.
  const std::vector<zip::Placed>& records() const { return records_; }
  // Where the next record begins.
  std::uint64_t end() const { return end_; }

  void reserve(std::size_t storages) { records_.reserve(storages + 2); }

 private:
  std::uint64_t place(std::size_t name_size, std::uint64_t size);

  std::size_t prefix_size_;
  std::uint64_t end_ = 0;
  std::vector<zip::Placed> records_;
};

class TorchPlan final : public CheckpointPlan {
 public:
  // How much of a file data.pkl takes: what it has, or with room.
  enum class Room : std::uint8_t { kNone, kToGrow };

  // UsageError for a prefix that cannot be a folder's name.
  TorchPlan(pickle::Encoded encoded, TorchFileWriteOptions options, Room room = Room::kNone);

  Check check() const override { return Check::kCrc32; }
  // UsageError for extra records that cannot be written; so append_between() after the last part.
  // Errors of the function of extra records pass through.
  std::uint64_t size() const override;
  void append_between(std::size_t index, std::span<const std::uint64_t> checks,
                      std::string& out) const override;

  // Of the record data.pkl.
  std::uint64_t pickle_bytes() const { return places_.records().front().size; }
  // From now on the bytes of part `index` are those of this storage, of the same size.
  void set_storage(std::size_t index, std::shared_ptr<const Storage> storage) {
    parts_[index].storage = std::move(storage);
  }

 private:
  void append_head(std::string& out) const;
  void append_tail(std::span<const std::uint64_t> checks, std::string& out) const;
  void check_extra_names(const ExtraRecords& extra) const;
  void check_name(const std::string& name) const;

  std::string prefix_;  // with its slash
  std::string pickle_;
  std::uint32_t pickle_crc_ = 0;  // of the record, with its room
  TorchFileWriteOptions options_;
  StoragePlaces places_;
};

}  // namespace cairn
