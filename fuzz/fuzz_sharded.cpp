// Reads any bytes as a text that the ranks of a save exchange. The first byte chooses which: the
// names, a rank's part of the names of a fixed state, a plan, or a report. Each is valid, or one of
// three errors. A plan made from it says what the rank writes.
#include <cstdint>
#include <cstdlib>

#include "cairn/error.h"

#include "checkpoint/sharded/global_plan.h"
#include "checkpoint/sharded/rank_plan.h"
#include "checkpoint/sharded/rank_state.h"
#include "testing/sharded_folder.h"

namespace cairn::sharded {
namespace {

Description sample() {
  const std::vector<std::int64_t> shape = {4, 300};
  RankState state({.rank = 0, .world_size = 1},
                  Dict{{"w", testing::part_of_numbers(shape, {{0, 0}, {1, 300}}, 0)}, {"n", 1}});
  state.add_part("w", testing::part_of_numbers(shape, {{1, 0}, {3, 300}}, 0));
  state.add_own("rng", Dict{{"torch", 1}});
  return describe(state);
}

void read(std::uint8_t kind, const std::string& text) {
  static const Description description = sample();
  switch (kind % 4) {
    case 0:
      parse_names(text);
      break;
    case 1: {
      const GlobalPlan plan({description.names}, {text});
      if (RankPlan::parse(plan.plan_of(0)).rank != 0) std::abort();
      break;
    }
    case 2:
      if (RankPlan::parse(text).text().size() > text.size()) std::abort();
      break;
    default:
      if (RankReport::parse(text).text().size() > text.size()) std::abort();
  }
}

}  // namespace
}  // namespace cairn::sharded

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  try {
    cairn::sharded::read(data[0], {reinterpret_cast<const char*>(data) + 1, size - 1});
  } catch (const cairn::CorruptError&) {
  } catch (const cairn::UnsupportedError&) {
  } catch (const cairn::UsageError&) {
  }
  return 0;
}
