// A model in several files with an index, as Hugging Face's libraries write it
// (model.safetensors.index.json, pytorch_model.bin.index.json), as a CheckpointSource.
//
//  1. The user opens the index, or the folder that holds it. A folder with a model.safetensors or
//     pytorch_model.bin and without an index stands for that file.
//  2. Every file that the index names is opened. Such a file must be in the index's folder and must
//     not be an index itself.
//  3. Every tensor that the index names must be in its file. Other content of the files is ignored.
//     A tied name counts if the metadata of a shard (cairn) or of the index (huggingface_hub) has
//     it.
//  4. An index that cairn wrote has a checksum of itself, and says with which files it was written.
//     verify() checks the checksum and the files.
//  5. The index of torch.distributed.checkpoint counts the tensor bytes of all processes. If the
//     files have fewer bytes, several processes overwrote one another's files, and the tensors may
//     be incomplete.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include "cairn/error.h"

#include "checkpoint/open/formats/candidate.h"
#include "checkpoint/open/read_storages.h"
#include "checkpoint/open/verify/check_whole.h"
#include "checkpoint/plan/named_tensors.h"
#include "format/dcp/safetensors_files.h"
#include "format/safetensors/shard_index.h"
#include "format/safetensors/ties.h"
#include "io/bytes/source_part.h"
#include "io/file.h"
#include "storage/listing.h"

namespace cairn {
namespace {

using safetensors::ShardIndex;

// True for "model.safetensors.index.json", and for a variant such as
// "model.safetensors.index.fp16.json".
bool is_index_name(const std::string& name) {
  return name.ends_with(".json") && (name.find(".safetensors.index.") != std::string::npos ||
                                     name.find(".bin.index.") != std::string::npos);
}

// Returns the file that stands for the whole folder; empty if there is none.
std::string main_file(ObjectStore& store, const std::string& folder) {
  const std::vector<std::string> names = list_names(store, folder);
  const auto has = [&](const std::string& name) {
    return std::binary_search(names.begin(), names.end(), name);
  };
  for (const char* name : {"model.safetensors.index.json", "model.safetensors",
                           "pytorch_model.bin.index.json", "pytorch_model.bin"}) {
    if (has(name)) return name;
  }
  const auto found = std::find_if(names.begin(), names.end(), is_index_name);
  if (found == names.end()) return {};
  if (std::count_if(found, names.end(), is_index_name) > 1) {
    throw UsageError(folder + " holds several indexes; name one of them, as " +
                     join_path(folder, *found));
  }
  return *found;
}

class ShardIndexSource final : public CheckpointSource {
 public:
  explicit ShardIndexSource(const Candidate& candidate)
      : path_(candidate.path),
        bytes_(candidate.stored_bytes),
        index_bytes_(candidate.source->size()),
        access_(candidate.access) {
    const SharedBytes text = read_all(*candidate.source);
    try {
      index_ = safetensors::parse_index(text.view);
    } catch (const CorruptError& e) {
      throw CorruptError(path_ + ": " + e.what(), path_, e.offset());
    }
    checksums_ = safetensors::find_checksums(index_, text.view);
    for (const std::string& name : index_.files()) {
      const std::string path = join_path(parent_path(path_), name);
      const auto file = open_shard(candidate, name, path);
      bytes_ += file->size();
      if (checksums_) digests_.push_back(safetensors::header_digest(*file));
      shards_.emplace(name, open_file_source(file, path,
                                             {.store = candidate.store,
                                              .scratch_folder = candidate.scratch_folder,
                                              .on_progress = candidate.on_progress,
                                              .access = candidate.access}));
      file->forget();
    }
    ties_ = find_ties();
  }

  SourceInfo info() const override {
    SourceInfo info{.format = kShardIndexFormat.name,
                    .description = "a model in " + std::to_string(shards_.size()) +
                                   (shards_.size() == 1 ? " file" : " files") + " with an index",
                    .bytes = bytes_,
                    .tied = ties_};
    if (const auto* writer = index_.find_metadata(safetensors::kWriterKey)) info.writer = *writer;
    for (const auto& [key, value] : safetensors::without_ties(index_.metadata, ties_)) {
      if (!safetensors::is_checksum_key(key)) info.notes.emplace_back("index " + key, value);
    }
    if (!checksums_) info.notes.emplace_back("index checksum", "none: its writer gave it none");
    for (const auto& [name, shard] : shards_) {
      const SourceInfo of_shard = shard->info();
      info.notes.emplace_back("shard " + name, of_shard.description);
      for (const auto& note : of_shard.notes) {  // a note that all shards have is added once
        if (std::find(info.notes.begin(), info.notes.end(), note) == info.notes.end()) {
          info.notes.push_back(note);
        }
      }
    }
    return info;
  }

