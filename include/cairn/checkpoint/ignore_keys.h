// Leaves parts out of a checkpoint when it is saved or loaded, or renames them: save_ignore_keys,
// load_ignore_keys.
#pragma once

#include <concepts>
#include <functional>
#include <initializer_list>
#include <string>
#include <variant>
#include <vector>

#include "cairn/export.h"
#include "cairn/value.h"

namespace CAIRN_PUBLIC cairn {

// Either glob patterns over paths, or a function that may change the tree in any way. Patterns such
// as "state/model/layer*.weight" must match the whole path; `*` also crosses "/", and `?`, `[...]`,
// `[!...]` work. An empty list ignores nothing.
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

  // Removes the entries that match from `root`, a dict. Returns the patterns that matched nothing,
  // for a warning. If this removes `state`, an empty `state` takes its place. A container that
  // occurs at several places stays shared if it loses nothing. It also stays shared if the same
  // patterns reach all of its places ("*/x", not "a/x" and "b/x"). Neither time nor memory grows
  // with the number of places.
  std::vector<std::string> apply(Value& root) const;

 private:
  std::variant<std::vector<std::string>, std::function<void(Value&)>> rule_;
};

// Returns `state_dict` with other names. In each name `from` becomes `to` once: at its first
// occurrence at the beginning or after a dot. An empty `from` puts `to` before every name. Names
// without `from` stay. Throws MismatchError if two names become one, and UsageError if `state_dict`
// is not a dict.
Value rename_weights(const Value& state_dict, const std::string& from, const std::string& to);
// A rule for load_ignore_keys: renames the weights of a whole checkpoint (its "state/model").
//   .load_ignore_keys = cairn::rename_weights("_orig_mod.", "")   // saved from torch.compile()
IgnoreKeys rename_weights(const std::string& from, const std::string& to);

// Shell-style match of a whole text, like Python's fnmatch.fnmatchcase.
bool glob_match(const std::string& pattern, const std::string& text);

}  // namespace cairn
