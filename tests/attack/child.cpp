#include "child.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <sstream>

namespace cairn::attack {
namespace {

[[noreturn]] void be_the_child(const Plan& plan, const std::function<int(const Report&)>& job,
                               const Report& report) {
  int code = 0;
  arm(plan);
  try {
    code = job(report);
  } catch (const std::exception& e) {
    report.tell("error", e.what());
    code = 2;
  }
  report.tell("calls", std::to_string(disarm()));
  _exit(code);
}

std::string read_all(int pipe) {
  std::string all;
  std::array<char, 4096> buffer{};
  for (ssize_t n = 0; (n = ::read(pipe, buffer.data(), buffer.size())) > 0;)
    all.append(buffer.data(), static_cast<std::size_t>(n));
  return all;
}

}  // namespace

void Report::tell(const std::string& word, const std::string& text) const {
  std::string line = word + " " + text;
  std::replace(line.begin(), line.end(), '\n', ' ');
  line += '\n';
  if (::write(pipe_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) _exit(9);
}

std::string ChildResult::lines(const std::string& word) const {
  std::string found;
  for (const auto& [key, text] : told) {
    if (key == word) found += text + "\n";
  }
  return found;
}

std::string ChildResult::text() const {
  std::ostringstream out;
  out << "signal " << signal << ", exit code " << exit_code << ", " << calls << " calls\n";
  for (const auto& [word, line] : told)
    out << word << ": " << line << "\n";
  return out.str();
}

ChildResult run_child(const Plan& plan, const std::function<int(const Report&)>& job) {
  std::array<int, 2> ends{};
  EXPECT_EQ(pipe(ends.data()), 0);
  const pid_t child = fork();
  if (child == 0) be_the_child(plan, job, Report(ends[1]));
  ::close(ends[1]);
  std::istringstream told(read_all(ends[0]));
  ::close(ends[0]);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);

  ChildResult ended;
  if (WIFSIGNALED(status)) ended.signal = WTERMSIG(status);
  if (WIFEXITED(status)) ended.exit_code = WEXITSTATUS(status);
  for (std::string line; std::getline(told, line);) {
    const std::size_t blank = line.find(' ');
    ended.told.emplace_back(line.substr(0, blank), line.substr(blank + 1));
    if (ended.told.back().first == "error") ended.error = ended.told.back().second;
    if (ended.told.back().first == "calls") ended.calls = std::stoull(ended.told.back().second);
  }
  return ended;
}

}  // namespace cairn::attack
