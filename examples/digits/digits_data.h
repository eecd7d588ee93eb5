// 1,797 scans of handwritten digits, compiled in. See README.md for where they come from.
#pragma once

#include <memory>

#include "cairn/train/data.h"

namespace digits {

// Batches are (float images [n, 1, 8, 8] between 0 and 1, int64 labels [n]). The split is fixed:
// the last 360 scans, in the order of the published file, are for testing. They are by other people
// than most of the 1,437 before them.
struct Scans {
  std::shared_ptr<cairn::Dataset> train;
  std::shared_ptr<cairn::Dataset> test;
};
Scans load_scans();

}  // namespace digits
