// Turns std::bad_alloc into an error that says what was being done.
#pragma once

#include <string>

namespace cairn {

// Throws an OutOfMemoryError: "saving ckpt/ep1.pt: there is not enough memory". `path` may be
// empty. If there is no memory for this message, throws as throw_out_of_memory() does. Call this
// function in a handler of std::bad_alloc that encloses everything a public function does.
[[noreturn]] void throw_out_of_memory(const char* doing, const std::string& path = {});
// Throws an OutOfMemoryError that does not say what was being done. Takes no memory. For callers
// that add the context themselves.
[[noreturn]] void throw_out_of_memory();

}  // namespace cairn
