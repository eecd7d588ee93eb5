// The kinds of compression that a checkpoint can be wrapped in: docs/formats/containers.md.
//
// To add one: write a file beside gzip.cpp that defines its Codec. Add its name here and in
// codecs(), its row in checkpoint/open/source.cpp, and its extension in
// checkpoint/names/extension.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "cairn/byte_source.h"

#include "format/compression/filter.h"

namespace cairn {

struct Codec {
  const char* name;  // "gzip"
  // Returns whether the data is of this kind. `bytes` is the start of the data, about 64 bytes.
  bool (*matches)(ByteView bytes);
  // Make filters that write to `out`, which must outlive them. The decoder throws CorruptError with
  // the offset in the compressed data. It throws UnsupportedError for data that needs more memory
  // than kDecoderMemory.
  std::unique_ptr<Filter> (*decoder)(ByteSink& out);
  std::unique_ptr<Filter> (*encoder)(ByteSink& out);
  // The program that the decoder and the encoder run; nullptr if a library does the work.
  const char* program = nullptr;
  bool has_skippable_frames = false;  // its data may begin with frames to skip
};

extern const Codec kGzip;
extern const Codec kBzip2;
extern const Codec kXz;
extern const Codec kLz4;
extern const Codec kZstd;
extern const Codec kLzop;
extern const Codec kLzma;  // the format before xz, "LZMA alone"

// Deflate without a header, as the records of a zip have it. It has no magic number, so it cannot
// be recognised, and it has only a decoder.
extern const Codec kDeflate;

// All codecs except kDeflate, in the order in which data must be compared with them.
std::span<const Codec* const> codecs();

// Decompresses all of `source` into `out`, reading 1 MiB at a time. Throws UnsupportedError if the
// result has more than `limit` bytes, and StorageError if reading fails.
void decode(const Codec& codec, const ByteSource& source, ByteSink& out, std::uint64_t limit);

// Returns whether `source` begins with data of this codec, after skippable frames if the codec may
// have them. Throws StorageError if reading fails.
bool begins_as(const Codec& codec, const ByteSource& source);

// The most memory that a decoder may use. The data says how much its decoder needs (a window, a
// dictionary). Every file that the tools make with their usual options needs less; `zstd --long=28`
// and larger does not.
inline constexpr std::uint64_t kDecoderMemory = std::uint64_t{144} << 20;

// The most memory that an encoder may use, with all its threads.
inline constexpr std::uint64_t kEncoderMemory = std::uint64_t{192} << 20;

// The number of threads to compress with: one for each core that this process may use, at most 16.
unsigned compression_threads();

}  // namespace cairn
