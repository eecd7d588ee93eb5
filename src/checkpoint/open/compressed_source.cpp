#include "checkpoint/open/compressed_source.h"

#include <fmt/format.h>

#include <cerrno>

#include "cairn/error.h"

#include "io/scratch_file.h"

namespace cairn {
namespace {

// How large a file may become. Memory is not in danger: everything streams into a scratch file.
// Time and the disk are.
//
//  - The disk: a bomb must not fill it, because a run that trains beside it saves to it. A tenth of
//    what is free stays free. That says nothing about the file: with more room it may be fine.
//  - Time: parameters shrink to a half at best, but a state that is all zeros is honest, too.
//    65,536 is beyond what any of the formats but bzip2 makes of zeros (gzip 1,032, xz 7,000, zstd
//    33,000); bzip2's blocks of 900,000 zeros, as cairn writes them, are 22,000 times smaller. A
//    bomb of 10 kB is over after 1.6 GB, seconds.
std::uint64_t most_bytes(std::uint64_t compressed) {
  constexpr std::uint64_t kMostTimes = 65'536;
  constexpr std::uint64_t kAlways = std::uint64_t{1} << 30;
  constexpr std::uint64_t kLargest = std::uint64_t{1} << 62;
  return compressed > kLargest / kMostTimes ? kLargest : kAlways + compressed * kMostTimes;
}

// A scratch file that leaves a tenth of the room where it lies.
class ModestSink final : public ByteSink {
 public:
  explicit ModestSink(ScratchFile& to) : to_(to), room_(to.available() / 10 * 9), left_(room_) {}

  void write(ByteView bytes) override {
    if (bytes.size() > left_) {
      throw StorageError(fmt::format("it expands to more than the {} bytes that may be used in {} "
                                     "(a tenth of what is free there stays free); free space "
                                     "there, or set TMPDIR to a folder with more",
                                     room_, to_.folder()),
                         ENOSPC, /*retryable=*/true);
    }
    left_ -= bytes.size();
    to_.write(bytes);
  }

 private:
  ScratchFile& to_;
  std::uint64_t room_;
  std::uint64_t left_;
};

}  // namespace

Candidate decompress(Candidate candidate, const Codec& codec) {
  try {
    ScratchFile scratch(candidate.scratch_folder);
    ModestSink modest(scratch);
    decode(codec, *candidate.source, modest, most_bytes(candidate.source->size()));
    candidate.set_content(source_of(scratch.map(), candidate.path));
    return candidate;
  } catch (const CorruptError& e) {
    throw CorruptError(candidate.path + ": " + codec.name + ": " + e.what(), candidate.path,
                       e.offset());
  } catch (Error& e) {
    e.add_context(candidate.path + ": " + codec.name);
    throw;
  }
}

}  // namespace cairn
