// Where the tool may write.
#pragma once

#include <string>

namespace cairn::cli {

// UsageError for a place that the tool does not write to: memory://, which ends with the tool, and
// "-", which other tools take for standard output. Every command that takes an output calls this.
void check_out_place(const std::string& place);

// UsageError for a name such as "model.safetensor", which would silently become a torch.save file.
// The message names the nearest known extension, and `way_out`: how to write that name even so.
// `other` is the extension that this command writes besides those of torch.save.
// Extensions that find_extension() (checkpoint/names/extension.h) refuses are left to it.
void check_extension(const std::string& place, const std::string& other,
                     const std::string& way_out);

}  // namespace cairn::cli