  Value read() const override {
    if (access_ == Access::kVerified) {
      PendingReads none({});
      check_whole(check_files(none, Verify::kQuick), path_);
    }
    return tree();
  }

  VerifyReport check(PendingReads& reads, Verify how) const override {
    VerifyReport report = check_files(reads, how);
    if (report.ok()) tree();  // throws unless every tensor is where the index says
    return report;
  }

  std::uint64_t expanded_bytes() const override {
    std::uint64_t bytes = index_bytes_;
    for (const auto& [name, shard] : shards_) {
      bytes += shard->expanded_bytes();
    }
    return bytes;
  }

 private:
  Value tree() const {
    std::map<std::string, Value> contents;
    for (const auto& [name, shard] : shards_) {
      contents.emplace(name, shard->read());
    }
    check_total(contents);
    Dict all;
    for (const auto& [tensor, name] : index_.files_of) {
      const Value& content = contents.at(name);
      const Value* found = content.is_dict() ? content.find(tensor) : nullptr;
      if (found == nullptr) {
        throw CorruptError(fmt::format("{}: {} has no \"{}\"", path_, name, tensor), path_);
      }
      all.set(tensor, *found);
    }
    return with_tied(all, ties_);
  }

  safetensors::Ties find_ties() const {
    const std::map<std::string, std::string> files_of(index_.files_of.begin(),
                                                      index_.files_of.end());
    safetensors::Ties ties = safetensors::find_ties(
        index_.metadata, [&](const std::string& name) { return files_of.contains(name); });
    for (const auto& [file, shard] : shards_) {
      for (const auto& tie : shard->info().tied) {
        const auto keeper = files_of.find(tie.second);
        const bool is_of_index = keeper != files_of.end() && keeper->second == file;
        if (is_of_index && !files_of.contains(tie.first)) ties.push_back(tie);
      }
    }
    return ties;
  }

  VerifyReport check_files(PendingReads& reads, Verify how) const {
    VerifyReport report;
    report.bytes = bytes_;
    report.has_manifest = checksums_.has_value();
    if (checksums_ && !checksums_->problem.empty()) {
      report.damage.push_back({.what = checksums_->problem, .begin = 0, .end = index_bytes_});
    }
    std::size_t number = 0;
    for (const auto& [name, shard] : shards_) {
      VerifyReport of_shard = shard->check(reads, how);
      report.records += of_shard.records;
      report.has_checksums = report.has_checksums && of_shard.has_checksums;
      report.has_manifest = report.has_manifest && of_shard.has_manifest;
      if (of_shard.ok()) check_belongs(number, of_shard);
      ++number;
      for (Damage& damage : of_shard.damage) {
        damage.record =
            fmt::format("{}{}{}", name, damage.record.empty() ? "" : ": ", damage.record);
        report.damage.push_back(std::move(damage));
      }
    }
    return report;
  }

  // Checks that the shard, which is undamaged, is the shard that was written with the index. The
  // checksums in the shard's header were checked before.
  void check_belongs(std::size_t number, VerifyReport& of_shard) const {
    if (!checksums_ || !checksums_->problem.empty()) return;
    const std::uint64_t expected = checksums_->of_parts[number];
    const std::optional<std::uint64_t> found = digests_[number];
    if (found == expected) return;
    of_shard.damage.push_back(
        {.what = fmt::format("it is not the shard that the index was written with: the XXH3-64 of "
                             "its header is {}, but {:016x} was written",
                             found ? fmt::format("{:016x}", *found) : "none", expected),
         .begin = 0,
         .end = of_shard.bytes});
  }

