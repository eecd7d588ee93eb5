// The C library's streams, under names of this library. Debian's static libbz2 and libzstd are made
// for programs: they reach `stderr` in a way that is only possible within one file. So the linker
// takes these variables in its place (--wrap).
#include <dlfcn.h>

#include <cstdio>

extern "C" {

FILE* __wrap_stdin = nullptr;
FILE* __wrap_stdout = nullptr;
FILE* __wrap_stderr = nullptr;

namespace {

FILE* stream(const char* name) {
  auto* const found = static_cast<FILE**>(dlsym(RTLD_DEFAULT, name));
  return found == nullptr ? nullptr : *found;
}

__attribute__((constructor)) void find_standard_streams() {
  __wrap_stdin = stream("stdin");
  __wrap_stdout = stream("stdout");
  __wrap_stderr = stream("stderr");
}

}  // namespace
}
