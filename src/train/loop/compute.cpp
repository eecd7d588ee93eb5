#include "train/loop/compute.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <initializer_list>
#include <optional>

#include "core/blas.h"

namespace cairn {
namespace {

bool is_set(std::initializer_list<const char*> variables) {
  return std::ranges::any_of(variables,
                             [](const char* name) { return std::getenv(name) != nullptr; });
}

// The number that set_up_threads() set last; 0 if it has set none.
std::atomic<int> number_set = 0;

bool is_number_chosen(int usual) {
  const int threads = at::get_num_threads();
  return is_set({"OMP_NUM_THREADS", "MKL_NUM_THREADS"}) ||
         (threads != usual && threads != number_set);
}

std::string counted(int number, const std::string& what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

}  // namespace

std::string set_up_threads(double processors, std::optional<int> usual, int loader_workers) {
  if (!usual) usual = at::intraop_default_num_threads();
  const int left = std::max(1, static_cast<int>(processors) - loader_workers);
  const int wanted = std::min(*usual, left);
  if (at::get_num_threads() != wanted && !is_number_chosen(*usual)) {
    at::set_num_threads(wanted);
    number_set = wanted;
  }
  const int threads = at::get_num_threads();
  std::optional<Blas> blas = loaded_blas();
  if (blas && blas->has_own_pool && blas->threads > 1 && threads > 1 &&
      !is_set({"OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS"})) {
    set_blas_threads(1);
    blas = loaded_blas();
  }
  std::string name = at::hasMKL() ? "MKL" : "a BLAS of libtorch's own";
  if (blas && !at::hasMKL()) name = blas->name;
  std::string line = fmt::format("computing with {}, {}", name, counted(threads, "thread"));
  if (blas && blas->has_own_pool) line += fmt::format(" and {} of the BLAS", blas->threads);
  if (loader_workers > 0) line += ", beside " + counted(loader_workers, "loader thread");
  line += fmt::format(", on {:.3g} processor{}", processors, processors == 1 ? "" : "s");
  if (!blas || !blas->is_slow || at::hasMKL()) return line;
  return fmt::format("warning: {}. This BLAS is 2 to 20 times slower than OpenBLAS: install {}",
                     line, kFastBlasPackage);
}

}  // namespace cairn
