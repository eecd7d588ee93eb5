// Checkpoints of many ranks, written by one process, which does the work of one rank after another.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cairn/storage/object_store.h"
#include "cairn/value.h"

#include "checkpoint/plan/folder_manifest.h"
#include "checkpoint/plan/write_plan.h"
#include "checkpoint/sharded/global_plan.h"
#include "checkpoint/sharded/rank_files.h"
#include "checkpoint/sharded/rank_state.h"
#include "core/hash/xxh3.h"
#include "format/dcp/metadata/write_metadata.h"

namespace cairn::testing {

inline sharded::GlobalPlan plan_ranks(const std::vector<sharded::RankState>& ranks) {
  std::vector<std::string> names;
  std::vector<std::string> parts;
  for (const sharded::RankState& rank : ranks) {
    sharded::Description description = describe(rank);
    if (names.empty() || names.back() != description.names) names.push_back(description.names);
    parts.push_back(std::move(description.parts));
  }
  return {names, std::move(parts)};
}

// Writes the folder `path`, and returns the reports of the ranks.
inline std::vector<std::string> write_ranks(ObjectStore& store, const std::string& path,
                                            const std::vector<sharded::RankState>& ranks,
                                            const sharded::RankFilesOptions& options = {}) {
  const sharded::GlobalPlan plan = plan_ranks(ranks);
  const auto folder = store.begin_folder(path, false);
  std::vector<std::string> reports;
  for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
    const sharded::RankFiles files(ranks[rank], plan.plan_of(rank), options);
    reports.push_back(files.write(
        [&](const std::string& name, std::uint64_t bytes) { return folder->begin(name, bytes); }));
  }
  const std::string metadata = plan.metadata(reports, {.file_names = {}, .save_id = "save-1"});
  write_object(metadata, *folder->begin(dcp::kMetadataFile, metadata.size()));
  std::vector<ManifestFile> files = plan.files(reports);
  Xxh3 hash;
  hash.write(as_bytes(metadata));
  files.push_back({dcp::kMetadataFile, metadata.size(), hash.digest128()});
  const std::string manifest = write_folder_manifest({.files = files});
  write_object(manifest, *folder->begin(kFolderManifest, manifest.size()));
  folder->commit();
  return reports;
}

// The elements of a box of a tensor of `shape`, as int32. Element number i of the tensor is i +
// `salt`.
inline std::vector<std::int32_t> box_of_numbers(const std::vector<std::int64_t>& shape,
                                                const dcp::Box& box, std::int32_t salt) {
  std::vector<std::int32_t> numbers;
  std::int64_t count = 1;
  for (const std::int64_t size : box.sizes) {
    count *= size;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i;
    std::int64_t at = 0;
    std::int64_t step = 1;
    for (std::size_t d = shape.size(); d-- > 0;) {
      at += (box.offsets[d] + rest % box.sizes[d]) * step;
      rest /= box.sizes[d];
      step *= shape[d];
    }
    numbers.push_back(static_cast<std::int32_t>(at) + salt);
  }
  return numbers;
}

// The box of box_of_numbers(), as a tensor view of one rank.
inline TensorView part_of_numbers(const std::vector<std::int64_t>& shape, const dcp::Box& box,
                                  std::int32_t salt) {
  const auto numbers =
      std::make_shared<const std::vector<std::int32_t>>(box_of_numbers(shape, box, salt));
  TensorView part =
      make_tensor(DType::kInt32, box.sizes, {std::as_bytes(std::span(*numbers)), numbers});
  part.part = std::make_shared<const TensorPart>(TensorPart{shape, box.offsets});
  return part;
}

// The slice of a dimension that FSDP gives to rank `rank` of `ranks`: ceil(size / ranks) elements.
// The last ranks have fewer or none.
inline std::pair<std::int64_t, std::int64_t> slice_of(std::int64_t size, std::int64_t rank,
                                                      std::int64_t ranks) {
  const std::int64_t each = (size + ranks - 1) / ranks;
  const std::int64_t begin = std::min(size, each * rank);
  return {begin, std::min(size, begin + each) - begin};
}

}  // namespace cairn::testing
