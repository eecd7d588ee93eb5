// Compares traces (trace.h) with golden files in tests/data/traces/.
//
// With CAIRN_WRITE_TRACES=1, expect_trace() writes the golden file instead of comparing with it:
//   CAIRN_WRITE_TRACES=1 build/release/bin/train_trace_tests
// Read the difference that `git diff` shows before you commit it.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "testing/test_data.h"

namespace cairn::testing {

namespace trace_detail {

inline std::vector<std::string> read_lines(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);)
    lines.push_back(line);
  return lines;
}

// Computes the longest common subsequence. "-": only expected; "+": only found; " ": both.
inline std::vector<std::string> differences(const std::vector<std::string>& expected,
                                            const std::vector<std::string>& found) {
  const std::size_t m = expected.size();
  const std::size_t n = found.size();
  std::vector<std::vector<std::size_t>> common(m + 1, std::vector<std::size_t>(n + 1));
  for (std::size_t i = m; i-- > 0;) {
    for (std::size_t j = n; j-- > 0;) {
      common[i][j] = expected[i] == found[j] ? common[i + 1][j + 1] + 1
                                             : std::max(common[i + 1][j], common[i][j + 1]);
    }
  }
  std::vector<std::string> lines;
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < m || j < n) {
    if (i < m && j < n && expected[i] == found[j]) {
      lines.push_back("  " + expected[i++]);
      ++j;
    } else if (i < m && (j == n || common[i + 1][j] >= common[i][j + 1])) {
      lines.push_back("- " + expected[i++]);
    } else {
      lines.push_back("+ " + found[j++]);
    }
  }
  return lines;
}

// The lines that differ, three lines around each of them, and their headings.
inline std::string text_of(const std::vector<std::string>& differences) {
  constexpr std::size_t kAround = 3;
  constexpr std::size_t kMaxLines = 100;
  std::vector<bool> is_shown(differences.size());
  std::size_t rank = 0;     // The last "==== rank 1 of 2".
  std::size_t heading = 0;  // The last "== a first start".
  for (std::size_t at = 0; at < differences.size(); ++at) {
    if (differences[at].starts_with("  ====")) rank = at;
    if (differences[at].starts_with("  ==")) heading = at;
    if (differences[at].starts_with("  ")) continue;
    is_shown[rank] = is_shown[heading] = true;
    const std::size_t end = std::min(differences.size(), at + kAround + 1);
    for (std::size_t near = at < kAround ? 0 : at - kAround; near < end; ++near)
      is_shown[near] = true;
  }
  std::string text;
  std::size_t lines = 0;
  for (std::size_t at = 0; at < differences.size(); ++at) {
    if (!is_shown[at]) {
      if (at == 0 || is_shown[at - 1]) text += "  ...\n";
      continue;
    }
    if (++lines > kMaxLines) return text + "  ... and more\n";
    text += differences[at] + "\n";
  }
  return text;
}

}  // namespace trace_detail

// Compares `lines` with tests/data/traces/`name`.txt, or rewrites that file.
inline void expect_trace(const std::string& name, const std::vector<std::string>& lines) {
  const std::string path = kData + "/traces/" + name + ".txt";
  if (getenv("CAIRN_WRITE_TRACES") != nullptr) {
    std::ofstream file(path);
    for (const std::string& line : lines)
      file << line << "\n";
    file.close();
    ASSERT_TRUE(file) << "cannot write " << path;
    return;
  }
  const std::vector<std::string> expected = trace_detail::read_lines(path);
  if (expected == lines) return;
  ADD_FAILURE() << "This run does not do what tests/data/traces/" << name << ".txt says.\n"
                << "  -: only in the file; +: only in this run\n"
                << trace_detail::text_of(trace_detail::differences(expected, lines))
                << "If the change is intended, write the file anew with CAIRN_WRITE_TRACES=1.";
}

}  // namespace cairn::testing
