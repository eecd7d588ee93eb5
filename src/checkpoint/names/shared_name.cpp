// A format becomes a pattern of steps: one for each fixed character, and for each counter one or
// more of the characters that it may be written with. The search goes through both patterns at
// once, character by character, from their starts to their ends. The search is breadth-first, so
// the first shared name that it finds is one of the shortest.
#include "checkpoint/names/shared_name.h"

#include <algorithm>
#include <bitset>
#include <deque>
#include <map>
#include <vector>

#include "checkpoint/names/format_spec.h"
#include "checkpoint/names/format_string.h"

namespace cairn {
namespace {

using Characters = std::bitset<256>;

struct PatternStep {
  Characters allowed;
  bool repeats = false;  // the step may match more than one character
};
using Pattern = std::vector<PatternStep>;

Characters characters(std::string_view text) {
  Characters result;
  for (const char c : text) {
    result.set(static_cast<unsigned char>(c));
  }
  return result;
}

// The characters that a number may be written with under this spec.
Characters written_with(const FormatSpec& spec, bool is_int) {
  std::string all = "0123456789";
  if (spec.sign != '\0') all += "+ ";
  if (spec.grouping != '\0') all += spec.grouping;
  if (spec.width > 0) all += spec.fill;
  if (is_int && (spec.type == '\0' || spec.type == 'd')) return characters(all);
  if (std::string_view("boxX").find(spec.type) != std::string_view::npos) {
    return characters(all + "abcdefABCDEFoxX");
  }
  return characters(all + ".+-%einfaEINFA");
}

Pattern pattern_of(const NameFormat& format, const FormatVariables& dist) {
  const FormatVariables times = time_variables({});
  Pattern pattern;
  for (const FormatPiece& piece : split_format(format)) {
    const FormatValue* fixed = piece.is_field ? find_variable(dist, piece.name) : nullptr;
    const FormatValue* time = piece.is_field ? find_variable(times, piece.name) : nullptr;
    if (fixed == nullptr && time != nullptr) {
      format_field(piece, *time);  // refuses a spec that does not fit
      const FormatSpec spec = parse_format_spec(piece.spec);
      const Characters any = written_with(spec, std::holds_alternative<std::int64_t>(*time));
      pattern.insert(pattern.end(), std::max<std::size_t>(spec.width, 1) - 1, {any, false});
      pattern.push_back({any, true});
      continue;
    }
    for (const char c : fixed != nullptr ? format_field(piece, *fixed) : piece.text) {
      pattern.push_back({characters({&c, 1}), false});
    }
  }
  return pattern;
}

class SharedWalk {
 public:
  SharedWalk(Pattern a, Pattern b) : a_(std::move(a)), b_(std::move(b)) {}

  std::optional<std::string> find() {
    visit({0, 0}, {0, 0}, '\0');
    while (!open_.empty()) {
      const Place at = open_.front();
      open_.pop_front();
      if (at == Place(a_.size(), b_.size())) return name_to(at);
      if (at.first < a_.size() && at.second < b_.size()) step_from(at);
    }
    return std::nullopt;
  }

 private:
  using Place = std::pair<std::size_t, std::size_t>;  // the number of steps taken in each pattern
  struct Arrival {
    Place from;
    char character;
  };

  void step_from(const Place& at) {
    const PatternStep& a = a_[at.first];
    const PatternStep& b = b_[at.second];
    const Characters both = a.allowed & b.allowed;
    if (both.none()) return;
    const char character = choose(both);
    visit({at.first + 1, at.second + 1}, at, character);
    if (a.repeats) visit({at.first, at.second + 1}, at, character);
    if (b.repeats) visit({at.first + 1, at.second}, at, character);
  }

  // Prefers digits, because people read this name. Of the digits, 0 comes last, because no number
  // begins with 0.
  static char choose(const Characters& characters) {
    for (const char digit : std::string_view("1234567890")) {
      if (characters[static_cast<unsigned char>(digit)]) return digit;
    }
    unsigned first = 0;
    while (!characters[first])
      ++first;
    return static_cast<char>(first);
  }

  void visit(const Place& place, const Place& from, char character) {
    if (arrivals_.try_emplace(place, Arrival{from, character}).second) open_.push_back(place);
  }

  std::string name_to(Place place) const {
    std::string name;
    while (place != Place(0, 0)) {
      const Arrival& arrival = arrivals_.at(place);
      name += arrival.character;
      place = arrival.from;
    }
    std::reverse(name.begin(), name.end());
    return name;
  }

  Pattern a_;
  Pattern b_;
  std::deque<Place> open_;
  std::map<Place, Arrival> arrivals_;
};

}  // namespace

std::optional<std::string> shared_name(const NameFormat& a, const NameFormat& b,
                                       const FormatVariables& dist) {
  return SharedWalk(pattern_of(a, dist), pattern_of(b, dist)).find();
}

}  // namespace cairn
