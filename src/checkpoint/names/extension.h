// What the extension of a checkpoint's name says about how it is to be written. Reading goes by
// content.
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

// A name that ends in no known extension has none: the dots of "lr0.1-ep3" are part of it. Only
// where one was meant (".zstd", ".pt.foo"; docs/formats/containers.md has the rule) UsageError that
// lists all there are; and one that names the program which the extension needs and which is not
// installed.
const Extension& find_extension(const std::string& path);

// Whether a name ends in one of the extensions that are written; not one without any.
bool is_written_extension(std::string_view name);

// The name of the checkpoint in the tars that cairn and Composer write.
inline constexpr std::string_view kTarMember = "composer_states.pt";

}  // namespace cairn
