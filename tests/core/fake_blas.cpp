// The symbols that blas_test finds in each kind of BLAS.
#include <cstdint>

extern "C" {

void sgemm_() {}

#if FAKE_OPENBLAS
const char* openblas_get_config() { return "OpenBLAS 9.8.7 NO_LAPACKE DYNAMIC_ARCH Haswell"; }
int openblas_get_parallel() { return 1; }  // pthread
int openblas_get_num_threads() { return 4; }
#elif FAKE_BLIS
const char* bli_info_get_version_str() { return "0.9.9"; }
std::int64_t bli_info_get_enable_openmp() { return 1; }
std::int64_t bli_thread_get_num_threads() { return -1; }  // not set
#endif
}
