// Checks where the tool may write.
#pragma once

#include <string>
#include <string_view>

namespace cairn::cli {

// Throws UsageError for a place that the tool does not write to: memory://, whose content ends with
// the tool, and "-", which other tools take for standard output. Every command with an output calls
// this.
void check_out_place(const std::string& place);

// Writes a file at once: a reader sees all of it, or what was there before. Throws
// AlreadyExistsError if something is there and may not be replaced; StorageError.
void write_out(const std::string& place, std::string_view text, bool overwrite);

// Throws UsageError for a name such as "model.safetensor", which would silently become a torch.save
// file. The message gives the nearest known extension, and `way_out`, which says how to write that
// name anyway. `other` is the extension that this command writes besides those of torch.save.
// Extensions that find_extension() (checkpoint/names/extension.h) refuses are left to that
// function.
void check_extension(const std::string& place, const std::string& other,
                     const std::string& way_out);

}  // namespace cairn::cli
