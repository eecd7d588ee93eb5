#include "format/safetensors/shard_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "cairn/error.h"

#include "core/hash/seeded_hash.h"
#include "core/text/json.h"
#include "format/safetensors/json_reader.h"
#include "io/bytes/source_part.h"

namespace cairn::safetensors {
namespace {

constexpr std::string_view kQuotedMap = R"("weight_map")";

void check_file_name(const JsonReader& json, const std::string& name) {
  const bool leads_elsewhere = name.empty() || name == "." || name == ".." ||
                               name.find_first_of("/\\") != std::string::npos ||
                               name.find('\0') != std::string::npos;
  if (leads_elsewhere) json.fail("\"" + name + "\" is not the name of a file beside the index");
}

void read_weight_map(JsonReader& json, ShardIndex& index) {
  std::unordered_set<std::string, TextHash> names;
  json.object([&](std::string tensor) {
    if (!names.insert(tensor).second) json.fail("the tensor \"" + tensor + "\" occurs twice");
    std::string file = json.string();
    check_file_name(json, file);
    index.files_of.emplace_back(std::move(tensor), std::move(file));
  });
}

void read_metadata(JsonReader& json, ShardIndex& index) {
  if (json.peek() != '{') return json.skip();  // null
  json.object([&](std::string key) {
    const char first = json.peek();
    if (first == '"') {
      index.metadata.emplace_back(std::move(key), json.string());
    } else if (first == '{' || first == '[') {
      json.skip();
    } else {
      index.metadata.emplace_back(std::move(key), json.scalar_text());
    }
  });
}

}  // namespace

std::vector<std::string> ShardIndex::files() const {
  std::vector<std::string> files;
  for (const auto& [tensor, file] : files_of) {
    files.push_back(file);
  }
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return files;
}

const std::string* ShardIndex::find_metadata(std::string_view name) const {
  const auto found = std::find_if(metadata.begin(), metadata.end(),
                                  [&](const auto& entry) { return entry.first == name; });
  return found == metadata.end() ? nullptr : &found->second;
}

bool may_be_index(const ByteSource& file) {
  constexpr std::uint64_t kNear = std::uint64_t{1} << 20;  // only "metadata" precedes the map
  constexpr std::uint64_t kMaxSpace = 1024;
  for (const std::uint64_t bytes : {kMaxSpace, kNear}) {
    const SharedBytes start = read_start(file, bytes);
    const std::string_view text = as_text(start.view);
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    const bool is_blank = first == std::string_view::npos;
    if (is_blank ? bytes == kNear : text[first] != '{') return false;
    if (text.find(kQuotedMap) != std::string_view::npos) return true;
  }
  return false;
}

ShardIndex parse_index(ByteView file) {
  ShardIndex index;
  bool has_map = false;
  JsonReader json(as_text(file), "the index");
  json.object([&](const std::string& key) {
    if (key == "weight_map") {
      if (has_map) json.fail("\"weight_map\" occurs twice");
      has_map = true;
      read_weight_map(json, index);
    } else if (key == "metadata") {
      read_metadata(json, index);
    } else {
      json.skip();
    }
  });
  json.end();
  if (!has_map) json.fail("no \"weight_map\"");
  return index;
}

std::optional<Checksums> find_checksums(const ShardIndex& index, ByteView file) {
  const ChecksumTexts said = {.writer = index.find_metadata(kWriterKey),
                              .digits = index.find_metadata(kChecksumsKey),
                              .text = as_text(file),
                              .marker = kIndexMarker,
                              .parts = index.files().size(),
                              .what = "the index"};
  auto found = find_checksums(said);
  if (found) return found;
  // Only "metadata" precedes the map, so the key "metadata" itself may be damaged.
  const std::string_view front = said.text.substr(0, said.text.find(kQuotedMap));
  const auto has = [&](std::string_view key) {
    return front.find(fmt::format("\"{}\"", key)) != std::string_view::npos;
  };
  if (!has(kWriterKey) && !has(kChecksumsKey)) return std::nullopt;
  return Checksums{.problem = "the index has cairn's checksums, but not in its \"metadata\"",
                   .of_parts = {}};
}

std::string write_index(const ShardIndex& index, std::uint64_t total_size,
                        const std::map<std::string, std::uint64_t>& of_shards) {
  Json weight_map = Json::object();
  for (const auto& [tensor, file] : index.files_of) {
    weight_map[tensor] = file;
  }
  std::vector<std::uint64_t> digests;
  for (const std::string& file : index.files()) {
    digests.push_back(of_shards.at(file));
  }
  Json metadata = {{"total_size", total_size}};
  for (const auto& [key, value] : empty_checksums(digests.size())) {
    metadata[key] = value;
  }
  const Json json = {{"metadata", std::move(metadata)}, {"weight_map", std::move(weight_map)}};
  std::string text = json.dump(2, ' ', true) + "\n";
  fill_checksums(text, kIndexMarker, digests);
  return text;
}

std::string shard_name(std::size_t number, std::size_t count) {
  return fmt::format("model-{:05}-of-{:05}.safetensors", number, count);
}

}  // namespace cairn::safetensors
