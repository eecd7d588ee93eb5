// Compression around a checkpoint, as rows of source.cpp.
#pragma once

#include "checkpoint/open/formats/candidate.h"
#include "format/compression/codec.h"

namespace cairn {

// The candidate with its bytes decompressed into a ScratchFile. All of the data's own checksums are
// checked: CorruptError.
Candidate decompress(Candidate candidate, const Codec& codec);

// torch.save's zip whose records are compressed, and the same with its records stored, in a
// ScratchFile; every CRC is checked.
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
