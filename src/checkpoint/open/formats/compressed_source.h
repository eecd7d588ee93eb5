// Compression around a checkpoint, as rows for source.cpp.
#pragma once

#include "checkpoint/open/formats/candidate.h"
#include "format/compression/codec.h"

namespace cairn {

// Returns the candidate with its bytes decompressed into a ScratchFile. Checks all checksums in the
// compressed data, and throws CorruptError if one fails.
Candidate decompress(Candidate candidate, const Codec& codec);

// A zip of torch.save whose records are compressed. The zip is unwrapped into a ScratchFile as the
// same zip with stored records; every CRC is checked.
extern const FormatRow kDeflatedZipFormat;

// The row of a compression.
template <const Codec& kCodec>
FormatRow compression() {
  return {.name = kCodec.name,
          .matches =
              [](const Candidate& candidate) {
                return !candidate.is_folder && begins_as(kCodec, *candidate.source);
              },
          .unwrap = [](Candidate candidate) { return decompress(std::move(candidate), kCodec); }};
}

}  // namespace cairn
