#include "algorithms/saved_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <set>

#include "cairn/error.h"
#include "cairn/train/state_dict.h"

namespace cairn {

std::vector<std::pair<std::string, at::Tensor>> read_tensors(
    const Value* saved, const std::vector<std::pair<std::string, at::Tensor>>& templates,
    const std::string& where, std::vector<std::string>& misfits) {
  std::vector<std::pair<std::string, at::Tensor>> result;
  if (saved == nullptr || !saved->is_dict()) {
    misfits.push_back(where + " is missing");
    return result;
  }
  std::set<std::string> known;
  for (const auto& [name, like] : templates) {
    known.insert(name);
    const Value* value = saved->find(name);
    if (value == nullptr || !value->is_tensor()) {
      misfits.push_back(fmt::format("{} has no tensor \"{}\"", where, name));
    } else if (value->as_tensor().shape != like.sizes().vec()) {
      misfits.push_back(fmt::format("{}: \"{}\" has another shape than the model's", where, name));
    } else {
      result.emplace_back(name, at::empty_like(like, like.options().requires_grad(false)));
      result.back().second.copy_(tensor_of(value->as_tensor(), /*share=*/true));
    }
  }
  for (const auto& [key, value] : saved->as_dict()) {
    if (key.is_str() && known.contains(key.as_str())) continue;
    misfits.push_back(fmt::format("{} has \"{}\", which the model does not have", where,
                                  key.is_str() ? key.as_str() : key.type_name()));
  }
  return result;
}

bool read_flag(const Value& state, const char* key, std::vector<std::string>& misfits) {
  const Value* value = state.find(key);
  if (value != nullptr && value->kind() == Kind::kBool) return value->as_bool();
  misfits.push_back(fmt::format("\"{}\" is not a bool", key));
  return false;
}

std::int64_t read_count(const Value& state, const char* key, std::vector<std::string>& misfits) {
  const Value* value = state.find(key);
  if (value != nullptr && value->kind() == Kind::kInt && value->as_int() >= 0) {
    return value->as_int();
  }
  misfits.push_back(fmt::format("\"{}\" is not an int of 0 or more", key));
  return 0;
}

void throw_misfits(const std::string& who, const std::vector<std::string>& misfits) {
  if (misfits.empty()) return;
  throw MismatchError(
      fmt::format("the saved state of {} does not fit the model, nothing was changed:\n  {}", who,
                  fmt::join(misfits, "\n  ")));
}

}  // namespace cairn
