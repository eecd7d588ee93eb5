// Runs of `digits` in one folder, as a user starts them.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "testing/child_process.h"

namespace cairn::testing {

using Flags = std::vector<std::string>;

inline Flags operator+(Flags flags, const Flags& more) {
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

inline constexpr int kDigitsBatchesPerEpoch = 45;

// All runs have the same flags.
class DigitsJob {
 public:
  explicit DigitsJob(const std::string& folder, const Flags& flags = {})
      : folder_(folder),
        flags_(Flags{CAIRN_DIGITS, "--save-folder", folder + "/ckpt", "--out-weights", weights(),
                     "--autoresume", "--no-progress-bar"} +
               flags) {}

  std::unique_ptr<ChildProcess> start(const Flags& more = {}) const {
    return std::make_unique<ChildProcess>(flags_ + more);
  }
  // Runs it and expects this exit code. Returns what it printed.
  std::string finish(const Flags& more = {}, int exit_code = 0) const {
    const auto program = start(more);
    const ChildProcess::Ended ended = program->wait();
    EXPECT_EQ(ended.exit_code, exit_code) << program->output();
    EXPECT_EQ(ended.signal, 0) << program->output();
    return program->output();
  }
  void kill_at(int batch) const {
    const auto program = start({"--kill-at-batch", std::to_string(batch)});
    EXPECT_EQ(program->wait().signal, SIGKILL) << program->output();
  }

  // Kills it from outside `times` times, each time at a random moment after one of its saves.
  void kill_at_random(int times) const {
    std::mt19937 random(20);
    int killed = 0;
    for (int i = 0; i < times; ++i) {
      const auto program = start();
      const int saves = 1 + static_cast<int>(random() % 3);
      bool is_running = true;
      for (int n = 0; n < saves && is_running; ++n)
        is_running = program->wait_for_line("saved ").has_value();
      program->send(SIGKILL);
      killed += program->wait().signal == SIGKILL ? 1 : 0;
    }
    EXPECT_GT(killed, 0);
  }

  std::string weights() const { return folder_ + "/final.pt"; }
  std::string checkpoint(const std::string& name) const { return folder_ + "/ckpt/" + name; }
  std::set<std::string> checkpoints() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ + "/ckpt"))
      names.insert(entry.path().filename().string());
    return names;
  }

 private:
  std::string folder_;
  Flags flags_;
};

// The accuracy that digits printed. Fails the test if there is none.
inline double accuracy_in(const std::string& output) {
  const std::string begin = "test accuracy ";
  const std::size_t at = output.find(begin);
  EXPECT_NE(at, std::string::npos) << output;
  return at == std::string::npos ? 0 : std::stod(output.substr(at + begin.size()));
}

}  // namespace cairn::testing
