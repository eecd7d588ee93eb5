#include "checkpoint/open/formats/compressed_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <functional>

#include "cairn/error.h"

#include "format/zip/directory.h"
#include "format/zip/stored_copy.h"
#include "io/memory/scratch_file.h"

namespace cairn {
namespace {

// The largest size to which a file may expand. Memory is not in danger, since everything streams
// into a scratch file. Time and the disk are in danger.
//
//  - The disk: a run that trains on this machine saves to the disk, so a decompression bomb must
//    not fill it. A tenth of the free space stays free. Hitting that limit says nothing about the
//    file: with more space the file may be readable.
//  - Time: parameters shrink to a half at best, but a state that is all zeros is legitimate, too.
//    Except for bzip2, no format compresses zeros by a factor of 65,536 (gzip 1,032, xz 7,000, zstd
//    33,000); bzip2 with blocks of 900,000 zeros, as cairn writes them, reaches 22,000. The
//    expansion of a bomb of 10 kB ends after 1.6 GB, which takes seconds.
std::uint64_t most_bytes(std::uint64_t compressed) {
  constexpr std::uint64_t kMaxExpansion = 65'536;
  constexpr std::uint64_t kAlways = std::uint64_t{1} << 30;
  constexpr std::uint64_t kLargest = std::uint64_t{1} << 62;
  return compressed > kLargest / kMaxExpansion ? kLargest : kAlways + compressed * kMaxExpansion;
}

// Writes into a scratch file, and leaves a tenth of the free space in its folder free.
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

bool has_object(const zip::Directory& directory) {
  return std::ranges::any_of(
      directory.entries, [](const zip::Entry& entry) { return entry.record.name == "data.pkl"; });
}

// Returns the candidate with the bytes that `write` puts into a ScratchFile as its content. `name`
// is the name of the container, for messages.
Candidate expand(Candidate candidate, const char* name,
                 const std::function<void(ByteSink& out)>& write) {
  try {
    ScratchFile scratch(candidate.scratch_folder);
    ModestSink modest(scratch);
    write(modest);
    candidate.set_content(source_of(scratch.map(), candidate.path));
    return candidate;
  } catch (const CorruptError& e) {
    throw CorruptError(candidate.path + ": " + name + ": " + e.what(), candidate.path, e.offset());
  } catch (Error& e) {
    e.add_context(candidate.path + ": " + name);
    throw;
  }
}

bool is_deflated_zip(const Candidate& candidate) {
  constexpr std::size_t kVersionAt = 4;  // offset in the first record; torch.save and cairn write 0
  const std::string_view start = as_text(candidate.start.view);
  if (!start.starts_with("PK\x03\x04")) return false;
  if (start.substr(kVersionAt, 2) == std::string_view("\0\0", 2)) return false;
  try {
    const zip::Directory directory = zip::read_directory(*candidate.source);
    const zip::Entry* const compressed = zip::find_compressed(directory);
    return compressed != nullptr && compressed->is_deflated() && has_object(directory);
  } catch (const StorageError&) {
    throw;
  } catch (const Error&) {
    return false;  // open_torch_zip() will report the problem
  }
}

Candidate expand_zip(Candidate candidate) {
  const auto compressed = candidate.source;
  return expand(std::move(candidate), kDeflate.name, [&](ByteSink& out) {
    zip::write_stored(zip::read_directory(*compressed), compressed, out);
  });
}

}  // namespace

Candidate decompress(Candidate candidate, const Codec& codec) {
  const auto compressed = candidate.source;
  return expand(std::move(candidate), codec.name, [&](ByteSink& out) {
    decode(codec, *compressed, out, most_bytes(compressed->size()));
  });
}

constinit const FormatRow kDeflatedZipFormat = {
    .name = "deflate", .matches = is_deflated_zip, .unwrap = expand_zip};

}  // namespace cairn
