// The path of the golden files. CAIRN_TEST_DATA is defined for every test program.
#pragma once

#include <string>

namespace cairn::testing {

inline const std::string kData = CAIRN_TEST_DATA;
// A complete checkpoint of Composer's Trainer.
inline const std::string kComposer = kData + "/composer-0.33/adamw_cosine/ep1-ba8-rank0.pt";

}  // namespace cairn::testing
