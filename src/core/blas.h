// Finds out which BLAS (the library that multiplies matrices) a process uses, without linking one.
// Each implementation is recognised by symbols that only it has. On Debian, libtorch uses
// libblas.so.3, which can be any implementation. Unless another is installed, it is the slow
// reference one.
#pragma once

#include <optional>
#include <string>

namespace cairn {

struct Blas {
  std::string name;      // "OpenBLAS 0.3.21 (OpenMP)", "reference BLAS", or the file's name
  std::string path;      // the file; empty if the loader does not tell it
  bool is_slow = false;  // the reference implementation: no vector instructions, one thread
  int threads = 1;       // the number of threads that it would use
  // It has its own threads, while libtorch uses OpenMP's: the two pools compete for the cores.
  bool has_own_pool = false;
};

// The BLAS that this process calls; nullopt when there is none.
std::optional<Blas> loaded_blas();

// The BLAS in a shared library, given by path or by a name that the loader finds. Loads the
// library. nullopt when there is no such library, or no BLAS in it.
std::optional<Blas> blas_of(const std::string& library);

// Sets the threads of loaded_blas() if its function for that is known; otherwise does nothing.
void set_blas_threads(int threads);

// The package to install instead of a slow BLAS.
inline constexpr const char* kFastBlasPackage = "libopenblas0-openmp";

}  // namespace cairn
