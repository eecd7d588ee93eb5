// Counts what a process asks of CUDA: kernels started, and waits of the host for the device.
//
//   LD_PRELOAD=build/release/lib/libcuda_calls.so train_bench deep_transformer adamw 9 gpu
//
// It stands in front of the functions of libcudart that libtorch calls, and needs none of CUDA's
// headers. Programs find the counts by the name cairn_cuda_calls (cuda_calls.h).
#include "cuda_calls.h"

#include <dlfcn.h>

#include <atomic>
#include <cstddef>

namespace {

std::atomic<unsigned long> kernels = 0;
std::atomic<unsigned long> waits = 0;

// CUDA's dim3.
struct Dim3 {
  unsigned x, y, z;
};

// The function of libcudart that this library stands in front of.
template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

#define CAIRN_NEXT(name) static auto* const real = next<decltype(name)>(#name)

extern "C" {

cairn::bench::CudaCalls cairn_cuda_calls() { return {kernels, waits}; }

int cudaLaunchKernel(const void* function, Dim3 grid, Dim3 block, void** arguments,
                     std::size_t shared, void* stream) {
  CAIRN_NEXT(cudaLaunchKernel);
  ++kernels;
  return real(function, grid, block, arguments, shared, stream);
}

int cudaLaunchKernelExC(const void* config, const void* function, void** arguments) {
  CAIRN_NEXT(cudaLaunchKernelExC);
  ++kernels;
  return real(config, function, arguments);
}

int cudaStreamSynchronize(void* stream) {
  CAIRN_NEXT(cudaStreamSynchronize);
  ++waits;
  return real(stream);
}

int cudaEventSynchronize(void* event) {
  CAIRN_NEXT(cudaEventSynchronize);
  ++waits;
  return real(event);
}

}  // extern "C"
