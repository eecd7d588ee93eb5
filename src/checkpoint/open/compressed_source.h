// Compression around a checkpoint, as rows of source.cpp.
#pragma once

#include "checkpoint/open/candidate.h"
#include "format/compression/codec.h"

namespace cairn {

// The candidate with its bytes decompressed into a ScratchFile. All of the data's own checksums are
// checked: CorruptError.
Candidate decompress(Candidate candidate, const Codec& codec);

template <const Codec& kCodec>
bool is_compressed(const Candidate& candidate) {
  return !candidate.is_folder && begins_as(kCodec, *candidate.source);
}

template <const Codec& kCodec>
Candidate decompress_by(Candidate candidate) {
  return decompress(std::move(candidate), kCodec);
}

}  // namespace cairn
