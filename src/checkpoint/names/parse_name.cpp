// Parses names: the inverse of formatting.
//
// 1. The format becomes a list of segments: fixed text (literals, dist variables with their value)
//    and time variables with their format spec.
// 2. Segments are matched from the left. A time variable tries the longest piece of the name first.
//    A piece fits if it reads as a number that the spec writes as exactly this piece. So every spec
//    that can be written can be read, without a second description of it.
// 3. Once a variable was read, it counts as fixed text where it appears again.
//
// kMaxSteps bounds the work for any name.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "cairn/checkpoint/names.h"

#include "checkpoint/names/format_spec.h"
#include "checkpoint/names/format_string.h"

namespace cairn {
namespace {

constexpr int kMaxSteps = 20'000;  // the most pieces that are tried; real names need a few hundred

struct Segment {
  std::string text;  // fixed text, or the name of a time variable
  bool is_variable = false;
  bool is_int = false;  // the variable's kind
  FormatSpec spec = {};
  std::size_t longest = 0;  // the most characters that the variable can have
};

// The most characters that a number can have: 64 binary digits, or a float's 309, with separators.
std::size_t longest_text(const FormatSpec& spec) {
  const bool is_float =
      spec.type != '\0' && std::string_view("dboxX").find(spec.type) == std::string_view::npos;
  const std::size_t digits = is_float ? 420 : 100;
  return std::max(digits + static_cast<std::size_t>(spec.precision.value_or(6)),
                  spec.width * spec.fill.size());
}

std::vector<Segment> segments_of(const NameFormat& format, const FormatVariables& dist) {
  const FormatVariables times = time_variables({});
  std::vector<Segment> segments;
  for (const FormatPiece& piece : split_format(format)) {
    const FormatValue* fixed = piece.is_field ? find_variable(dist, piece.name) : nullptr;
    const FormatValue* time = piece.is_field ? find_variable(times, piece.name) : nullptr;
    if (fixed != nullptr) {
      segments.push_back({.text = format_field(piece, *fixed)});
    } else if (time != nullptr) {
      format_field(piece, *time);  // refuses a spec that does not fit
      const FormatSpec spec = parse_format_spec(piece.spec);
      segments.push_back({.text = piece.name,
                          .is_variable = true,
                          .is_int = std::holds_alternative<std::int64_t>(*time),
                          .spec = spec,
                          .longest = longest_text(spec)});
    } else {
      segments.push_back({.text = piece.text});
    }
  }
  return segments;
}

void erase_all(std::string& text, const std::string& what) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at)) {
    text.erase(at, what.size());
  }
}

// The number without fill, separators, "+" and "0x".
std::string bare_number(std::string text, const FormatSpec& spec) {
  const bool fill_is_digit = spec.fill.size() == 1 && spec.fill[0] >= '0' && spec.fill[0] <= '9';
  if (!fill_is_digit) erase_all(text, spec.fill);
  if (spec.grouping != '\0') erase_all(text, std::string(1, spec.grouping));
  erase_all(text, " ");
  if (text.starts_with('+')) text.erase(0, 1);
  if (spec.alternate) erase_all(text, {'0', spec.type});
  return text;
}

template <class T, class... Format>
std::optional<T> read(const std::string& text, Format... format) {
  T number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number, format...);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

std::optional<double> read_float(std::string text, char type) {
  if (type != '%') return read<double>(text);
  if (!text.ends_with('%')) return std::nullopt;
  text.pop_back();
  const auto percent = read<double>(text);
  if (!percent) return std::nullopt;
  return *percent / 100;
}

std::optional<std::int64_t> read_int(const std::string& text, char type) {
  if (type == 'b') return read<std::int64_t>(text, 2);
  if (type == 'o') return read<std::int64_t>(text, 8);
  if (type == 'x' || type == 'X') return read<std::int64_t>(text, 16);
  if (type == '\0' || type == 'd') return read<std::int64_t>(text, 10);
  const auto number = read_float(text, type);
  if (!number || !(std::fabs(*number) < 9e18)) return std::nullopt;
  return std::llround(*number);
}

// The value that the segment writes as `text`; nullopt if there is none.
std::optional<FormatValue> invert(const Segment& segment, const std::string& text) {
  const std::string bare = bare_number(text, segment.spec);
  std::optional<FormatValue> value;
  if (segment.is_int) {
    value = read_int(bare, segment.spec.type);
  } else {
    value = read_float(bare, segment.spec.type);
  }
  if (!value || format_value(*value, segment.spec) != text) return std::nullopt;
  return value;
}

class NameMatcher {
 public:
  explicit NameMatcher(std::vector<Segment> segments) : segments_(std::move(segments)) {}

  const FormatVariables& found() const { return found_; }

  // Matches the segments from index `at` on against the whole of `rest`.
  bool match(std::string_view rest, std::size_t at = 0) {
    if (at == segments_.size()) return rest.empty();
    const Segment& segment = segments_[at];
    if (!segment.is_variable) return match_fixed(segment.text, rest, at);
    if (const FormatValue* value = find_variable(found_, segment.text)) {
      return match_fixed(format_value(*value, segment.spec), rest, at);
    }
    for (std::size_t size = std::min(rest.size(), segment.longest); size > 0; --size) {
      if (++steps_ > kMaxSteps) return false;
      const auto value = invert(segment, std::string(rest.substr(0, size)));
      if (!value) continue;
      found_.emplace_back(segment.text, *value);
      if (match(rest.substr(size), at + 1)) return true;
      found_.pop_back();
    }
    return false;
  }

 private:
  bool match_fixed(const std::string& text, std::string_view rest, std::size_t at) {
    return rest.starts_with(text) && match(rest.substr(text.size()), at + 1);
  }

  std::vector<Segment> segments_;
  FormatVariables found_;
  int steps_ = 0;
};

}  // namespace

std::optional<std::vector<std::pair<std::string, std::int64_t>>> parse_name(
    const NameFormat& format, const std::string& name, const FormatVariables& dist) {
  NameMatcher matcher(segments_of(format, dist));
  if (!matcher.match(name)) return std::nullopt;
  std::vector<std::pair<std::string, std::int64_t>> counters;
  for (const auto& [variable, value] : matcher.found()) {
    if (const auto* count = std::get_if<std::int64_t>(&value))
      counters.emplace_back(variable, *count);
  }
  return counters;
}

}  // namespace cairn
