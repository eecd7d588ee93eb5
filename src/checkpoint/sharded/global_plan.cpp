#include "checkpoint/sharded/global_plan.h"

#include <algorithm>
#include <bit>
#include <tuple>

#include "cairn/error.h"

#include "checkpoint/sharded/item_scan.h"
#include "checkpoint/sharded/rank_plan.h"
#include "core/hash/xxh3.h"
#include "format/dcp/metadata/write_metadata.h"
#include "io/memory/page_memory.h"

namespace cairn::sharded {
namespace {

// The set of parts that one rank writes.
class ChosenParts {
 public:
  explicit ChosenParts(std::size_t parts) : words_((parts + 63) / 64), parts_(parts) {}

  void choose(std::uint64_t part) { words_[part / 64] |= std::uint64_t{1} << part % 64; }
  bool has(std::uint64_t part) const { return (words_[part / 64] >> part % 64 & 1U) != 0; }
  // Must be called after all parts are chosen, and before total() and count_before().
  void count() {
    before_.resize(words_.size());
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < words_.size(); ++i) {
      before_[i] = sum;
      sum += static_cast<std::uint64_t>(std::popcount(words_[i]));
    }
    count_ = sum;
  }
  std::uint64_t total() const { return count_; }
  // The number of chosen parts before `part`.
  std::uint64_t count_before(std::uint64_t part) const {
    const std::uint64_t below = (std::uint64_t{1} << part % 64) - 1;
    return before_[part / 64] +
           static_cast<std::uint64_t>(std::popcount(words_[part / 64] & below));
  }
  std::uint64_t memory() const {
    return (words_.capacity() + before_.capacity()) * sizeof(std::uint64_t);
  }
  std::vector<bool> flags() const {
    std::vector<bool> flags(parts_);
    for (std::size_t i = 0; i < parts_; ++i) {
      flags[i] = has(i);
    }
    return flags;
  }

 private:
  std::vector<std::uint64_t> words_;
  std::vector<std::uint64_t> before_;
  std::size_t parts_;
  std::uint64_t count_ = 0;
};

}  // namespace

std::string data_file_name(std::uint32_t rank, std::size_t number) {
  return "__" + std::to_string(rank) + "_" + std::to_string(number) + ".distcp";
}

struct GlobalPlan::State {
  State(const std::vector<std::string>& names, std::vector<std::string> parts)
      : all(names, std::move(parts)), chunks_of(all.headers().size()), bytes(all.world_size()) {
    for (std::uint32_t rank = 0; rank < all.world_size(); ++rank) {
      chosen.emplace_back(all.parts_of(rank));
    }
    plan();
    for (std::uint32_t rank = 0; rank < all.world_size(); ++rank) {
      chosen[rank].count();
      plans.push_back(RankPlan{.rank = rank,
                               .parts_hash = xxh3_64(as_bytes(all.text_of(rank))),
                               .writes = chosen[rank].flags()}
                          .text());
    }
  }

  void plan() {
    ItemScan scan(all);
    KnownLayouts known;
    for (std::size_t i = 0; i < all.headers().size(); ++i) {
      scan.go_to(i);
      all.headers()[i].dtype ? plan_tensor(i, scan.parts(), known) : plan_object(i, scan.parts());
    }
  }

  void plan_object(std::size_t item, const TensorParts& parts) {
    const std::vector<Holding>& holdings = parts.holdings();
    const auto first =
        std::min_element(holdings.begin(), holdings.end(), [](const Holding& a, const Holding& b) {
          return a.replica != b.replica ? a.replica < b.replica : a.rank < b.rank;
        });
    if (first == holdings.end()) {
      throw CorruptError("ranks name " + dcp::in_quotes(all.headers()[item].fqn) +
                         ", but no rank has it");
    }
    chosen[first->rank].choose(first->number);
    chunks_of[item] = 1;
  }

