// Reads the tensors in an algorithm's saved state.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cairn/value.h"

namespace cairn {

// New tensors like `templates`, with the elements that `saved`, a dict, has under the same names.
// Adds to `misfits` what does not fit, and names that are not in `templates`. `where`: the key of
// `saved`, for messages.
std::vector<std::pair<std::string, at::Tensor>> read_tensors(
    const Value* saved, const std::vector<std::pair<std::string, at::Tensor>>& templates,
    const std::string& where, std::vector<std::string>& misfits);

// The entries `key` of `state`. If it is of another type, adds that to `misfits`.
bool read_flag(const Value& state, const char* key, std::vector<std::string>& misfits);
std::int64_t read_count(const Value& state, const char* key, std::vector<std::string>& misfits);

// Throws MismatchError that lists `misfits`, if there are any. `who`: the algorithm.
void throw_misfits(const std::string& who, const std::vector<std::string>& misfits);

}  // namespace cairn
