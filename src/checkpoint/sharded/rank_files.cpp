#include "checkpoint/sharded/rank_files.h"

#include <algorithm>
#include <limits>

#include "cairn/error.h"

#include "checkpoint/plan/write_plan.h"
#include "checkpoint/sharded/global_plan.h"
#include "core/hash/xxh3.h"
#include "io/threads/parallel.h"

namespace cairn::sharded {
namespace {

// A part that the rank writes.
struct Written {
  const RankState::Item* item;
  const Value* part;
  std::uint64_t bytes;  // of a tensor's elements; 0 for an object
  std::uint32_t file = 0;
};

std::vector<Written> chosen_parts(const RankState& state, const RankPlan& plan) {
  std::vector<Written> chosen;
  std::size_t number = 0;
  state.for_each_part([&](const RankState::Item& item, const Value& part) {
    if (!plan.writes[number++]) return;
    chosen.push_back({&item, &part, item.header.dtype ? byte_size(part.as_tensor()) : 0});
  });
  return chosen;
}

// Step 2.
std::size_t spread(std::vector<Written>& chosen, std::size_t most_files) {
  if (chosen.empty()) return 0;
  const std::size_t files = std::clamp<std::size_t>(most_files, 1, chosen.size());
  std::vector<std::uint64_t> bytes(files);
  std::vector<Written*> tensors;
  std::size_t objects = 0;
  for (Written& each : chosen) {
    if (each.item->header.dtype) {
      tensors.push_back(&each);
    } else {
      each.file = static_cast<std::uint32_t>(objects++ % files);
    }
  }
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const Written* a, const Written* b) { return a->bytes > b->bytes; });
  for (Written* each : tensors) {
    const auto file = std::min_element(bytes.begin(), bytes.end());
    *file += each->bytes;
    each->file = static_cast<std::uint32_t>(file - bytes.begin());
  }
  return files;
}

// Renumbers the files, so that files without content have no number.
void close_gaps(std::vector<Written>& chosen, std::size_t files) {
  std::vector<std::uint32_t> number(files);
  for (const Written& each : chosen) {
    number[each.file] = 1;
  }
  std::uint32_t next = 0;
  for (std::uint32_t& each : number) {
    each = each == 0 ? 0 : next++;
  }
  for (Written& each : chosen) {
    each.file = number[each.file];
  }
}

std::size_t parts_of(const RankState& state) {
  std::size_t parts = 0;
  state.for_each_part([&](const RankState::Item&, const Value&) { ++parts; });
  return parts;
}

}  // namespace

RankFiles::RankFiles(const RankState& state, std::string_view plan, const RankFilesOptions& options)
    : rank_(state.place().rank), plan_hash_(xxh3_64(as_bytes(plan))) {
  const RankPlan parsed = RankPlan::parse(plan);
  const bool is_of_this = parsed.rank == rank_ && parsed.writes.size() == parts_of(state) &&
                          parsed.parts_hash == xxh3_64(as_bytes(describe(state).parts));
  if (!is_of_this) {
    throw UsageError("the plan was made for another state than rank " + std::to_string(rank_) +
                     " has now: describe it and plan again");
  }
  std::vector<Written> chosen = chosen_parts(state, parsed);
  close_gaps(chosen, spread(chosen, options.files));
  places_.resize(chosen.size());
  for (const bool tensors : {true, false}) {
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      const auto& [item, part, bytes, file] = chosen[i];
      if (item->header.dtype.has_value() != tensors) continue;
      if (file >= files_.size()) files_.resize(file + 1);
      const Value value =
          tensors ? dcp::as_chunk(part->as_tensor(), options.scratch_folder) : *part;
      const dcp::DataPlan::Place place = files_[file].add(value, item->header.fqn);
      places_[i] = {.file = file, .offset = place.offset, .size = place.size};
    }
  }
}

std::string RankFiles::name(std::size_t index) const { return data_file_name(rank_, index); }

std::uint64_t RankFiles::bytes() const {
  std::uint64_t bytes = 0;
  for (const dcp::DataPlan& file : files_) {
    bytes += file.size();
  }
  return bytes;
}

std::string RankFiles::report(const std::vector<std::string>& xxh3_128) const {
  RankReport report{.rank = rank_, .plan_hash = plan_hash_, .files = {}, .places = places_};
  for (std::size_t i = 0; i < files_.size(); ++i) {
    report.files.push_back({.bytes = files_[i].size(), .xxh3_128 = xxh3_128.at(i)});
  }
  return report.text();
}

std::string RankFiles::write(const Begin& begin) const {
  std::vector<std::string> digests(files_.size());
  for_each_parallel(
      files_.size(),
      [&](std::size_t i) {
        Xxh3 hash;
        write_object(files_[i], *begin(name(i), files_[i].size()), &hash);
        digests[i] = hash.digest128();
      },
      bytes(), static_cast<unsigned>(files_.size()));
  return report(digests);
}

}  // namespace cairn::sharded
