// safetensors files whose header lies: every field of an entry with wrong values of every kind,
// holes and overlaps, and JSON made to exhaust its parser.
#include <array>

#include "tests/format/safetensors_text.h"
#include "tests/hostile/corpus.h"

namespace cairn::testing {
namespace {

using namespace std::string_literals;
using Cases = std::vector<HostileCase>;

void add_safetensors(Cases& cases, const std::string& name, const std::string& bytes,
                     Answer answer = Answer::kCorrupt) {
  cases.push_back({name, {{"", bytes}}, answer});
}

std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return safetensors_file("{" + safetensors_entry("w", dtype, shape, offsets) + "}", "datadata");
}

// Values that are not lists of numbers, or numbers that no file can have.
constexpr std::array kBadLists = {
    "null",
    "1",
    "\"[1]\"",
    "{}",
    "true",
    "[null]",
    "[\"1\"]",
    "[1.5]",
    "[1e0]",
    "[-1]",
    "[[1]]",
    "[{}]",
    "[true]",
    "[18446744073709551616]",
    "[99999999999999999999999999]",
    "[4294967296,4294967296]",
    "[4294967296,4294967296,4294967296]",
    "[9223372036854775807,3]",
    "[18446744073709551615]",
    "[0,4294967296,4294967296,4294967296,1e5]",
};

void add_bad_entries(Cases& cases) {
  int number = 0;
  for (const char* list : kBadLists) {
    add_safetensors(cases, "shape_" + std::to_string(number), one("U8", list, "[0,8]"));
    add_safetensors(cases, "offsets_" + std::to_string(number), one("U8", "[8]", list));
    ++number;
  }
  for (const char* offsets :
       {"[0]", "[]", "[0,8,16]", "[8,0]", "[1,8]", "[0,7]", "[0,9]", "[0,4]", "[4,8]",
        "[0,18446744073709551615]", "[18446744073709551608,18446744073709551615]",
        "[9223372036854775800,9223372036854775808]", "[-8,0]", "[0,8.0]"}) {
    add_safetensors(cases, "range_" + std::string(offsets), one("U8", "[8]", offsets));
  }
  for (const char* dtype : {"", "u8", "F33", "FLOAT", "I128", "BOOL ", "\\u0000", "C256"}) {
    add_safetensors(cases, "dtype_" + std::string(dtype), one(dtype, "[8]", "[0,8]"),
                    Answer::kUnsupported);
  }
  for (const char* dtype : {"F32", "F64", "I16", "BF16", "C64"}) {
    add_safetensors(cases, "too_short_for_" + std::string(dtype), one(dtype, "[8]", "[0,8]"));
  }
  for (const char* missing : {R"({"w":{"shape":[8],"data_offsets":[0,8]}})",
                              R"({"w":{"dtype":"U8","data_offsets":[0,8]}})",
                              R"({"w":{"dtype":"U8","shape":[8]}})", R"({"w":{}})", R"({"w":[]})",
                              R"({"w":null})", R"({"w":"x"})", R"({"w":8})", R"({"w":true})"}) {
    add_safetensors(cases, "entry_" + std::string(missing), safetensors_file(missing, "datadata"));
  }
}

// Two tensors, one of which starts at a wrong place.
void add_bad_layouts(Cases& cases) {
  const auto two = [](const std::string& first, const std::string& second) {
    return safetensors_file("{" + safetensors_entry("a", "U8", "[4]", first) + "," +
                                safetensors_entry("b", "U8", "[4]", second) + "}",
                            "datadata");
  };
  for (int at = 0; at <= 8; ++at) {
    const std::string place = "[" + std::to_string(at) + "," + std::to_string(at + 4) + "]";
    if (at != 4) add_safetensors(cases, "second_at_" + std::to_string(at), two("[0,4]", place));
    if (at != 0) add_safetensors(cases, "first_at_" + std::to_string(at), two(place, "[4,8]"));
  }
  for (const std::size_t more : {1U, 8U, 4096U}) {
    add_safetensors(cases, "trailing_" + std::to_string(more),
                    two("[0,4]", "[4,8]") + std::string(more, 'x'));
  }
  for (std::size_t less = 1; less <= 8; ++less) {
    const std::string whole = two("[0,4]", "[4,8]");
    add_safetensors(cases, "without_the_last_" + std::to_string(less),
                    whole.substr(0, whole.size() - less));
  }
}

void add_bad_headers(Cases& cases) {
  const std::string sound = one("U8", "[8]", "[0,8]");
  for (const std::uint64_t size :
       {std::uint64_t{1}, std::uint64_t{5}, std::uint64_t{1'000}, std::uint64_t{99'999'999},
        std::uint64_t{100'000'001}, std::uint64_t{1} << 32, std::uint64_t{1} << 62,
        ~std::uint64_t{0} - 7, ~std::uint64_t{0}}) {
    std::string bytes;
    append_little_endian(bytes, size);
    add_safetensors(cases, "header_of_" + std::to_string(size), bytes + sound.substr(8));
  }
  int number = 0;
  for (const std::string& json : {"{"s,
                                  "{\"w\""s,
                                  "{\"w\":"s,
                                  "{\"w\":{"s,
                                  "{,}"s,
                                  "{\"w\":{},}"s,
                                  "{w:1}"s,
                                  "{'w':1}"s,
                                  "{\"w\":01}"s,
                                  "{\"w\":+1}"s,
                                  "{\"w\":.5}"s,
                                  "{\"w\":NaN}"s,
                                  "{\"w\":1}}"s,
                                  "{}{}"s,
                                  "{}x"s,
                                  "{} \0"s,
                                  "[]"s,
                                  "1"s,
                                  "null"s,
                                  "\"x\""s,
                                  "{\"\\ud800\":{}}"s,
                                  "{\"\\x\":1}"s,
                                  "{\"a\nb\":{}}"s,
                                  "\xef\xbb\xbf{}"s,
                                  "{\"\xc0\x80\":{}}"s,
                                  "{\"__metadata__\":{\"a\":1}}"s,
                                  "{\"__metadata__\":[]}"s,
                                  "{\"__metadata__\":\"x\"}"s,
                                  "{\"__metadata__\":{\"a\":{}}}"s}) {
    add_safetensors(cases, "json_" + std::to_string(number++), safetensors_file(json));
  }
  for (const std::size_t depth : {100U, 10'000U, 1'000'000U}) {
    for (const char* bracket : {"[", "{\"a\":"}) {
      std::string nested;
      for (std::size_t i = 0; i < depth; ++i) {
        nested += bracket;
      }
      add_safetensors(cases, "nested_" + std::to_string(depth) + bracket,
                      safetensors_file("{\"w\":" + nested));
    }
  }
  add_safetensors(cases, "name_twice",
                  safetensors_file("{" + safetensors_entry("w", "U8", "[8]", "[0,8]") + "," +
                                       safetensors_entry("w", "U8", "[8]", "[0,8]") + "}",
                                   "datadata"));
  std::string many = "{";
  for (int i = 0; i < 20'000; ++i) {
    many += safetensors_entry("w" + std::to_string(i), "U8", "[0]", "[0,0]") + ",";
  }
  many.back() = '}';
  add_safetensors(cases, "many_empty_tensors", safetensors_file(many), Answer::kRead);
}

}  // namespace

std::vector<HostileCase> hostile_safetensors() {
  Cases cases;
  add_bad_entries(cases);
  add_bad_layouts(cases);
  add_bad_headers(cases);
  return cases;
}

}  // namespace cairn::testing
