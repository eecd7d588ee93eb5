// The counts of cuda_calls.cpp.
#pragma once

#include <dlfcn.h>

namespace cairn::bench {

struct CudaCalls {
  unsigned long kernels = 0;
  unsigned long waits = 0;
};

// The counts of this process so far. Zeros if libcuda_calls.so is not loaded.
inline CudaCalls cuda_calls() {
  static auto* const count =
      reinterpret_cast<CudaCalls (*)()>(dlsym(RTLD_DEFAULT, "cairn_cuda_calls"));
  return count == nullptr ? CudaCalls() : count();
}

}  // namespace cairn::bench
