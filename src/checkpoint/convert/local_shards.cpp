#include "checkpoint/convert/local_shards.h"

#include <unordered_map>

#include "cairn/dtensor.h"

#include "value/value_path.h"

namespace cairn {
namespace {

class ShardMap {
 public:
  // Value trees are at most a thousand levels deep, whatever file they come from.
  Value with_shards(const Value& value, const std::string& path) {
    const bool is_entered =
        value.is_dict() || value.is_list() || value.is_tuple() || value.is_foreign();
    if (!is_entered || value.identity() == nullptr) return value;
    const auto known = done_.find(value.identity());
    if (known != done_.end()) return known->second;
    Value result = rebuilt(value, path);
    done_.emplace(value.identity(), result);
    return result;
  }

  std::vector<std::pair<std::string, std::string>> take() { return std::move(shards_); }

 private:
  Value rebuilt(const Value& value, const std::string& path) {
    if (value.is_foreign()) return shard_of(value, path);
    const std::string prefix = path.empty() ? "" : path + "/";
    if (value.is_dict()) {
      Dict dict = value.as_dict().empty_like();
      for (const auto& [key, item] : value.as_dict()) {
        dict.set(key, with_shards(item, prefix + key_text(key)));
      }
      return dict;
    }
    List items;
    for (const Value& item : value.as_items()) {
      items.push_back(with_shards(item, prefix + std::to_string(items.size())));
    }
    if (value.is_tuple()) return Tuple{std::move(items)};
    return items;
  }

  Value shard_of(const Value& object, const std::string& path) {
    const auto tensor = find_dtensor(object.as_foreign());
    if (!tensor) return object;
    shards_.emplace_back(path, placement_text(*tensor));
    return tensor->local;
  }

  std::unordered_map<const void*, Value> done_;  // by the identity of the original value
  std::vector<std::pair<std::string, std::string>> shards_;
};

}  // namespace

LocalShards local_shards(const Value& root) {
  ShardMap map;
  Value value = map.with_shards(root, "");
  return {std::move(value), map.take()};
}

}  // namespace cairn
