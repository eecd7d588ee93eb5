// KeepBest: which checkpoints the rotation keeps by a metric, beside the newest ones.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "cairn/export.h"
#include "cairn/word.h"

namespace CAIRN_PUBLIC cairn {

// Says whether low or high values are good. kAuto: by the metric's name (loss, error, entropy,
// perplexity, mse, mae: min; acc, f1, auroc, precision, recall, iou, dice, bleu, ...: max).
enum class BestMode : std::uint8_t { kAuto, kMin, kMax };
template <>
struct WordsOf<BestMode> {
  static constexpr std::array kAll = {"auto", "min", "max"};
};

// PyTorch Lightning's ModelCheckpoint(monitor, save_top_k, mode). Composer has no such option.
//
//   .keep_best = KeepBest{.metric = "eval/MulticlassAccuracy", .count = 3},
//
// If the metric was not computed at a checkpoint's batch, or is NaN, that checkpoint has no rank:
// it is kept only while it is one of the newest. If two values are equal, the later one is better.
struct KeepBest {
  std::string metric = {};                // See the option that this is given to. Required.
  int count = 1;                          // Checkpoints to keep, at least 1.
  Word<BestMode> mode = BestMode::kAuto;  // UsageError if the name does not tell.
};

}  // namespace cairn
