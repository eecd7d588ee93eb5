// The folder of a run, as a Trainer leaves the folder, with file times that the test chooses.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "cairn/checkpoint/checkpoint.h"

#include "cli/view/clock_text.h"
#include "testing/sample_checkpoint.h"
#include "testing/temp_folder.h"

namespace cairn::cli {

class RunFolder {
 public:
  // "ep2-ba20-rank0.pt"
  static std::string name(std::int64_t batch) {
    return "ep" + std::to_string(batch / 10) + "-ba" + std::to_string(batch) + "-rank0.pt";
  }
  const std::string& path() const { return folder_.path(); }
  std::string operator/(const std::string& file) const { return folder_ / file; }

  // Saves the checkpoint of `batch`. Its file time is `batch` minutes after noon UTC on 1 January
  // 2026.
  std::string save(std::int64_t batch) const {
    cairn::save(testing::sample_checkpoint(batch), *this / name(batch),
                {.info = testing::sample_info(batch)});
    set_time(name(batch), start() + std::chrono::minutes(batch));
    return name(batch);
  }
  void link(const std::string& link, const std::string& target) const {
    std::filesystem::create_symlink(target, *this / link);
  }
  void write(const std::string& file, const std::string& bytes) const {
    testing::write_file(*this / file, bytes);
  }
  // Damages one byte. If `visibly`, the byte is in the file's last third: in the manifest or the
  // directory, which even the quick check reads. Otherwise the byte is in the middle of the
  // tensors, which only the full check reads.
  void damage(const std::string& file, bool visibly) const {
    std::string bytes = testing::read_file(*this / file);
    const auto before = std::filesystem::last_write_time(*this / file);
    const std::size_t at = visibly ? bytes.rfind("xxh3_128") + 14 : bytes.find("data/0FB") + 200;
    ASSERT_LT(at, bytes.size());
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    testing::write_file(*this / file, bytes);
    std::filesystem::last_write_time(*this / file, before);
  }
  void set_time(const std::string& file, std::chrono::system_clock::time_point time) const {
    const auto seconds = std::chrono::system_clock::to_time_t(time);
    const timespec times[2] = {{seconds, 0}, {seconds, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, (*this / file).c_str(), times, 0), 0);
  }
  bool has(const std::string& file) const {
    return std::filesystem::symlink_status(*this / file).type() !=
           std::filesystem::file_type::not_found;
  }

  // This moment, as FileLogger writes it.
  static std::string now_in_log() {
    std::string text = utc_time_text(std::chrono::system_clock::now());
    return text.replace(text.size() - 1, 1, ".000Z");
  }
  static std::chrono::system_clock::time_point start() {
    return std::chrono::sys_days(std::chrono::January / 1 / 2026) + std::chrono::hours(12);
  }

 private:
  testing::TempFolder folder_;
};

}  // namespace cairn::cli
