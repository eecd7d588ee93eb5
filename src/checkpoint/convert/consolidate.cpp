#include "checkpoint/convert/consolidate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "cairn/dtensor.h"
#include "cairn/error.h"
#include "cairn/foreign.h"

#include "checkpoint/convert/gather_shards.h"
#include "checkpoint/convert/lost_objects.h"
#include "value/value_path.h"

namespace cairn {
namespace {

// The values at one path: one from each file.
using Nodes = std::vector<const Value*>;

// Compares two values from different files. Objects of unknown classes are compared by their
// content in the files.
class Comparison {
 public:
  // Value trees are at most a thousand levels deep, whatever file they come from.
  bool equal(const Value& a, const Value& b) {
    if (a.kind() != b.kind()) return false;
    const bool is_shared = a.identity() != nullptr && b.identity() != nullptr;
    const auto pair = std::pair(a.identity(), b.identity());
    if (is_shared && equal_.contains(pair)) return true;
    const bool is_equal = equal_new(a, b);
    if (is_shared && is_equal) equal_.insert(pair);
    return is_equal;
  }

 private:
  bool equal_new(const Value& a, const Value& b) {
    if (a.is_foreign()) return equal_objects(a.as_foreign(), b.as_foreign());
    if (a.is_dict()) return equal_dicts(a.as_dict(), b.as_dict());
    if (a.is_list() || a.is_tuple()) return equal_items(a.as_items(), b.as_items());
    if (a.kind() == Kind::kFloat && std::isnan(a.as_float())) return std::isnan(b.as_float());
    return a == b;
  }

  bool equal_items(const List& a, const List& b) {
    return std::ranges::equal(a, b, [this](const Value& x, const Value& y) { return equal(x, y); });
  }

  bool equal_dicts(const Dict& a, const Dict& b) {
    return std::ranges::equal(a, b, [this](const Dict::Entry& x, const Dict::Entry& y) {
      return equal(x.first, y.first) && equal(x.second, y.second);
    });
  }

  bool equal_objects(const Foreign& a, const Foreign& b) {
    return a.made == b.made && a.module == b.module && a.name == b.name &&
           equal(a.function, b.function) && equal(a.args, b.args) &&
           equal(a.keywords, b.keywords) && equal(a.items, b.items) &&
           equal(a.entries, b.entries) && equal(a.state, b.state);
  }

  std::set<std::pair<const void*, const void*>> equal_;
};

class Consolidation {
 public:
  Consolidation(const std::vector<RankFile>& files, std::string scratch_folder)
      : files_(files), scratch_folder_(std::move(scratch_folder)) {}

  Consolidated run() {
    Nodes roots;
    for (const RankFile& file : files_) {
      roots.push_back(&file.value);
    }
    result_.value = merged(roots, "");
    if (files_.size() > 1 && result_.gathered == 0) {
      throw UsageError(files_[0].name + " and " + std::to_string(files_.size() - 1) +
                       " more hold no distributed tensor, so nothing shows that they belong "
                       "together. Convert them one by one");
    }
    return std::move(result_);
  }

 private:
  static std::string below(const std::string& path, const std::string& key) {
    return path.empty() ? key : path + "/" + key;
  }

  // Value trees are at most a thousand levels deep, whatever file they come from.
  Value merged(const Nodes& nodes, const std::string& path) {
    const Value& first = *nodes.front();
    if (first.identity() == nullptr || !first.may_be_shared()) return merged_new(nodes, path);
    std::vector<const void*> key;
    for (const Value* node : nodes) {
      key.push_back(node->identity());
    }
    const auto known = done_.find(key);
    if (known != done_.end()) return known->second;
    return done_.emplace(std::move(key), merged_new(nodes, path)).first->second;
  }

  Value merged_new(const Nodes& nodes, const std::string& path) {
    const Value& first = *nodes.front();
    if (local_tensor(first) != nullptr) return gathered(nodes, path);
    for (std::size_t i = 1; i < nodes.size(); ++i) {
      if (nodes[i]->kind() != first.kind()) refuse_kind(nodes, i, path);
    }
    if (first.is_dict()) return merged_dict(nodes, path);
    if (first.is_list() || first.is_tuple()) return merged_items(nodes, path);
    check_same(nodes, path);
    return first;
  }

  [[noreturn]] void refuse_kind(const Nodes& nodes, std::size_t i, const std::string& path) const {
    throw UsageError(files_[0].name + " has " + text_of(*nodes[0]) + " at " + shown(path) +
                     ", and " + files_[i].name + " " + text_of(*nodes[i]) + kNotOneSet);
  }

  [[noreturn]] void refuse_missing(std::size_t without, std::size_t with,
                                   const std::string& path) const {
    throw UsageError(files_[without].name + " has nothing at " + shown(path) + ", and " +
                     files_[with].name + " has" + kNotOneSet);
  }

  // A part that does not change stays the same object.
  Value merged_dict(const Nodes& nodes, const std::string& path) {
    const Dict& first = nodes.front()->as_dict();
    check_keys(nodes, path);
    Dict dict = first.empty_like();
    bool is_same = true;
    for (const auto& [key, value] : first) {
      Nodes children = {&value};
      for (std::size_t i = 1; i < nodes.size(); ++i) {
        children.push_back(nodes[i]->as_dict().find(key));
      }
      Value part = merged(children, below(path, key_text(key)));
      is_same = is_same && part.identity() == value.identity();
      dict.set(key, std::move(part));
    }
    return is_same ? *nodes.front() : Value(std::move(dict));
  }

