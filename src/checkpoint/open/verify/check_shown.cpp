#include "checkpoint/open/verify/check_shown.h"

#include <fmt/format.h>

#include <algorithm>

#include "cairn/error.h"

#include "core/text/size_text.h"
#include "value/shown_bytes.h"

namespace cairn {

void check_shown(const Value& part, const CheckpointSource& source, const std::string& path,
                 std::optional<std::uint64_t> most_repetition) {
  constexpr std::uint64_t kAlways = std::uint64_t{256} << 20;
  if (!most_repetition) return;
  const std::uint64_t shown = shown_bytes(part);
  if (shown <= kAlways) return;
  const std::uint64_t stored = source.expanded_bytes();
  if ((shown - kAlways) / std::max<std::uint64_t>(*most_repetition, 1) <= stored) return;
  throw UnsupportedError(fmt::format(
      "{}: its {} show {} of tensors and texts, more than {} and {} times its size: tensors with a "
      "stride of 0, or parts that are at many places, repeat few bytes.\nIf that is intended, "
      "raise the limit (most_repetition; --force of the tool)",
      path, size_text(stored), size_text(shown), size_text(kAlways), *most_repetition));
}

}  // namespace cairn
