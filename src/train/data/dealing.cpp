#include "train/data/dealing.h"

#include <algorithm>
#include <limits>
#include <string_view>

namespace cairn {
namespace {

// The product of two such numbers fits into 64 bits.
constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();

bool read(const Value& state, std::string_view key, std::int64_t& number) {
  const Value* value = state.find(key);
  if (value == nullptr || !value->is_int()) return false;
  number = value->as_int();
  return true;
}

bool read(const Value& state, std::string_view key, bool& flag) {
  const Value* value = state.find(key);
  if (value == nullptr || !value->get_if<bool>()) return false;
  flag = value->as_bool();
  return true;
}

}  // namespace

std::optional<Dealing> Dealing::of(const Value& state) {
  Dealing dealing;
  if (!state.is_dict()) return std::nullopt;
  const bool is_whole =
      read(state, "size", dealing.samples) && read(state, "shuffle", dealing.shuffle) &&
      read(state, "seed", dealing.seed) && read(state, "drop_last", dealing.drop_last) &&
      read(state, "batch_size", dealing.batch_size);
  if (!is_whole) return std::nullopt;
  if (read(state, "num_replicas", dealing.ranks)) {
    read(state, "sampler_drop_last", dealing.rank_drop_last);
  }
  const bool is_possible = dealing.samples >= 0 && dealing.batch_size >= 1 &&
                           dealing.batch_size <= kMax && dealing.ranks >= 1 &&
                           dealing.ranks <= kMax;
  if (!is_possible) return std::nullopt;
  return dealing;
}

bool Dealing::may_go_on_from(const Dealing& before) const {
  if (samples != before.samples || shuffle != before.shuffle || drop_last != before.drop_last ||
      (shuffle && seed != before.seed)) {
    return false;
  }
  if (ranks == before.ranks) {
    return batch_size == before.batch_size && rank_drop_last == before.rank_drop_last;
  }
  // With one rank rank_drop_last makes no difference.
  return ranks == 1 || before.ranks == 1 || rank_drop_last == before.rank_drop_last;
}

std::int64_t Dealing::samples_after(std::int64_t had, std::int64_t batches) const {
  const std::int64_t rest = samples - std::clamp<std::int64_t>(had, 0, samples);
  const std::int64_t of_rank = rest / ranks + (!rank_drop_last && rest % ranks != 0 ? 1 : 0);
  const std::int64_t most = of_rank / batch_size + 1;  // batches
  const std::int64_t more =
      std::min(std::clamp<std::int64_t>(batches, 0, most) * batch_size, of_rank);
  const std::int64_t left = of_rank - more;
  if (left == 0 || (drop_last && left < batch_size)) return samples;
  return samples - rest + more * ranks;
}

}  // namespace cairn
