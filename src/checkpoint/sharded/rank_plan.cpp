#include "checkpoint/sharded/rank_plan.h"

#include <limits>

#include "checkpoint/sharded/packed.h"
#include "core/hash/xxh3.h"

namespace cairn::sharded {
namespace {

constexpr std::string_view kPlanMark = "CPlan_1\n";
constexpr std::string_view kReportMark = "CDone_1\n";
constexpr std::uint64_t kMaxRank = std::numeric_limits<std::uint32_t>::max();

}  // namespace

std::string RankPlan::text() const {
  PackedWriter out;
  out.plain(kPlanMark);
  out.number(rank);
  out.number(parts_hash);
  out.number(writes.size());
  std::string bits((writes.size() + 7) / 8, '\0');
  for (std::size_t i = 0; i < writes.size(); ++i) {
    if (writes[i]) bits[i / 8] = static_cast<char>(bits[i / 8] | 1 << i % 8);
  }
  out.plain(bits);
  return out.take();
}

RankPlan RankPlan::parse(std::string_view text) {
  PackedReader in(text, "the plan of what a rank writes");
  in.expect_mark(kPlanMark);
  RankPlan plan;
  plan.rank = static_cast<std::uint32_t>(in.number(kMaxRank));
  plan.parts_hash = in.number();
  const std::uint64_t count = in.number(8 * std::uint64_t{in.remaining()});
  const std::string_view bits = in.plain((count + 7) / 8);
  in.expect_end();
  plan.writes.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    plan.writes[i] = (static_cast<unsigned char>(bits[i / 8]) >> i % 8 & 1U) != 0;
  }
  return plan;
}

std::string RankReport::text() const {
  PackedWriter out;
  out.plain(kReportMark);
  out.number(rank);
  out.number(plan_hash);
  out.number(files.size());
  for (const File& file : files) {
    out.number(file.bytes);
    out.plain(file.xxh3_128);
  }
  out.number(places.size());
  for (const Place& place : places) {
    out.number(place.file);
    out.number(place.offset);
    out.number(place.size);
  }
  return out.take();
}

RankReport RankReport::parse(std::string_view text) {
  PackedReader in(text, "the report of what a rank has written");
  in.expect_mark(kReportMark);
  RankReport report;
  report.rank = static_cast<std::uint32_t>(in.number(kMaxRank));
  report.plan_hash = in.number();
  for (std::size_t count = in.count(); count > 0; --count) {
    const std::uint64_t bytes = in.number();
    report.files.push_back({bytes, std::string(in.plain(kSealDigits))});
  }
  const std::size_t count = in.count();
  report.places.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    Place place{.file = static_cast<std::uint32_t>(in.number(kMaxRank))};
    place.offset = in.number();
    place.size = in.number();
    if (place.file >= report.files.size()) in.fail("names a file that it does not list");
    const std::uint64_t bytes = report.files[place.file].bytes;
    if (place.offset > bytes || place.size > bytes - place.offset) {
      in.fail("has a place outside of its file");
    }
    report.places.push_back(place);
  }
  in.expect_end();
  return report;
}

}  // namespace cairn::sharded
