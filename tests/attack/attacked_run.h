// A whole training run in a child process.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <ostream>
#include <string>

#include "cairn/train/options.h"

#include "child.h"

namespace cairn::attack {

// 2 epochs of 4 batches. There are four saves, and each of the last two removes an older
// checkpoint. Each additional file call needs one more run of the test, and makes all runs longer.
constexpr std::int64_t kBatches = 8;

// The differences between the attacked runs.
struct Variant {
  const char* name;
  std::function<void(TrainerOptions&)> change;
};

// How GoogleTest shows a variant.
inline void PrintTo(const Variant& variant, std::ostream* out) {  // NOLINT: gtest's name
  *out << variant.name;
}

struct Outcome : ChildResult {
  std::optional<std::int64_t> began = {};  // the batch that it resumed from
  std::int64_t reached = 0;                // the last batch that it trained
  std::string weights = {};                // at the end, as bytes
};

// Trains TinyModel for kBatches batches. Saves in `folder`/run every second batch and keeps two
// checkpoints, with autoresume.
Outcome run(const std::string& folder, const Variant& variant, const Plan& plan);

}  // namespace cairn::attack
