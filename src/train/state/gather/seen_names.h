// The names from an earlier walk over a module, to compare with the present names.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

class SeenNames {
 public:
  struct Cursor {
    std::size_t name = 0;
    std::size_t letter = 0;
  };

  // A name is `prefix` followed by `name`.
  void add(const std::string& prefix, const std::string& name) {
    sizes_.push_back(prefix.size() + name.size());
    letters_.append(prefix).append(name);
  }

  // Whether this name is the next one. Advances.
  bool is_next(Cursor& at, const std::string& prefix, const std::string& name) const {
    if (at.name == sizes_.size() || sizes_[at.name] != prefix.size() + name.size()) return false;
    const std::string_view before(letters_.data() + at.letter, sizes_[at.name]);
    ++at.name;
    at.letter += before.size();
    return before.starts_with(prefix) && before.ends_with(name);
  }
  bool is_end(const Cursor& at) const { return at.name == sizes_.size(); }

 private:
  std::vector<std::size_t> sizes_;
  std::string letters_;  // All names, concatenated.
};

}  // namespace cairn
