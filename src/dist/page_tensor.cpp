#include "dist/page_tensor.h"

#include <malloc.h>
#include <torch/torch.h>

#include <cstdint>
#include <memory>

#include "io/memory/page_memory.h"

namespace cairn::dist {
namespace {

constexpr std::int64_t kLargeBytes = std::int64_t{256} << 10;

}  // namespace

at::Tensor page_tensor(at::IntArrayRef sizes, const at::TensorOptions& options) {
  auto bytes = static_cast<std::int64_t>(options.dtype().itemsize());
  for (const std::int64_t size : sizes)
    bytes *= size;
  const bool is_plain = options.device().is_cpu() && !options.pinned_memory();
  if (!is_plain || bytes < kLargeBytes) return at::empty(sizes, options);
  auto memory = std::make_shared<PageMemory>(static_cast<std::size_t>(bytes));
  void* const data = memory->data();
  return at::from_blob(
      data, sizes, [memory = std::move(memory)](void*) mutable { memory.reset(); }, options);
}

void give_back_heap() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace cairn::dist
