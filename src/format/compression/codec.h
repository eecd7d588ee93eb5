// The kinds of compression that a checkpoint can be wrapped in: docs/formats/containers.md.
//
// To add one: a file beside gzip.cpp that defines its Codec, its name here and in codecs(), its row
// in checkpoint/open/source.cpp, and its extension in checkpoint/names/extension.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "cairn/byte_source.h"

#include "format/compression/filter.h"

namespace cairn {

struct Codec {
  const char* name;  // "gzip"
  // By the first bytes, some 64 of them; nothing else of the data has been looked at.
  bool (*matches)(ByteView bytes);
  // Filters in front of `out`, which must outlive them. The decoder throws CorruptError with the
  // offset in the compressed data, and UnsupportedError for data that wants more memory than
  // kDecoderMemory.
  std::unique_ptr<Filter> (*decoder)(ByteSink& out);
  std::unique_ptr<Filter> (*encoder)(ByteSink& out);
  // What both of them run; nullptr when the library does it.
  const char* program = nullptr;
  bool has_skippable_frames = false;  // its data may begin with frames that are passed over
};

extern const Codec kGzip;
extern const Codec kBzip2;
extern const Codec kXz;
extern const Codec kLz4;
extern const Codec kZstd;
extern const Codec kLzop;
extern const Codec kLzma;  // the format of before xz, "LZMA alone"

// Deflate without a header, as the records of a zip have it: no data can be known by it. It has
// only a decoder.
extern const Codec kDeflate;

// All of them but kDeflate, in the order in which data is to be compared with them.
std::span<const Codec* const> codecs();

// All of `source`, read a MiB at a time, decompressed into `out`. More than `limit` bytes are an
// UnsupportedError. StorageError.
void decode(const Codec& codec, const ByteSource& source, ByteSink& out, std::uint64_t limit);

// Whether `source` begins as data of this codec, behind such frames if it may have them.
// StorageError.
bool begins_as(const Codec& codec, const ByteSource& source);

// A decoder's memory is what the data asks for (a window, a dictionary). Every file that the tools
// make with their usual options stays below this; `zstd --long=28` and larger does not.
inline constexpr std::uint64_t kDecoderMemory = std::uint64_t{144} << 20;

// An encoder's memory, with all its threads.
inline constexpr std::uint64_t kEncoderMemory = std::uint64_t{192} << 20;

// Threads to compress with: one for each core that this process may use.
unsigned compression_threads();

}  // namespace cairn
