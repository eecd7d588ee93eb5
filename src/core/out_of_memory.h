// Turns std::bad_alloc into an error that says what was being done.
#pragma once

#include <string>

namespace cairn {

// Throws an OutOfMemoryError: "saving ckpt/ep1.pt: there is not enough memory". `path` may be
// empty. Without memory for the message it throws as throw_out_of_memory() does. Use it in a
// handler of std::bad_alloc around all that a public function does.
[[noreturn]] void throw_out_of_memory(const char* doing, const std::string& path = {});
// Throws an error without such a context, and takes no memory: for callers that add their own.
[[noreturn]] void throw_out_of_memory();

}  // namespace cairn
