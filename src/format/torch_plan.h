// A torch.save file as a CheckpointPlan: docs/formats/torch_file.md.
//
//  1. data.pkl      the object, with a number in place of every storage; then the room that the
//                   pickle may grow into (pickle/encode.h): repeated STOPs, which no reader reaches
//  2. byteorder     "little"
//  3. data/0 ...    the storages, in the order of first use: the parts
//  4. version       "3\n", the version of this layout
//  5. the caller's extra records
//
// There is no .format_version: with this record PyTorch would compute where storages lie instead of
// looking.
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

// Computes where the storages of a torch.save file lie. The offsets follow from the sizes of the
// storages and of the pickle's record, and from the length of the prefix. The offset of a storage
// depends only on the storages before it.
class StoragePlaces {
 public:
  StoragePlaces(std::size_t prefix_size, std::uint64_t pickle_bytes);

  // Adds a storage and returns the offset of its bytes.
  std::uint64_t add(std::uint64_t size);
  // The records data.pkl and byteorder, then those of the storages added so far.
  const std::vector<zip::Placed>& records() const { return records_; }
  // The offset at which the next record begins.
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
  // The size of the record data.pkl: only its content, or with the room to grow.
  enum class Room : std::uint8_t { kNone, kToGrow };

  // Throws UsageError for a prefix that cannot be a folder's name.
  TorchPlan(pickle::Encoded encoded, TorchFileWriteOptions options, Room room = Room::kNone);

  Check check() const override { return Check::kCrc32; }
  // Throws UsageError for extra records that cannot be written. append_between() after the last
  // part throws it, too. Both pass on the exceptions of the function that makes the extra records.
  std::uint64_t size() const override;
  void append_between(std::size_t index, std::span<const std::uint64_t> checks,
                      std::string& out) const override;

  // The size of the record data.pkl, with its room.
  std::uint64_t pickle_bytes() const { return places_.records().front().size; }
  // Replaces the storage of part `index` by one of the same size.
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
  std::uint32_t pickle_crc_ = 0;  // of the record data.pkl, with its room
  TorchFileWriteOptions options_;
  StoragePlaces places_;
};

}  // namespace cairn
