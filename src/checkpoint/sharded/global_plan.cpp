#include "checkpoint/sharded/global_plan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>

#include "cairn/error.h"

#include "checkpoint/sharded/item_scan.h"
#include "checkpoint/sharded/rank_plan.h"
#include "core/xxh3.h"
#include "format/dcp/write_metadata.h"

namespace cairn::sharded {
namespace {

// Which of its parts a rank writes.
class Chosen {
 public:
  explicit Chosen(std::size_t parts) : words_((parts + 63) / 64), parts_(parts) {}

  void choose(std::uint64_t part) { words_[part / 64] |= std::uint64_t{1} << part % 64; }
  bool has(std::uint64_t part) const { return (words_[part / 64] >> part % 64 & 1U) != 0; }
  // Once all are chosen.
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
  // How many are chosen before this one.
  std::uint64_t before(std::uint64_t part) const {
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
    for (Chosen& each : chosen) {
      each.count();
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
                         ", and none has it");
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
  std::vector<Chosen> chosen;          // of each rank
  std::vector<std::size_t> chunks_of;  // of each item
  std::vector<std::uint64_t> bytes;    // of each rank
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
  for (const Chosen& each : state_->chosen) {
    bytes += sizeof(Chosen) + each.memory();
  }
  return bytes;
}

std::string GlobalPlan::plan_of(std::uint32_t rank) const {
  if (rank >= world_size()) {
    throw UsageError("a plan for rank " + std::to_string(rank) + " of " +
                     std::to_string(world_size()));
  }
  return RankPlan{.rank = rank,
                  .parts_hash = xxh3_64(as_bytes(state_->all.text_of(rank))),
                  .writes = state_->chosen[rank].flags()}
      .text();
}

namespace {

// By rank; each is one of what was planned.
std::vector<RankReport> parse_reports(const GlobalPlan& plan,
                                      const std::vector<std::string>& reports) {
  std::vector<std::optional<RankReport>> found(plan.world_size());
  for (const std::string& text : reports) {
    RankReport report = RankReport::parse(text);
    const std::string rank = "rank " + std::to_string(report.rank);
    if (report.rank >= found.size()) throw CorruptError("a report of " + rank + ", which is none");
    if (found[report.rank]) throw UsageError(rank + " reported twice what it has written");
    const std::string planned = plan.plan_of(report.rank);
    const bool is_planned = report.plan_hash == xxh3_64(as_bytes(planned));
    if (!is_planned) {
      throw CorruptError(rank + " wrote by another plan than this save's");
    }
    found[report.rank] = std::move(report);
  }
  std::vector<RankReport> all;
  for (std::size_t rank = 0; rank < found.size(); ++rank) {
    if (!found[rank]) {
      throw UsageError("rank " + std::to_string(rank) + " did not report what it has written");
    }
    all.push_back(std::move(*found[rank]));
  }
  return all;
}

std::vector<RankReport> checked_reports(const GlobalPlan& plan,
                                        const std::vector<std::string>& reports,
                                        const std::vector<Chosen>& chosen) {
  std::vector<RankReport> all = parse_reports(plan, reports);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].places.size() == chosen[rank].total()) continue;
    throw CorruptError("rank " + std::to_string(rank) + " was to write " +
                       std::to_string(chosen[rank].total()) + " parts, and reports " +
                       std::to_string(all[rank].places.size()));
  }
  return all;
}

}  // namespace

std::vector<ManifestFile> GlobalPlan::files(const std::vector<std::string>& reports) const {
  std::vector<ManifestFile> files;
  for (const RankReport& report : checked_reports(*this, reports, state_->chosen)) {
    for (std::size_t i = 0; i < report.files.size(); ++i) {
      files.push_back({.name = data_file_name(report.rank, i),
                       .bytes = report.files[i].bytes,
                       .xxh3_128 = report.files[i].xxh3_128});
    }
  }
  return files;
}

class GlobalPlan::Content final : public dcp::MetadataContent {
 public:
  Content(const State& state, std::vector<RankReport> reports, const MetadataOptions& options)
      : state_(state), reports_(std::move(reports)), options_(options), scan_(state.all) {
    for (const RankReport& report : reports_) {
      names_.push_back(names_of(report));
    }
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
    Dims offsets;
    Dims sizes;
    for (std::size_t i = 0; i < parts.holdings().size(); ++i) {
      const Holding& holding = parts.holdings()[i];
      const Chosen& chosen = state_.chosen[holding.rank];
      if (!chosen.has(holding.number)) continue;
      const RankReport::Place& place = reports_[holding.rank].places[chosen.before(holding.number)];
      parts.get_box(i, offsets, sizes);
      use({.offsets = &offsets,
           .sizes = &sizes,
           .file = names_[holding.rank][place.file],
           .offset = place.offset,
           .size = place.size});
    }
  }

  std::string_view save_id() const override { return options_.save_id; }

 private:
  std::vector<std::string> names_of(const RankReport& report) const {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < report.files.size(); ++i) {
      names.push_back(data_file_name(report.rank, i));
    }
    if (options_.file_names.empty()) return names;
    if (report.rank >= options_.file_names.size() ||
        options_.file_names[report.rank].size() != names.size()) {
      throw UsageError("rank " + std::to_string(report.rank) + " wrote " +
                       std::to_string(names.size()) + " files, and there are not as many names");
    }
    return options_.file_names[report.rank];
  }

  const State& state_;
  std::vector<RankReport> reports_;
  const MetadataOptions& options_;
  std::vector<std::vector<std::string>> names_;  // of each rank's files
  mutable ItemScan scan_;
};

std::string GlobalPlan::metadata(const std::vector<std::string>& reports,
                                 const MetadataOptions& options) const {
  return dcp::write_metadata(
      Content(*state_, checked_reports(*this, reports, state_->chosen), options));
}

}  // namespace cairn::sharded
