// The findings of a load before it applies anything: misfits between checkpoint and run, and
// warnings for the user.
#pragma once

#include <string>
#include <vector>

#include "cairn/train/logger.h"
#include "cairn/value.h"

namespace cairn {

class LoadFindings {
 public:
  // The logger must outlive it.
  explicit LoadFindings(Logger& logger) : logger_(logger) {}

  void log(const std::string& text) { logger_.log_message(text); }
  void warn(const std::string& text) { log("warning: " + text); }
  // Something that does not fit.
  void misfit(const std::string& text) { misfits_.push_back(text); }
  // A pattern for load_ignore_keys that passes over a misfit.
  void way_out(const std::string& pattern) { ways_out_.push_back(pattern); }

  // The entry `key` of `saved`, which must be a dict; nullptr if there is no such entry. An entry
  // that is not a dict is a misfit.
  const Dict* dict_entry(const Value& saved, const char* key);

  const std::vector<std::string>& misfits() const { return misfits_; }
  const std::vector<std::string>& ways_out() const { return ways_out_; }

 private:
  Logger& logger_;
  std::vector<std::string> misfits_;
  std::vector<std::string> ways_out_;
};

}  // namespace cairn
