// From std::bad_alloc to an error that says what was being done.
#pragma once

#include <string>

namespace cairn {

// Throws an OutOfMemoryError: "saving ckpt/ep1.pt: there is not enough memory". `path` may be
// empty. Without memory for the message it is throw_out_of_memory()'s. Use it in a handler of
// std::bad_alloc around all that a public function does.
[[noreturn]] void throw_out_of_memory(const char* doing, const std::string& path = {});
// One that says no more, and takes no memory: for those who add what they were doing.
[[noreturn]] void throw_out_of_memory();

}  // namespace cairn
