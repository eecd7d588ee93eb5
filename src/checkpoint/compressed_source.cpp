#include "checkpoint/compressed_source.h"

#include <algorithm>

#include "cairn/error.h"

#include "base/scratch_file.h"

namespace cairn {
namespace {

// How large a file may become. Memory is not in danger: everything streams into a scratch file.
// Time and the disk are.
//
//  - The disk: a bomb must not fill it, because a run that trains beside it saves to it. A tenth of
//    what is free stays free.
//  - Time: parameters shrink to a half at best, but a state that is all zeros is honest, too.
//    65,536 is beyond what any of the formats but bzip2 makes of zeros (gzip 1,032, xz 7,000, zstd
//    33,000); bzip2's blocks of 900,000 zeros, as cairn writes them, are 22,000 times smaller. A
//    bomb of 10 kB is over after 1.6 GB, seconds.
std::uint64_t most_bytes(std::uint64_t compressed, std::uint64_t available) {
  constexpr std::uint64_t kMostTimes = 65'536;
  constexpr std::uint64_t kAlways = std::uint64_t{1} << 30;
  constexpr std::uint64_t kLargest = std::uint64_t{1} << 62;
  const std::uint64_t by_ratio =
      compressed > kLargest / kMostTimes ? kLargest : kAlways + compressed * kMostTimes;
  return std::min(by_ratio, available / 10 * 9);
}

}  // namespace

Candidate decompress(Candidate candidate, const Codec& codec) {
  try {
    ScratchFile scratch(candidate.scratch_folder);
    decode(codec, candidate.bytes, scratch,
           most_bytes(candidate.bytes.view.size(), scratch.available()));
    candidate.bytes = scratch.map();
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
