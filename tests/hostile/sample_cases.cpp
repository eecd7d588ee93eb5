// Samples of every format in which a few bytes are replaced by the largest or smallest number. Any
// of these bytes may be a size, a count or an offset.
#include <algorithm>

#include "testing/format_samples.h"
#include "tests/hostile/corpus.h"

namespace cairn::testing {

std::vector<HostileCase> hostile_samples() {
  constexpr std::size_t kPlaces = 100;
  constexpr std::size_t kBytes = 4;
  std::vector<HostileCase> cases;
  for (const FormatSample& sample : format_samples()) {
    const std::map<std::string, std::string> files = files_of(sample);
    for (std::size_t i = 0; i < kPlaces; ++i) {
      for (const char byte : {'\0', '\x7f', '\xff'}) {
        HostileCase changed{std::string(sample.format) + "_" + std::to_string(cases.size()), files,
                            Answer::kAny};
        std::string& bytes = changed.files.at(sample.part);
        const std::size_t at = i * bytes.size() / kPlaces;
        std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                    std::min(kBytes, bytes.size() - at), byte);
        cases.push_back(std::move(changed));
      }
    }
  }
  return cases;
}

}  // namespace cairn::testing
