// A scheduler's state as a dict: the common entries, and the visitors that write and read all
// entries. A visitor has
//   count(key, int64&)                                must be in a file; all others may be absent
//   steps(key, int64&)                                1 or more
//   number(key, double&)
//   numbers(key, vector<double>&)                     one per parameter group
//   counts(key, map<int64, int64>&)                   Python's Counter
//   constant(key, value)                              written only
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cairn/value.h"

namespace cairn {

class SchedulerStateWriter {
 public:
  explicit SchedulerStateWriter(Dict& state) : state_(state) {}

  void steps(const char* key, std::int64_t value) { state_.set(key, value); }
  void count(const char* key, std::int64_t value) { state_.set(key, value); }
  void number(const char* key, double value) { state_.set(key, value); }
  void numbers(const char* key, const std::vector<double>& values) {
    state_.set(key, List(values.begin(), values.end()));
  }
  void counts(const char* key, const std::map<std::int64_t, std::int64_t>& values);
  void constant(const char* key, Value value) { state_.set(key, std::move(value)); }

 private:
  Dict& state_;
};

class SchedulerStateReader {
 public:
  SchedulerStateReader(std::string scheduler, const Value& state);

  void steps(const char* key, std::int64_t& target);
  void count(const char* key, std::int64_t& target);
  void number(const char* key, double& target);
  void numbers(const char* key, std::vector<double>& target);
  void counts(const char* key, std::map<std::int64_t, std::int64_t>& target);
  void constant(const char* /*key*/, const Value& /*value*/) {}

  // Throws MismatchError listing what did not fit.
  void finish() const;

 private:
  const Value* find(const char* key) const;
  void add_misfit(const char* key, const char* wanted, const Value& found);

  std::string scheduler_;
  Value state_;
  std::vector<std::string> misfits_;
};

struct SchedulerCounts {
  std::vector<double> base_lrs = {};
  std::int64_t last_epoch = -1;
  std::int64_t step_count = 0;
  std::vector<double> last_lr = {};

  template <class Visitor>
  void visit(Visitor& visitor) {
    visit_all(visitor, *this);
  }
  template <class Visitor>
  void visit(Visitor& visitor) const {
    visit_all(visitor, *this);
  }

 private:
  static void visit_all(auto& visitor, auto& self) {
    visitor.numbers("base_lrs", self.base_lrs);
    visitor.count("last_epoch", self.last_epoch);
    visitor.constant("verbose", false);
    visitor.count("_step_count", self.step_count);
    visitor.constant("_get_lr_called_within_step", false);
    visitor.numbers("_last_lr", self.last_lr);
  }
};

}  // namespace cairn