  // Whether torch.distributed.checkpoint wrote the files. Its byte count is exact and includes tied
  // tensors; other tools count differently.
  bool is_dcp() const {
    return std::all_of(shards_.begin(), shards_.end(), [](const auto& shard) {
      const SourceInfo info = shard.second->info();
      return std::any_of(info.notes.begin(), info.notes.end(),
                         [](const auto& note) { return note.first == dcp::kVersionKey; });
    });
  }

  void check_total(const std::map<std::string, Value>& contents) const {
    const auto total = std::find_if(index_.metadata.begin(), index_.metadata.end(),
                                    [](const auto& note) { return note.first == "total_size"; });
    if (total == index_.metadata.end() || shards_.empty() || !is_dcp()) return;
    std::uint64_t expected = 0;
    const char* const end = total->second.data() + total->second.size();
    if (std::from_chars(total->second.data(), end, expected).ptr != end) return;
    std::uint64_t found = 0;
    for (const auto& [name, content] : contents) {
      for (const auto& [path, tensor] : tensors_of(content)) {
        found += tensor->storage != nullptr ? tensor->storage->size() : 0;
      }
    }
    if (found >= expected) return;
    throw CorruptError(
        fmt::format(
            "{}: the index counts {} bytes of tensors, its files hold {}: several processes "
            "overwrote one another's files; save with HuggingFaceStorageWriter's save_distributed",
            path_, expected, found),
        path_);
  }

  // Opens a shard, and reads ahead its start, which has the header.
  std::shared_ptr<Windows> open_shard(const Candidate& candidate, const std::string& name,
                                      const std::string& path) const {
    constexpr std::uint64_t kShardStartBytes = std::uint64_t{1} << 20;
    const auto there = candidate.store->stat(path);
    // the damaged index may name a wrong file
    if (!there && checksums_ && !checksums_->problem.empty()) {
      throw CorruptError(path_ + ": " + checksums_->problem, path_);
    }
    if (!there) throw NotFoundError(path_ + ": the shard " + name + " is missing");
    // A folder or an index is refused as a shard: an index that names itself would be opened for
    // ever.
    if (there->type == ObjectInfo::Type::kObject) {
      auto file = std::make_shared<Windows>(candidate.store->open(path));
      file->fetch({{0, kShardStartBytes}});
      if (!safetensors::may_be_index(*file)) return file;
    }
    throw CorruptError(path_ + ": the shard " + name + " holds no tensors itself", path_);
  }

  std::string path_;
  std::uint64_t bytes_;
  std::uint64_t index_bytes_;
  Access access_;
  ShardIndex index_;
  std::optional<safetensors::Checksums> checksums_;
  // of the shards' headers, in the order of the shards
  std::vector<std::optional<std::uint64_t>> digests_;
  safetensors::Ties ties_;
  std::map<std::string, std::unique_ptr<CheckpointSource>> shards_;
};

bool is_shard_index(const Candidate& candidate) {
  // An index in a container is not accepted: a compressed index could name itself.
  return !candidate.is_folder && candidate.containers.empty() &&
         safetensors::may_be_index(*candidate.source);
}

// By value, like the functions of all rows. NOLINTNEXTLINE(performance-unnecessary-value-param)
std::unique_ptr<CheckpointSource> open_shard_index(Candidate candidate) {
  return std::make_unique<ShardIndexSource>(candidate);
}

bool is_model_folder(const Candidate& candidate) {
  return candidate.is_folder && !main_file(*candidate.store, candidate.path).empty();
}

std::unique_ptr<CheckpointSource> open_model_folder(Candidate candidate) {
  const std::string name = main_file(*candidate.store, candidate.path);
  const std::string path = join_path(candidate.path, name);
  const auto there = candidate.store->stat(path);
  if (!there ||
      there->type != ObjectInfo::Type::kObject) {  // for example, a link to its own folder
    throw CorruptError(path + " is not a file", path);
  }
  return open_source(path, {.store = candidate.store,
                            .scratch_folder = candidate.scratch_folder,
                            .on_progress = candidate.on_progress,
                            .access = candidate.access});
}

}  // namespace

constinit const FormatRow kShardIndexFormat = {
    .name = "safetensors_index", .matches = is_shard_index, .open = open_shard_index};
constinit const FormatRow kModelFolderFormat = {
    .name = "safetensors_index", .matches = is_model_folder, .open = open_model_folder};

}  // namespace cairn
