// 1,797 scans of handwritten digits, compiled in. README.md names their source.
#pragma once

#include <memory>

#include "cairn/train/data.h"

namespace digits {

// Batches are (float images [n, 1, 8, 8] between 0 and 1, int64 labels [n]). The split is fixed:
// the last 360 scans, in the order of the published file, are for testing. Most are by other people
// than the 1,437 training scans.
struct Scans {
  std::shared_ptr<cairn::Dataset> train;
  std::shared_ptr<cairn::Dataset> test;
};
Scans load_scans();

}  // namespace digits
