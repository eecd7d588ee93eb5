// The bytes of a file that has checksums. Every byte is verified before it is given out. The
// tensors of an opened checkpoint are ranges of this source.
//
//  1. The reader of the format says which records the file has, and how they are checked.
//  2. A read verifies each record that it touches and that was not verified before. The whole
//     record is read. In the same pass the bytes that the read wants go to their places.
//  3. A record is verified once, by one thread. Other threads that need it wait. Each read of a
//     damaged record throws CorruptError without another look at the file.
//  4. CheckpointSource::check() verifies through this class, too. Records that check() found good
//     are not verified again.
//
// Bytes outside of all records are read without a check.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "cairn/byte_source.h"
#include "cairn/checkpoint/checkpoint.h"
#include "cairn/format/torch_file.h"

#include "checkpoint/open/verify/check_records.h"

namespace cairn {

class VerifiedSource final : public ByteSource {
 public:
  // Verifies some of the records with `read`, and adds damage to the report. Each Damage begins
  // where its record does. Records may come without their names.
  using Check = std::function<void(const CheckedRead& read, const std::vector<FileRecord>& records,
                                   VerifyReport& report)>;

  VerifiedSource(std::shared_ptr<const ByteSource> under, Check check);

  // The same bytes, without a check.
  const ByteSource& under() const { return *under_; }
  const std::shared_ptr<const ByteSource>& shared_under() const { return under_; }

  // Step 1. Records must not overlap. Records that are already known stay as they are. Thread-safe.
  void add(const std::vector<FileRecord>& records) const;
  // Step 4: verifies these records, even if they were verified before. `read` reads under().
  void check(const CheckedRead& read, const std::vector<FileRecord>& records,
             VerifyReport& report) const;
  // Step 4, if a checksum of the whole file matched: every record is good, also a record that is
  // added later.
  void set_good() const;

  std::uint64_t size() const override { return under_->size(); }
  const std::string& name() const override { return under_->name(); }
  // True only once everything is verified: until then view() reads the file.
  bool in_memory() const override { return is_good() && under_->in_memory(); }
  void read(std::span<const Range> ranges) const override;
  void read_each(std::span<const Part> parts, const Look& look) const override;
  // True only once everything is verified: until then read_each() reads twice what read() reads
  // once.
  bool shows_in_order() const override { return is_good() && under_->shows_in_order(); }
  SharedBytes view(std::uint64_t offset, std::uint64_t size) const override;
  const ByteSource& unverified() const override { return under(); }

 private:
  enum class State : std::uint8_t { kUnknown, kChecking, kGood, kDamaged };
  struct Entry {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
    std::uint32_t crc32 = 0;
    State state = State::kUnknown;
  };
  struct Extent {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
  };

  bool is_good() const { return left_ == 0; }
  bool verify(std::span<const Extent> wanted, const std::vector<Range>& places) const;
  std::vector<FileRecord> claim(std::span<const Extent> wanted) const;
  void give_up(const std::vector<FileRecord>& claimed) const;
  void note(const std::vector<FileRecord>& records, std::span<const Damage> damage) const;
  void set(Entry& entry, State state) const;
  void refuse(const Entry& entry) const;

  const std::shared_ptr<const ByteSource> under_;
  const Check check_;
  mutable std::mutex mutex_;
  mutable std::condition_variable checked_;
  mutable std::vector<Entry> entries_;              // by offset
  mutable std::map<std::uint64_t, Damage> damage_;  // of damaged entries, by their offset
  mutable std::atomic<std::size_t> left_ = 0;       // entries that are not good
  mutable bool is_whole_ = false;                   // set_good() was called
};

}  // namespace cairn
