#include "format/safetensors/ties.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "cairn/error.h"

#include "core/hash/seeded_hash.h"
#include "core/text/json.h"
#include "core/text/json_text.h"
#include "format/safetensors/json_reader.h"
#include "io/memory/memory_budget.h"

namespace cairn::safetensors {
namespace {

std::string_view last_part(std::string_view name) { return name.substr(name.rfind('.') + 1); }

// Parses the text of kTiedKey. Returns no ties if another program changed the text.
Ties parse_tied(std::string_view text) {
  constexpr std::uint64_t kTieBytes = 256;  // in Ties, and then in a Value
  Ties ties;
  MemoryBudget budget(text.size());
  JsonReader json(text, "cairn.tied");
  try {
    json.object([&](std::string name) {
      std::string keeper = json.string();
      budget.take(kTieBytes + name.size() + keeper.size());
      ties.emplace_back(std::move(name), std::move(keeper));
    });
    json.end();
  } catch (const CorruptError&) {
    return {};
  }
  return ties;
}

// Returns the ties that the metadata may state, regardless of which tensors exist.
Ties claimed_ties(const SafetensorsFile::Metadata& metadata) {
  const auto ours = std::find_if(metadata.begin(), metadata.end(),
                                 [](const auto& entry) { return entry.first == kTiedKey; });
  if (ours != metadata.end()) return parse_tied(ours->second);
  Ties ties;
  std::copy_if(metadata.begin(), metadata.end(), std::back_inserter(ties), [](const auto& entry) {
    return entry.first != entry.second && last_part(entry.first) == last_part(entry.second);
  });
  return ties;
}

}  // namespace

std::string tied_text(const Ties& ties) {
  Json object = Json::object();
  for (const auto& [name, keeper] : ties) {
    object[name] = keeper;
  }
  return json_text(object, -1);
}

Ties find_ties(const SafetensorsFile::Metadata& metadata,
               const std::function<bool(const std::string&)>& has_tensor) {
  Ties ties = claimed_ties(metadata);
  std::erase_if(ties,
                [&](const auto& tie) { return !has_tensor(tie.second) || has_tensor(tie.first); });
  return ties;
}

Ties find_ties(const SafetensorsFile& file) {
  if (claimed_ties(file.metadata()).empty()) return {};
  std::unordered_set<std::string_view, TextHash> names;
  for (const SafetensorsEntry& entry : file.entries()) {
    names.insert(entry.name);
  }
  return find_ties(file.metadata(), [&](const std::string& name) { return names.contains(name); });
}

SafetensorsFile::Metadata without_ties(SafetensorsFile::Metadata metadata, const Ties& ties) {
  std::unordered_map<std::string_view, std::string_view, TextHash> keepers;
  for (const auto& [name, keeper] : ties) {
    keepers.emplace(name, keeper);
  }
  std::erase_if(metadata, [&](const auto& entry) {
    const auto found = keepers.find(entry.first);
    return entry.first == kTiedKey || (found != keepers.end() && found->second == entry.second);
  });
  return metadata;
}

}  // namespace cairn::safetensors