  void plan_tensor(std::size_t item, TensorParts& parts, KnownLayouts& known) {
    parts.group(known);
    parts.for_each_group([&](std::span<const std::uint32_t> group) {
      const bool is_whole = parts.is_whole(group.front());
      const std::uint32_t writer =
          *std::min_element(group.begin(), group.end(), [&](std::uint32_t a, std::uint32_t b) {
            const Holding& one = parts.holdings()[a];
            const Holding& other = parts.holdings()[b];
            const auto key = [&](const Holding& holding) {
              return std::tuple(holding.replica, is_whole ? 0 : bytes[holding.rank], holding.rank);
            };
            return key(one) < key(other);
          });
      const Holding& holding = parts.holdings()[writer];
      bytes[holding.rank] += parts.bytes_of(writer);
      chosen[holding.rank].choose(holding.number);
      ++chunks_of[item];
      ++chunks;
    });
  }

  AllItems all;
  std::vector<ChosenParts> chosen;     // by rank
  std::vector<std::string> plans;      // by rank: the text of its plan
  std::vector<std::size_t> chunks_of;  // by item
  std::vector<std::uint64_t> bytes;    // by rank
  std::uint64_t chunks = 0;
};

GlobalPlan::GlobalPlan(const std::vector<std::string>& names, std::vector<std::string> parts)
    : state_(std::make_unique<const State>(names, std::move(parts))) {}
GlobalPlan::~GlobalPlan() = default;
GlobalPlan::GlobalPlan(GlobalPlan&&) noexcept = default;

std::uint32_t GlobalPlan::world_size() const { return state_->all.world_size(); }
std::size_t GlobalPlan::items() const { return state_->all.headers().size(); }
std::uint64_t GlobalPlan::chunks() const { return state_->chunks; }
std::uint64_t GlobalPlan::bytes_of(std::uint32_t rank) const { return state_->bytes.at(rank); }
const std::string& GlobalPlan::text_of(std::uint32_t rank) const {
  return state_->all.text_of(rank);
}

std::uint64_t GlobalPlan::memory() const {
  std::uint64_t bytes = state_->all.memory() + state_->chunks_of.size() * sizeof(std::size_t);
  for (std::size_t rank = 0; rank < state_->chosen.size(); ++rank) {
    bytes += sizeof(ChosenParts) + state_->chosen[rank].memory();
    bytes += sizeof(std::string) + state_->plans[rank].capacity();
  }
  return bytes;
}

std::string GlobalPlan::plan_of(std::uint32_t rank) const {
  if (rank >= world_size()) {
    throw UsageError("a plan for rank " + std::to_string(rank) + " of " +
                     std::to_string(world_size()));
  }
  return state_->plans[rank];
}

namespace {

// Calls use(report) for each rank's report. Throws unless there is one report for each rank, made
// for its plan.
void for_each_report(const std::vector<std::string>& plans, const std::vector<ChosenParts>& chosen,
                     const Reports& reports, auto&& use) {
  std::vector<bool> found(plans.size());
  for (const std::string_view text : reports) {
    const RankReport report = RankReport::parse(text);
    const std::string rank = "rank " + std::to_string(report.rank);
    if (report.rank >= found.size())
      throw CorruptError("a report of " + rank + ", which does not exist");
    if (found[report.rank]) throw UsageError(rank + " reported twice what it has written");
    if (report.plan_hash != xxh3_64(as_bytes(plans[report.rank]))) {
      throw CorruptError(rank + " followed another plan than this save's");
    }
    const std::uint64_t planned = chosen[report.rank].total();
    if (report.places.size() != planned) {
      throw CorruptError(rank + " had to write " + std::to_string(planned) +
                         " parts, but reports " + std::to_string(report.places.size()));
    }
    found[report.rank] = true;
    use(report);
  }
  const auto missing = std::ranges::find(found, false);
  if (missing == found.end()) return;
  throw UsageError("rank " + std::to_string(missing - found.begin()) +
                   " did not report what it has written");
}

}  // namespace

std::vector<ManifestFile> GlobalPlan::files(const std::vector<std::string>& reports) const {
  std::vector<std::vector<ManifestFile>> by_rank(world_size());
  for_each_report(state_->plans, state_->chosen, {reports.begin(), reports.end()},
                  [&](const RankReport& report) {
                    for (const RankReport::File& file : report.files) {
                      auto& files = by_rank[report.rank];
                      files.push_back({.name = data_file_name(report.rank, files.size()),
                                       .bytes = file.bytes,
                                       .xxh3_128 = file.xxh3_128});
                    }
                  });
  std::vector<ManifestFile> files;
  for (const auto& of_rank : by_rank) {
    files.insert(files.end(), of_rank.begin(), of_rank.end());
  }
  return files;
}

