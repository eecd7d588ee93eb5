// Leaving parts out of a checkpoint when it is saved or loaded, or giving them other names:
// save_ignore_keys, load_ignore_keys.
#pragma once

#include <concepts>
#include <functional>
#include <initializer_list>
#include <string>
#include <variant>
#include <vector>

#include "cairn/value.h"

namespace cairn {

// Either glob patterns over paths ("state/model/layer*.weight": `*` also crosses "/", `?`, `[...]`,
// `[!...]`; the whole path must match), or a function that may change the tree as it likes. An
// empty list ignores nothing.
class IgnoreKeys {
 public:
  IgnoreKeys() = default;
  IgnoreKeys(std::initializer_list<const char*> patterns);    // NOLINT(google-explicit-constructor)
  IgnoreKeys(const char* pattern) : IgnoreKeys({pattern}) {}  // NOLINT(google-explicit-constructor)
  IgnoreKeys(std::vector<std::string> patterns)               // NOLINT(google-explicit-constructor)
      : rule_(std::move(patterns)) {}
  template <std::invocable<Value&> Function>  // a lambda, or a std::function<void(Value&)>
  IgnoreKeys(Function function)               // NOLINT(google-explicit-constructor)
      : rule_(std::function<void(Value&)>(std::move(function))) {}

  bool empty() const;

  // Removes what matches from `root`, a dict. Returns the patterns that matched nothing, for a
  // warning. When `state` is gone afterwards it is there again, empty. What is one container at
  // several places stays one where it loses nothing, and where the same patterns lead to each of
  // its places ("*/x", not "a/x" and "b/x"); neither time nor memory grows with their number.
  std::vector<std::string> apply(Value& root) const;

 private:
  std::variant<std::vector<std::string>, std::function<void(Value&)>> rule_;
};

// Returns `state_dict` with other names. In each name `from` becomes `to` once: where it first
// stands at the beginning or after a dot. An empty `from` puts `to` before every name. Names
// without `from` stay. MismatchError if two names become one; UsageError if `state_dict` is no
// dict.
Value rename_weights(const Value& state_dict, const std::string& from, const std::string& to);
// A rule for load_ignore_keys: renames the weights of a whole checkpoint (its "state/model").
//   .load_ignore_keys = cairn::rename_weights("_orig_mod.", "")   // saved from torch.compile()
IgnoreKeys rename_weights(const std::string& from, const std::string& to);

// Shell-style match of a whole text, as Python's fnmatch.fnmatchcase.
bool glob_match(const std::string& pattern, const std::string& text);

}  // namespace cairn
