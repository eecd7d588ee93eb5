#include "core/blas.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace cairn {
namespace {

template <class Function>
Function* symbol(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

std::string real_path(const char* path) {
  const std::unique_ptr<char, decltype(&std::free)> real(realpath(path, nullptr), std::free);
  return real ? real.get() : path;
}

// The second word of "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ...".
std::string second_word(const std::string& text) {
  const std::size_t begin = text.find(' ');
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find(' ', begin + 1) - begin);
}

void describe_openblas(void* library, Blas& blas) {
  auto* const config = symbol<char*()>(library, "openblas_get_config");
  auto* const parallel = symbol<int()>(library, "openblas_get_parallel");
  auto* const threads = symbol<int()>(library, "openblas_get_num_threads");
  static constexpr std::array<const char*, 3> kKinds = {"serial", "pthread", "OpenMP"};
  const int kind = parallel == nullptr ? -1 : parallel();
  blas.name = "OpenBLAS" + second_word(config());
  if (kind >= 0 && kind < 3) blas.name += fmt::format(" ({})", kKinds[kind]);
  if (threads != nullptr) blas.threads = threads();
  blas.has_own_pool = kind == 1;
}

// Debian's libblas.so.3 of BLIS exports no function that only BLIS has; the library's folder
// identifies it.
void describe_blis(void* library, Blas& blas) {
  auto* const version = symbol<const char*()>(library, "bli_info_get_version_str");
  auto* const openmp = symbol<std::int64_t()>(library, "bli_info_get_enable_openmp");
  auto* const threads = symbol<std::int64_t()>(library, "bli_thread_get_num_threads");
  blas.name = "BLIS";
  if (version != nullptr) blas.name += std::string(" ") + version();
  const bool is_openmp =
      openmp != nullptr ? openmp() != 0 : blas.path.find("openmp") != std::string::npos;
  blas.name += is_openmp ? " (OpenMP)" : " (pthread)";
  if (threads != nullptr) blas.threads = static_cast<int>(std::max<std::int64_t>(1, threads()));
  blas.has_own_pool = !is_openmp;
}

std::optional<Blas> describe(void* library) {
  void* const sgemm = dlsym(library, "sgemm_");
  if (sgemm == nullptr) return std::nullopt;
  Blas blas;
  Dl_info info = {};
  if (dladdr(sgemm, &info) != 0 && info.dli_fname != nullptr) {
    blas.path = real_path(info.dli_fname);
  }
  if (dlsym(library, "openblas_get_config") != nullptr) {
    describe_openblas(library, blas);
  } else if (dlsym(library, "bli_info_get_version_str") != nullptr ||
             blas.path.find("/blis") != std::string::npos) {
    describe_blis(library, blas);
  } else if (dlsym(library, "MKL_Get_Max_Threads") != nullptr) {
    blas.name = "MKL";
  } else if (dlsym(library, "ATL_buildinfo") != nullptr) {
    blas.name = "ATLAS";
  } else if (blas.path.find("/blas/libblas.so") != std::string::npos) {
    blas.name = "reference BLAS";
    blas.is_slow = true;
  } else {
    blas.name = blas.path.substr(blas.path.rfind('/') + 1);
  }
  return blas;
}

}  // namespace

std::optional<Blas> loaded_blas() { return describe(RTLD_DEFAULT); }

std::optional<Blas> blas_of(const std::string& library) {
  void* const handle = dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL);
  // Stays loaded: unloading a library that has its own threads is risky.
  return handle == nullptr ? std::nullopt : describe(handle);
}

void set_blas_threads(int threads) {
  if (auto* const set = symbol<void(int)>(RTLD_DEFAULT, "openblas_set_num_threads")) {
    set(threads);
  } else if (auto* const set_blis =
                 symbol<void(std::int64_t)>(RTLD_DEFAULT, "bli_thread_set_num_threads")) {
    set_blis(threads);
  }
}

void compute_on_this_thread_only() {
  if (auto* const set = symbol<void(int)>(RTLD_DEFAULT, "omp_set_num_threads")) set(1);
}

}  // namespace cairn