class GlobalPlan::Content final : public dcp::MetadataContent {
 public:
  Content(const State& state, const Reports& reports, const MetadataOptions& options)
      : state_(state), save_id_(options.save_id), scan_(state.all) {
    std::size_t chunks = 0;
    for (const ChosenParts& each : state.chosen) {
      first_place_.push_back(static_cast<std::uint32_t>(chunks));
      chunks += each.total();
    }
    places_.reserve(chunks);
    ask_for_huge_pages(places_.data(), chunks * sizeof(dcp::WrittenPlace));
    places_.resize(chunks);
    for_each_report(state.plans, state.chosen, reports,
                    [&](const RankReport& report) { add(report, options); });
  }

  std::size_t items() const override { return state_.all.headers().size(); }

  dcp::WrittenItem item(std::size_t index) const override {
    const ItemHeader& header = state_.all.headers()[index];
    return {.fqn = header.fqn,
            .path = &header.path,
            .dtype = header.dtype,
            .requires_grad = header.requires_grad,
            .size = &header.size,
            .chunks = state_.chunks_of[index]};
  }

  void for_each_chunk(std::size_t index,
                      const std::function<void(const dcp::WrittenChunk&)>& use) const override {
    scan_.go_to(index);
    const TensorParts& parts = scan_.parts();
    for (std::size_t i = 0; i < parts.holdings().size(); ++i) {
      const Holding& holding = parts.holdings()[i];
      const ChosenParts& chosen = state_.chosen[holding.rank];
      if (!chosen.has(holding.number)) continue;
      const auto number = static_cast<std::uint32_t>(chosen.count_before(holding.number));
      use({.offsets = parts.offsets_of(i),
           .sizes = parts.sizes_of(i),
           .number = first_place_[holding.rank] + number});
    }
  }

  // The places are in one memory region for each rank. A loop that does nothing else lets the
  // processor fetch several places at a time.
  void get_places(std::span<const std::uint32_t> numbers,
                  std::span<dcp::WrittenPlace> places) const override {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      places[i] = places_[numbers[i]];
    }
  }
  std::size_t files() const override { return files_.size(); }
  std::string_view file_name(std::uint32_t file) const override { return files_[file]; }
  std::string_view save_id() const override { return save_id_; }

 private:
  void add(const RankReport& report, const MetadataOptions& options) {
    const auto first_file = static_cast<std::uint32_t>(files_.size());
    for (std::size_t i = 0; i < report.files.size(); ++i) {
      files_.push_back(data_file_name(report.rank, i));
    }
    if (!options.file_names.empty()) {
      const auto& names = options.file_names;
      if (report.rank >= names.size() || names[report.rank].size() != report.files.size()) {
        throw UsageError("rank " + std::to_string(report.rank) + " wrote " +
                         std::to_string(report.files.size()) +
                         " files, but there is another number of names");
      }
      std::ranges::copy(names[report.rank], files_.begin() + first_file);
    }
    auto place = places_.begin() + first_place_[report.rank];
    for (const auto& [file, offset, size] : report.places) {
      *place++ = {.offset = offset, .size = size, .file = first_file + file};
    }
  }

  const State& state_;
  const std::string save_id_;
  std::vector<std::uint32_t> first_place_;  // by rank: the index of its first place in places_
  // The places of all written parts, in the order of the ranks and their plans.
  std::vector<dcp::WrittenPlace> places_;
  std::vector<std::string> files_;
  mutable ItemScan scan_;
};

std::unique_ptr<const dcp::MetadataContent> GlobalPlan::content(
    const Reports& reports, const MetadataOptions& options) const {
  return std::make_unique<const Content>(*state_, reports, options);
}

std::string GlobalPlan::metadata(const std::vector<std::string>& reports,
                                 const MetadataOptions& options) const {
  return dcp::write_metadata(*content({reports.begin(), reports.end()}, options));
}

}  // namespace cairn::sharded
