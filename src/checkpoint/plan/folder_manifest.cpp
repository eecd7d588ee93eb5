#include "checkpoint/plan/folder_manifest.h"

#include <fmt/format.h>

#include <set>

#include "cairn/error.h"

#include "core/hash/xxh3.h"
#include "core/text/json.h"
#include "core/text/writer.h"
#include "io/read_fault.h"

namespace cairn {
namespace {

constexpr std::int64_t kFolderSchema = 1;
// Enough for a few hundred bytes for each file, with ten thousand ranks and ten files each.
constexpr std::size_t kMaxFolderManifestBytes = std::size_t{16} << 20;
constexpr std::string_view kFolderMarker = R"("xxh3_128":")";

ManifestFile file_of(const Json& json) {
  try {
    return {.name = json.at("name").get<std::string>(),
            .bytes = json.at("bytes").get<std::uint64_t>(),
            .xxh3_128 = json.at("xxh3_128").get<std::string>(),
            .machine = json.value("machine", "")};
  } catch (const Json::exception&) {
    throw CorruptError("the folder's manifest has an entry that is not a file");
  }
}

}  // namespace

std::string write_folder_manifest(const FolderManifest& manifest) {
  OrderedJson json = {{"schema", kFolderSchema},
                      {"writer", kWriter},
                      {"xxh3_128", std::string(kSealDigits, '0')},
                      {"files", OrderedJson::array()}};
  if (!manifest.attempt.empty()) json["attempt"] = manifest.attempt;
  if (!manifest.publisher.empty()) json["publisher"] = manifest.publisher;
  for (const ManifestFile& file : manifest.files) {
    OrderedJson& listed = json["files"].emplace_back(
        OrderedJson{{"name", file.name}, {"bytes", file.bytes}, {"xxh3_128", file.xxh3_128}});
    if (!file.machine.empty()) listed["machine"] = file.machine;
  }
  std::string text = json.dump();
  seal(text, kFolderMarker);
  return text;
}

FolderManifest parse_folder_manifest(std::string_view text) {
  if (text.size() > kMaxFolderManifestBytes) {
    throw CorruptError("the folder's manifest is too large to be one");
  }
  const auto json = Json::parse(text.begin(), text.end(), nullptr, false);
  const auto find = [&](const char* name) {
    const auto found = json.is_object() ? json.find(name) : json.end();
    if (!json.is_object() || found == json.end()) {
      throw CorruptError(fmt::format("the folder's manifest has no \"{}\"", name));
    }
    return *found;
  };
  const auto schema = find("schema");
  const Seal found = check_seal(text, kFolderMarker);
  if (found == Seal::kBroken) {
    throw CorruptError("the folder's manifest does not have the XXH3-128 that was written");
  }
  if (schema.is_number_integer() && schema.get<std::int64_t>() > kFolderSchema) {
    const auto writer = json.find("writer");
    const bool is_named = writer != json.end() && writer->is_string();
    throw ReaderMissingError(
        fmt::format("the folder's manifest was written by {}, and is of schema {}; this version "
                    "reads up to {}: use a newer cairn",
                    is_named ? writer->get<std::string>() : "a newer cairn",
                    schema.get<std::int64_t>(), kFolderSchema));
  }
  if (found == Seal::kNone) throw CorruptError("the folder's manifest has no XXH3-128 of itself");
  FolderManifest manifest;
  const auto writer = find("writer");
  const auto files = find("files");
  if (!writer.is_string() || !files.is_array()) {
    throw CorruptError("the folder's manifest has a wrong \"writer\" or \"files\"");
  }
  manifest.writer = writer.get<std::string>();
  const auto text_of = [&](const char* name) {
    const auto value = json.find(name);
    return value != json.end() && value->is_string() ? value->get<std::string>() : std::string();
  };
  manifest.attempt = text_of("attempt");
  manifest.publisher = text_of("publisher");
  std::set<std::string> names;
  for (const auto& file : files) {
    manifest.files.push_back(file_of(file));
    const std::string& name = manifest.files.back().name;
    if (name.find('/') != std::string::npos || !names.insert(name).second) {
      throw CorruptError("the folder's manifest lists a file twice, or outside the folder");
    }
  }
  return manifest;
}

}  // namespace cairn