  void check_keys(const Nodes& nodes, const std::string& path) const {
    const Dict& first = nodes.front()->as_dict();
    for (std::size_t i = 1; i < nodes.size(); ++i) {
      const Dict& other = nodes[i]->as_dict();
      for (const auto& [key, value] : first) {
        if (other.find(key) == nullptr) refuse_missing(i, 0, below(path, key_text(key)));
      }
      for (const auto& [key, value] : other) {
        if (first.find(key) == nullptr) refuse_missing(0, i, below(path, key_text(key)));
      }
    }
  }

  Value merged_items(const Nodes& nodes, const std::string& path) {
    const List& first = nodes.front()->as_items();
    List items;
    bool is_same = true;
    for (std::size_t i = 1; i < nodes.size(); ++i) {
      const std::size_t size = nodes[i]->as_items().size();
      if (size > first.size()) refuse_missing(0, i, below(path, std::to_string(first.size())));
      if (size < first.size()) refuse_missing(i, 0, below(path, std::to_string(size)));
    }
    for (std::size_t k = 0; k < first.size(); ++k) {
      Nodes children;
      for (const Value* node : nodes) {
        children.push_back(&node->as_items()[k]);
      }
      items.push_back(merged(children, below(path, std::to_string(k))));
      is_same = is_same && items.back().identity() == first[k].identity();
    }
    if (is_same) return *nodes.front();
    if (nodes.front()->is_tuple()) return Tuple{std::move(items)};
    return items;
  }

  // Tensors, and objects that hold tensors, must be the same in all files: only one is kept, and no
  // tensor may be lost.
  void check_same(const Nodes& nodes, const std::string& path) {
    const Value& first = *nodes.front();
    for (std::size_t i = 1; i < nodes.size(); ++i) {
      if (comparison_.equal(first, *nodes[i])) continue;
      if (holds_tensor(first) || holds_tensor(*nodes[i])) {
        throw UsageError(text_of(first) + " at " + shown(path) + " is not the same in " +
                         files_[0].name + " and " + files_[i].name +
                         ", and is not a distributed tensor, so only one of them could be kept: "
                         "leave it out (--exclude)");
      }
      result_.differing.push_back(path);
      return;
    }
  }

  Value gathered(const Nodes& nodes, const std::string& path) {
    std::vector<ShardOf> shards;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (local_tensor(*nodes[i]) == nullptr) refuse_kind(nodes, i, path);
      auto tensor = find_dtensor(nodes[i]->as_foreign());
      if (!tensor && nodes.size() == 1) return *nodes.front();
      if (!tensor) {
        throw UnsupportedError(files_[i].name + ": " + shown(path) +
                               " is a DTensor of a form that cairn does not know");
      }
      shards.push_back({.file = files_[i].name, .tensor = std::move(*tensor)});
    }
    if (nodes.size() == 1 && !is_whole(shards.front().tensor)) return *nodes.front();
    try {
      TensorView full = gather_once(shards);
      ++result_.gathered;
      return full;
    } catch (Error& e) {
      e.add_context(shown(path));
      throw;
    }
  }

  // A tensor that is one object in every file stays one object.
  TensorView gather_once(const std::vector<ShardOf>& shards) {
    std::string key;
    for (const auto& [file, tensor] : shards) {
      const TensorView& local = tensor.local;
      key += fmt::format("{} {} {} {} {} {};", fmt::ptr(local.storage.get()), local.storage_offset,
                         fmt::join(local.strides, ","), static_cast<int>(local.dtype),
                         tensor.requires_grad, placement_text(tensor));
    }
    const auto known = gathered_.find(key);
    if (known != gathered_.end()) return known->second;
    return gathered_.emplace(std::move(key), gather_shards(shards, meshes_, scratch_folder_))
        .first->second;
  }

  static std::string shown(const std::string& path) { return path.empty() ? "its root" : path; }
  static std::string text_of(const Value& value) {
    return value.is_foreign() ? "an object of " + value.as_foreign().class_name()
                              : "a " + std::string(value.type_name());
  }

  static constexpr const char* kNotOneSet =
      ": these are not the files of all ranks of one model; files of a pipeline's stages are "
      "converted stage by stage";

  const std::vector<RankFile>& files_;
  std::string scratch_folder_;
  MeshIds meshes_;
  Comparison comparison_;
  std::map<std::vector<const void*>, Value> done_;  // by the identities of the original values
  std::map<std::string, TensorView> gathered_;      // by everything that describes the shards
  Consolidated result_;
};

}  // namespace

Consolidated consolidate(const std::vector<RankFile>& files, const std::string& scratch_folder) {
  if (files.size() == 1) {
    const bool has_shards = std::ranges::any_of(
        foreign_objects(files.front().value),
        [](const auto& object) { return local_tensor(*object.second) != nullptr; });
    if (!has_shards) return {.value = files.front().value};
  }
  return Consolidation(files, scratch_folder).run();
}

}  // namespace cairn
