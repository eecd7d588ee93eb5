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

// What a name's extension says is in it: one of those that are written, or what find_extension()
// refuses (".safetensors", ".pt.foo"); empty where no extension was meant ("run.v2", "lr0.1").
std::string_view meant_extension(std::string_view name);

// Whether a name ends in one of the extensions that are written; not one without any.
bool is_written_extension(std::string_view name);

// The name of the checkpoint in the tars that cairn and Composer write.
inline constexpr std::string_view kTarMember = "composer_states.pt";

}  // namespace cairn
