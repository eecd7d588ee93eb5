#include "cli/shell/nearest.h"

#include <algorithm>
#include <numeric>

namespace cairn::cli {
namespace {

// The number of letters to insert, remove or replace, or of neighbours to swap.
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::vector<std::size_t> row(b.size() + 1, i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] =
          std::min({row[j - 1] + 1, last[j] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool is_swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (is_swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = std::move(last);
    last = std::move(row);
  }
  return last.back();
}

}  // namespace

std::string nearest(const std::string& word, const std::vector<std::string>& known) {
  constexpr std::size_t kLongest = 64;  // letters; a person types no longer word
  if (word.size() > kLongest) return {};
  std::string best;
  std::size_t fewest = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : known) {
    const std::size_t changes = distance(word, candidate);
    if (changes >= fewest || changes >= std::max(word.size(), candidate.size())) continue;
    fewest = changes;
    best = candidate;
  }
  return best;
}

}  // namespace cairn::cli
