#include "checkpoint/plan/write_safetensors.h"

#include <algorithm>
#include <map>

#include "cairn/error.h"

#include "checkpoint/plan/write_plan.h"
#include "checkpoint/plan/write_progress.h"
#include "format/safetensors/file_plan.h"
#include "format/safetensors/shard_index.h"
#include "format/safetensors/ties.h"
#include "io/file.h"
#include "io/memory/mapped_file.h"
#include "storage/listing.h"

namespace cairn {
namespace {

// Adds the tied names twice: once as cairn reads them, and once as the reference's save_model()
// writes them, with one text for each name.
SafetensorsFile::Metadata metadata_of(const NamedTensors& named,
                                      const SafetensorsFile::Metadata& more) {
  SafetensorsFile::Metadata metadata = {{"format", "pt"}};
  const auto add = [&](const std::pair<std::string, std::string>& entry) {
    const bool is_there = std::any_of(metadata.begin(), metadata.end(), [&](const auto& known) {
      return known.first == entry.first;
    });
    if (!is_there) metadata.push_back(entry);
  };
  if (!named.tied.empty()) {
    metadata.emplace_back(safetensors::kTiedKey, safetensors::tied_text(named.tied));
  }
  std::for_each(named.tied.begin(), named.tied.end(), add);
  std::for_each(more.begin(), more.end(), add);
  return metadata;
}

std::vector<NamedTensors> shards_of(NamedTensors named, std::uint64_t shard_bytes) {
  std::vector<NamedTensors> shards(1);
  std::uint64_t used = 0;
  for (NamedTensor& tensor : named.tensors) {
    const std::uint64_t bytes = byte_size(tensor.second);
    if (!shards.back().tensors.empty() && (used > shard_bytes || bytes > shard_bytes - used)) {
      shards.emplace_back();
      used = 0;
    }
    used += bytes;
    shards.back().tensors.push_back(std::move(tensor));
  }
  // Each tied name goes into the shard of the tensor that was kept.
  for (NamedTensors& shard : shards) {
    for (const auto& tied : named.tied) {
      const bool is_here =
          std::any_of(shard.tensors.begin(), shard.tensors.end(),
                      [&](const NamedTensor& tensor) { return tensor.first == tied.second; });
      if (is_here) shard.tied.push_back(tied);
    }
  }
  return shards;
}

}  // namespace

WrittenFiles write_safetensors(ObjectStore& store, const SaveJob& job, const NamedTensors& named,
                               const SafetensorsFile::Metadata& metadata) {
  const safetensors::FilePlan plan(named.tensors, metadata_of(named, metadata),
                                   /*checksums=*/true);
  const auto file = store.begin(
      job.path, {.condition = condition_of(job.replace), .expected_bytes = plan.size()});
  WriteProgress progress(job, part_bytes(plan));
  fill_object(plan, *file, nullptr, progress.of_attempt());
  if (job.checks_reads) check_mapped_reads();
  file->commit();
  return {.files = {job.path}, .bytes = plan.size()};
}

WrittenFiles write_sharded_safetensors(ObjectStore& store, const SaveJob& job, NamedTensors named,
                                       const ShardOptions& options) {
  std::uint64_t total = 0;
  for (const auto& [name, tensor] : named.tensors) {
    total += byte_size(tensor);
  }
  const std::vector<NamedTensors> shards = shards_of(std::move(named), options.shard_bytes);
  const auto building = store.begin_folder(job.path, job.replace != Replace::kNever);
  WrittenFiles written;
  safetensors::ShardIndex index;
  std::map<std::string, std::uint64_t> digests;
  const bool is_single = shards.size() == 1 && !options.single_file.empty();
  WriteProgress progress(job, total);
  const auto on_written = progress.of_attempt();
  const auto write_text = [&](const std::string& name, const std::string& text) {
    write_object(text, *building->begin(name, text.size()));
    written.files.push_back(join_path(job.path, name));
    written.bytes += text.size();
  };
  // Readers recognise the folder by the index, or by the only file, which come last.
  for (const auto& [name, text] : options.texts)
    write_text(name, text);
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name =
        is_single ? options.single_file : safetensors::shard_name(i + 1, shards.size());
    const safetensors::FilePlan plan(shards[i].tensors, metadata_of(shards[i], options.metadata),
                                     /*checksums=*/true);
    write_object(plan, *building->begin(name, plan.size()), nullptr, on_written);
    const auto shard = building->open(name);
    digests.emplace(name, safetensors::header_digest(*shard).value());
    for (const auto& [tensor, view] : shards[i].tensors) {
      index.files_of.emplace_back(tensor, name);
    }
    written.files.push_back(join_path(job.path, name));
    written.bytes += plan.size();
  }
  if (!is_single)
    write_text(safetensors::kIndexName, safetensors::write_index(index, total, digests));
  if (job.checks_reads) check_mapped_reads();
  building->commit();
  return written;
}

}  // namespace cairn
