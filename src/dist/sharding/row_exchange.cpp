#include "dist/sharding/row_exchange.h"

#include "core/round_up.h"

namespace cairn::dist {
namespace {

// Elements of any dtype may begin at a multiple of this number.
constexpr std::int64_t kPartAlignment = 16;

}  // namespace

void RowExchange::wait(const ShardMesh& mesh, const std::string& what) const {
  mesh.group().run_collective(what, [&] { mesh.group().wait(work, mesh.row()); });
}

std::int64_t part_bytes(std::int64_t elements, at::ScalarType type) {
  const auto bytes = static_cast<std::uint64_t>(elements) * c10::elementSize(type);
  return static_cast<std::int64_t>(round_up(bytes, std::uint64_t{kPartAlignment}));
}

at::Tensor next_part(const at::Tensor& bytes, std::int64_t& at, std::int64_t elements,
                     at::ScalarType type) {
  const auto size = elements * static_cast<std::int64_t>(c10::elementSize(type));
  const at::Tensor part = bytes.narrow(0, at, size).view(type);
  at += part_bytes(elements, type);
  return part;
}

}  // namespace cairn::dist
