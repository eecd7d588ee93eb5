// A callback whose state makes a checkpoint larger than the bytes that opening the checkpoint
// reads.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cairn/tensor.h"
#include "cairn/train/callback.h"

namespace cairn::testing {

class Ballast final : public Callback {
 public:
  std::string name() const override { return "Ballast"; }
  Value state_dict() const override {
    constexpr std::size_t kBytes = std::size_t{3} << 20;
    static const auto bytes = std::make_shared<const std::vector<std::byte>>(kBytes);
    return Dict{{"weight", make_tensor(DType::kUInt8, {kBytes}, {ByteView(*bytes), bytes})}};
  }
  void load_state_dict(const Value& /*state*/) override {}
};

}  // namespace cairn::testing
