// The extension of a checkpoint's name decides how the checkpoint is written. Readers look only at
// the content.
#pragma once

#include <string>
#include <string_view>

#include "format/compression/codec.h"

namespace cairn {

struct Extension {
  std::string_view text;         // ".tar.gz"; empty for a name without extension
  const Codec* codec = nullptr;  // nullptr: not compressed
  bool is_tar = false;           // the .pt is packed into a tar first
};

// Returns the extension of the name in `path`. A name may have none: the dots of "lr0.1-ep3" are
// part of the name. Throws UsageError if the name has an unknown extension (".zstd", ".pt.foo"),
// and lists the known ones. docs/formats/containers.md says when dots count as an extension. Throws
// UsageError, too, if the extension needs a program that is not installed; the message names the
// program.
const Extension& find_extension(const std::string& path);

// The extension of `name`: a known one, or one that find_extension() refuses (".safetensors",
// ".pt.foo"). Empty if no extension was meant ("run.v2", "lr0.1").
std::string_view meant_extension(std::string_view name);

// Whether `name` ends in a known extension. False for a name without extension.
bool is_written_extension(std::string_view name);

// The name of the checkpoint in the tars that cairn and Composer write.
inline constexpr std::string_view kTarMember = "composer_states.pt";

}  // namespace cairn
