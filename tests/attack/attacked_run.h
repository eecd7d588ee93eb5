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

// 2 epochs of 4: the last two of the four saves remove an older one. Each call more is a run more,
// and makes all runs longer.
constexpr std::int64_t kBatches = 8;

// What distinguishes the runs that are attacked.
struct Variant {
  const char* name;
  std::function<void(TrainerOptions&)> change;
};

// What GoogleTest shows.
inline void PrintTo(const Variant& variant, std::ostream* out) {  // NOLINT: gtest's name
  *out << variant.name;
}

struct Outcome : Ended {
  std::optional<std::int64_t> began = {};  // the batch that it went on from
  std::int64_t reached = 0;                // the last batch that it trained
  std::string weights = {};                // at the end, as bytes
};

// Trains TinyModel for kBatches batches, saves in `folder`/run every second batch and keeps two;
// autoresume is on.
Outcome run(const std::string& folder, const Variant& variant, const Plan& plan);

}  // namespace cairn::attack
