// Finds out which BLAS (the library that multiplies matrices) a process uses, without linking one.
// Each implementation is recognised by symbols that only it has. On Debian, libtorch uses
// libblas.so.3, which can be any implementation. Unless another implementation is installed, that
// file is the slow reference implementation.
#pragma once

#include <optional>
#include <string>

namespace cairn {

struct Blas {
  std::string name;      // "OpenBLAS 0.3.21 (OpenMP)", "reference BLAS", or the file's name
  std::string path;      // the file's path; empty if the loader does not report it
  bool is_slow = false;  // the reference implementation: no vector instructions, one thread
  int threads = 1;       // the number of threads that it would use
  // This BLAS has a thread pool of its own, while libtorch uses OpenMP's pool: the two pools
  // compete for the cores.
  bool has_own_pool = false;
};

// Returns the BLAS that this process calls; nullopt if there is none.
std::optional<Blas> loaded_blas();

// Loads a shared library, given by path or by a name that the loader finds. Returns the BLAS in the
// library; nullopt if there is no such library, or no BLAS in it.
std::optional<Blas> blas_of(const std::string& library);

// Sets the number of threads of loaded_blas(). Does nothing if no function of that BLAS is known
// for it.
void set_blas_threads(int threads);

// From now on, OpenMP starts no other threads for the calling thread. Other threads keep their
// number. Does nothing without OpenMP.
void compute_on_this_thread_only();

// The package to install instead of a slow BLAS.
inline constexpr const char* kFastBlasPackage = "libopenblas0-openmp";

}  // namespace cairn
