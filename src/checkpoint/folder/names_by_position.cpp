#include "checkpoint/folder/names_by_position.h"

#include <algorithm>
#include <array>
#include <utility>

#include "cairn/error.h"

#include "checkpoint/names/format_string.h"
#include "io/file.h"
#include "storage/listing.h"
#include "value/timestamp_fields.h"

namespace cairn {
namespace {

constexpr std::array kByGrowth = {
    timestamp_counter(&Timestamp::batch),          timestamp_counter(&Timestamp::epoch),
    timestamp_counter(&Timestamp::sample),         timestamp_counter(&Timestamp::token),
    timestamp_counter(&Timestamp::batch_in_epoch), timestamp_counter(&Timestamp::sample_in_epoch),
    timestamp_counter(&Timestamp::token_in_epoch),
};

std::chrono::system_clock::time_point modified_or_never(ObjectStore& store,
                                                        const std::string& path) {
  constexpr auto kNever = std::chrono::system_clock::time_point::max();
  try {
    const auto info = store.stat(path);
    return info ? info->modified : kNever;
  } catch (const Error&) {  // opening the file will report the error
    return kNever;
  }
}

}  // namespace

NamesByPosition::NamesByPosition(ObjectStore& store, std::string folder, const NameFormat& format,
                                 const FormatVariables& dist, ListedFolders* listed)
    : store_(store), folder_(std::move(folder)), dist_(dist), listed_(listed) {
  std::string rest = format.text();
  for (std::size_t slash = rest.find('/'); slash != std::string::npos; slash = rest.find('/')) {
    add_level(NameFormat(rest.substr(0, slash)));
    rest.erase(0, slash + 1);
  }
  add_level(NameFormat(rest));
  list(folder_, 0, {});
}

void NamesByPosition::add_level(const NameFormat& format) {
  const std::vector<FormatPiece> pieces = split_format(format);
  const auto has = [&](const char* name) {
    return std::any_of(pieces.begin(), pieces.end(), [&](const FormatPiece& piece) {
      return piece.is_field && piece.name == name;
    });
  };
  for (const TimestampCounter& known : kByGrowth) {
    const bool has_epoch =
        std::find(counters_.begin(), counters_.end(), &Timestamp::epoch) != counters_.end();
    if (has(known.name) && (!known.is_in_epoch() || has_epoch)) counters_.push_back(known.field);
  }
  levels_.push_back({format, counters_.size()});
}

bool NamesByPosition::read_name(std::size_t level, const std::string& name,
                                Timestamp& claim) const {
  const auto counters = parse_name(levels_[level].format, name, dist_);
  if (!counters) return false;
  for (const auto& [variable, value] : *counters) {
    for (const TimestampCounter& known : kByGrowth) {
      if (variable == known.name) claim.*known.field = value;
    }
  }
  return true;
}

std::vector<ListedName> NamesByPosition::names_in(const std::string& folder) {
  if (listed_ == nullptr) return list_all_if_any(store_, folder);
  const auto known = listed_->find(folder);
  if (known != listed_->end()) return known->second;
  return listed_->emplace(folder, list_all_if_any(store_, folder)).first->second;
}

void NamesByPosition::list(const std::string& folder, std::size_t level, const Timestamp& claim) {
  for (const ListedName& listed : names_in(folder)) {
    Node node{normal_path(join_path(folder, listed.name)), level, claim};
    if (!read_name(level, listed.name, node.claim)) continue;
    const bool is_object = listed.info && listed.info->type == ObjectInfo::Type::kObject;
    if (is_object) node.modified = listed.info->modified;
    nodes_.push_back(std::move(node));
    std::push_heap(nodes_.begin(), nodes_.end(),
                   [this](const Node& a, const Node& b) { return is_behind(a, b); });
  }
}

std::strong_ordering NamesByPosition::compare(const Timestamp& claim,
                                              const Timestamp& position) const {
  for (const Counter counter : counters_) {
    const auto order = claim.*counter <=> position.*counter;
    if (order != std::strong_ordering::equal) return order;
  }
  return std::strong_ordering::equal;
}

// Compares the counters that both nodes have. A folder comes before anything that may be in it.
bool NamesByPosition::is_behind(const Node& a, const Node& b) const {
  const std::size_t known = std::min(levels_[a.level].counters, levels_[b.level].counters);
  for (std::size_t i = 0; i < known; ++i) {
    const Counter counter = counters_[i];
    if (a.claim.*counter != b.claim.*counter) return a.claim.*counter < b.claim.*counter;
  }
  return a.level > b.level;
}

// Moves the furthest name, and all names that are equally far, from nodes_ to ready_.
void NamesByPosition::fill() {
  const auto is_behind = [this](const Node& a, const Node& b) { return this->is_behind(a, b); };
  while (!nodes_.empty()) {
    const bool is_folder = nodes_.front().level + 1 < levels_.size();
    const bool is_equal =
        ready_.empty() || std::is_eq(compare(nodes_.front().claim, ready_.front().claim));
    if (!ready_.empty() && !is_equal) break;
    std::pop_heap(nodes_.begin(), nodes_.end(), is_behind);
    const Node node = std::move(nodes_.back());
    nodes_.pop_back();
    if (!is_folder) {
      ready_.push_back({node.path, node.claim, node.modified});
      continue;
    }
    try {
      list(node.path, node.level + 1, node.claim);
    } catch (const UsageError&) {  // a file where the format has a folder
    }
  }
  if (ready_.size() < 2) return;
  for (NamedFile& file : ready_) {
    if (!file.modified) file.modified = modified_or_never(store_, file.path);
  }
  std::stable_sort(ready_.begin(), ready_.end(), [](const NamedFile& a, const NamedFile& b) {
    return *a.modified > *b.modified;
  });
}

const NamedFile* NamesByPosition::next() {
  if (ready_.empty()) fill();
  return ready_.empty() ? nullptr : &ready_.front();
}

NamedFile NamesByPosition::take() {
  NamedFile file = std::move(ready_.front());
  ready_.pop_front();
  return file;
}

bool NamesByPosition::covers(const std::string& path) const {
  std::string rest = relative_path(normal_path(path), normal_path(folder_));
  Timestamp claim;
  for (std::size_t level = 0; level < levels_.size(); ++level) {
    const std::size_t slash = rest.find('/');
    const bool is_last = level + 1 == levels_.size();
    if (is_last != (slash == std::string::npos)) return false;
    const std::string name = rest.substr(0, slash);
    if (!read_name(level, name, claim)) return false;
    if (!is_last) rest.erase(0, slash + 1);
  }
  return true;
}

}  // namespace cairn
