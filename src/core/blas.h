// Which BLAS (the library that multiplies matrices) a process computes with, found out without
// linking one: by the symbols that each implementation has of its own. On Debian libtorch takes
// libblas.so.3, which can be any of them, and is the slow reference one unless another is
// installed.
#pragma once

#include <optional>
#include <string>

namespace cairn {

struct Blas {
  std::string name;      // "OpenBLAS 0.3.21 (OpenMP)", "reference BLAS"; else the file's name
  std::string path;      // the file; empty when the loader does not say
  bool is_slow = false;  // the reference implementation: no vector instructions, one thread
  int threads = 1;       // that it would use
  // Its threads are not OpenMP's, which libtorch uses: the two pools get in each other's way.
  bool has_own_pool = false;
};

// The one whose functions this process calls; nullopt when there is none.
std::optional<Blas> loaded_blas();

// The one in a shared library, by path or as the loader finds it by name; loads it. nullopt when
// there is no such library, or no BLAS in it.
std::optional<Blas> blas_of(const std::string& library);

// For loaded_blas(), where it is known how; otherwise without effect.
void set_blas_threads(int threads);

// What to install instead of a slow one.
inline constexpr const char* kFastBlasPackage = "libopenblas0-openmp";

}  // namespace cairn
