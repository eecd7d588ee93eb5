#include "cli/shell/keep_best.h"

#include <charconv>
#include <vector>

#include "cairn/error.h"

#include "cli/view/joined.h"

namespace cairn::cli {
namespace {

std::string resolve(const std::string& name, const std::set<std::string>& known) {
  if (known.contains(name)) return name;
  std::vector<std::string> evaluated;
  for (const std::string& full : known) {
    if (full.ends_with("/" + name) && !full.starts_with("train/")) evaluated.push_back(full);
  }
  if (evaluated.size() == 1) return evaluated.front();
  if (evaluated.size() > 1) {
    throw UsageError("the metric " + name + " is ambiguous: say one of " + joined(evaluated));
  }
  if (known.contains("train/" + name)) return "train/" + name;
  throw UsageError("no checkpoint here holds the metric " + name +
                   (known.empty() ? "; a Trainer saves metrics with save_metrics = true"
                                  : "; there are " + joined(known)));
}

Best best_of(const std::string& metric, const std::string& mode) {
  if (mode == "min") return Best::kLowest;
  if (mode == "max") return Best::kHighest;
  if (const auto best = best_by_name(metric)) return *best;
  throw UsageError("whether a low or a high " + metric +
                   " is good does not follow from its name: say --mode min or --mode max");
}

}  // namespace

BestRule parse_keep_best(const std::string& text, const std::set<std::string>& known,
                         const std::string& mode) {
  BestRule rule{.metric = text};
  const std::size_t colon = text.rfind(':');
  if (colon != std::string::npos) {
    const char* end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data() + colon + 1, end, rule.count);
    if (error != std::errc{} || at != end) {
      throw UsageError("--keep-best " + text + ": a number must follow the colon");
    }
    rule.metric = text.substr(0, colon);
  }
  rule.metric = resolve(rule.metric, known);
  rule.best = best_of(rule.metric, mode);
  return rule;
}

}  // namespace cairn::cli
