// The visitors of layout.h that read.
#pragma once

#include <torch/torch.h>

#include <array>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "cairn/value.h"

#include "optim/group_extras.h"
#include "optim/optimizer_format.h"

namespace cairn {

// A number as Python may hold one: int, float, or a tensor of one element. nullopt for all else.
std::optional<double> find_number(const Value& value);

class GroupReader {
 public:
  GroupReader(const GroupSource& source, std::vector<std::string>& misfits)
      : saved_(source.saved), where_(source.where), misfits_(misfits) {}

  void number(const char* key, double& target);
  void flag(const char* key, bool& target);
  void betas(const char* key, std::array<double, 2>& target);
  void betas(const char* key, std::tuple<double, double>& target);
  void python_only(const char* key, const Value& default_value);
  void must_be(const char* key, bool wanted);
  void must_be_if_present(const char* key, bool wanted) { must_be(key, wanted); }

  // Call last: "initial_lr", and everything that was not asked for, which Python would keep.
  GroupExtras extras();

 private:
  const Value* take(const char* key);
  const Value* require(const char* key);
  void wrong(const char* key, const char* wanted, const Value& found);

  const Dict& saved_;
  std::string where_;
  std::vector<std::string>& misfits_;
  std::set<std::string> taken_ = {"params"};
  GroupExtras extras_;
};

class StateReader {
 public:
  StateReader(const StateSource& source, std::vector<std::string>& misfits)
      : source_(source), misfits_(misfits) {}

  void step(const char* key, std::int64_t& target);
  void tensor(const char* key, at::Tensor& target) { tensor_if(true, key, target); }
  void tensor_if(bool required, const char* key, at::Tensor& target);
  void tensor_or_none(const char* key, at::Tensor& target);

  // Call last: entries that were not asked for belong to another optimizer.
  void refuse_the_rest();

 private:
  const Value* take(const char* key);
  void read(const char* key, const Value& value, at::Tensor& target);
  void wrong(const char* key, const std::string& what);

  const StateSource& source_;
  std::vector<std::string>& misfits_;
  std::set<std::string> taken_;
};

}  // namespace cairn
