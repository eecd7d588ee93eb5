#include "checkpoint/ranks/commit/part_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cairn/error.h"

#include "core/text/json_text.h"

namespace cairn {

// The note, which may have any bytes, follows the first line.
std::string text_of(const PartReport& report) {
  Json files = Json::array();
  for (const ManifestFile& file : report.part.files) {
    files.push_back({file.name, file.bytes, file.xxh3_128});
  }
  const Json said = {{"id", report.id},
                     {"home", report.home},
                     {"machine", report.machine},
                     {"files", files},
                     {"name", text_of(report.name)}};
  return json_text(said, -1) + "\n" + report.part.note;
}

Json parse_message(const std::string& text) {
  try {
    return Json::parse(text);
  } catch (const Json::exception& e) {
    throw MeetingError("a message of another rank cannot be read: " + std::string(e.what()));
  }
}

PartReport parse_part_report(const std::string& text) {
  const std::size_t line = std::min(text.find('\n'), text.size());
  const Json read = parse_message(text.substr(0, line));
  try {
    PartReport report{.id = read.at("id").get<std::string>(),
                      .home = read.at("home").get<std::int64_t>(),
                      .machine = read.at("machine").get<std::string>(),
                      .part = {},
                      .name = parse_name_on_machine(read.at("name").get<std::string>())};
    for (const Json& file : read.at("files")) {
      report.part.files.push_back({.name = file.at(0).get<std::string>(),
                                   .bytes = file.at(1).get<std::uint64_t>(),
                                   .xxh3_128 = file.at(2).get<std::string>()});
    }
    report.part.note = text.substr(std::min(line + 1, text.size()));
    return report;
  } catch (const Json::exception& e) {
    throw MeetingError("a rank's report of its files cannot be read: " + std::string(e.what()));
  }
}

void PartReports::add(std::int64_t rank, PartReport report) {
  for (const ManifestFile& file : report.part.files) {
    if (!names_of_files_.insert(file.name).second) {
      throw UsageError(fmt::format(
          "rank {} wrote {}, but another file of the checkpoint has this name", rank, file.name));
    }
    files_.push_back(file);
    if (report.home != 0) files_.back().machine = report.machine;
  }
  machines_.insert(report.machine);
  if (report.home == rank && rank != 0) {
    homes_.push_back(rank);
    names_.push_back(std::move(report.name));
  }
  parts_.push_back({std::move(report.part), rank});
}

std::vector<std::int64_t> PartReports::homes_that_keep(const NameOnMachine& of_rank_0) const {
  std::vector<NameOnMachine> all = names_;
  all.push_back(of_rank_0);
  std::vector<std::int64_t> keeping;
  for (std::size_t i = 0; i < homes_.size(); ++i) {
    if (is_kept(names_[i], all, machines_)) keeping.push_back(homes_[i]);
  }
  return keeping;
}

}  // namespace cairn
