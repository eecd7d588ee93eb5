// Files that make a reader use far more memory or time than their size justifies: every short
// opcode that makes an object, repeated; keys that collide; parts with many references. The answer
// "unsupported" means that the reader's budget refused before the memory was taken.
#include "tests/format/pickle_text.h"
#include "tests/hostile/corpus.h"

namespace cairn::testing {
namespace {

using Cases = std::vector<HostileCase>;

constexpr std::size_t kBytes = std::size_t{4} << 20;
const std::string kNaN = "G\x7f\xf8\0\0\0\0\0\0"s;

void add(Cases& cases, const std::string& name, const std::string& body, Answer answer) {
  cases.push_back({name, {{"", "\x80\4"s + body + "."}}, answer});
}

std::string filled(const std::string& unit) { return repeated(unit, kBytes / unit.size()); }

// Lists of millions of equal items.
void add_lists(Cases& cases) {
  struct Item {
    const char* name;
    std::string code;
    Answer answer = Answer::kUnsupported;
    std::string before = {};  // put into the memo, then popped
  };
  const std::string call = "h\0)R"s;
  const std::string call_with = "h\0h\1R"s;
  const auto function = [](const std::string& named) { return named + "\x94" + "0"; };
  const auto function_and = [&](const std::string& named, const std::string& arguments) {
    return function(named) + arguments + "\x94" + "0";
  };
  const std::vector<Item> items = {
      {"nones", "N", Answer::kRead},
      {"bools", "\x88", Answer::kRead},
      {"small_ints", "K\5", Answer::kRead},
      {"floats", "G?\xe0\0\0\0\0\0\0"s, Answer::kRead},
      {"big_ints", "\x8a\x09\1\2\3\4\5\6\7\1\1", Answer::kRead},
      {"empty_tuples", ")", Answer::kRead},
      {"empty_lists", "]"},
      {"empty_dicts", "}"},
      {"empty_sets", "\x8f"},
      {"numbered_dicts", "}\x94"},
      {"numbered_nones", "N\x94", Answer::kRead},
      {"marked_tuples", "(t"},
      {"marked_lists", "(l"},
      {"marked_dicts", "(d"},
      {"frozensets", "(\x91"},
      {"lists_of_one", "]Na"},
      {"sets_of_one", "\x8f(N\x90"},
      {"dicts_of_one", "}NNs"},
      {"tuples_of_one", "N\x85"},
      {"tuples_of_two", "NN\x86"},
      {"tuples_of_three", "NNN\x87"},
      {"empty_texts", "\x8c\0"s},
      {"texts", "\x8c\1a"},
      {"texts_of_python2", "U\0"s},
      {"texts_as_lines", "S''\n"},
      {"bytes", "C\0"s},
      {"ordered_dicts", call, Answer::kUnsupported, function(global("collections", "OrderedDict"))},
      {"sets_by_call", call, Answer::kUnsupported, function(global("builtins", "set"))},
      {"bytes_by_call", call, Answer::kUnsupported, function(global("builtins", "bytes"))},
      {"globals", "cbuiltins\nbytes\n", Answer::kRead},
      {"names", "ca\nb\n", Answer::kUnsupported},
      {"placeholders", call, Answer::kUnsupported, function("ca\nb\n")},
      {"placeholders_with_state", "h\0)\x81}b"s, Answer::kUnsupported, function("ca\nb\n")},
      {"placeholders_with_items", "h\0)\x81Na"s, Answer::kUnsupported, function("ca\nb\n")},
      {"dicts_with_attributes", "}}b", Answer::kUnsupported},
      {"counters", call, Answer::kUnsupported, function(global("collections", "Counter"))},
      {"default_dicts", call_with, Answer::kUnsupported,
       function_and(global("collections", "defaultdict"), "cbuiltins\nint\n\x85")},
      {"layouts", call_with, Answer::kRead,
       function_and(global("torch.serialization", "_get_layout"),
                    unicode("torch.strided") + "\x85")},
      {"durations", call, Answer::kRead, function(global("datetime", "timedelta"))},
      {"sizes", call_with, Answer::kUnsupported,
       function_and(global("torch", "Size"), "K\1K\2K\3\x87\x85")},
      {"long_sizes", call_with, Answer::kUnsupported,
       function_and(global("torch", "Size"), "(K\1K\1K\1K\1K\1t\x85")},
      {"complex_numbers", call_with, Answer::kRead,
       function_and(global("builtins", "complex"), "K\1K\2\x86")},
      {"one_text", "h\0"s, Answer::kRead, unicode("a text of twenty...") + "\x94" + "0"},
      {"one_list", "h\0"s, Answer::kRead, "]\x94" + "0"s},
  };
  for (const Item& item : items) {
    add(cases, std::string("list_of_") + item.name, item.before + "](" + filled(item.code) + "e",
        item.answer);
  }
  add(cases, "a_chain_of_tuples", "](" + filled(")\x85") + "e", Answer::kUnsupported);
  add(cases, "stack_of_nones", filled("N"), Answer::kCorrupt);
}

// Tables in which each key would be compared with all earlier keys.
void add_tables(Cases& cases) {
  std::string multiples;
  std::string distinct;
  for (std::int64_t i = 0; i < 200'000; ++i) {
    multiples += int64(i << 44) + "N";
    distinct += int32(static_cast<std::int32_t>(i));
  }
  add(cases, "keys_multiples_of_two_to_44", "}(" + multiples + "u", Answer::kRead);
  add(cases, "keys_nan", "}(" + repeated(kNaN + "N", 400'000) + "u", Answer::kRead);
  add(cases, "keys_nan_in_tuples", "}(" + repeated(kNaN + "\x85N", 300'000) + "u", Answer::kRead);
  add(cases, "keys_nan_in_frozensets", "}(" + repeated("(" + kNaN + "\x91N", 200'000) + "u",
      Answer::kRead);
  add(cases, "keys_nan_complex",
      global("builtins", "complex") + "\x94" + "0" + kNaN + "K\1\x86\x94" + "0}(" +
          repeated("h\0h\1RN"s, 200'000) + "u",
      Answer::kRead);
  add(cases, "keys_nan_of_numpy",
      global("numpy.core.multiarray", "scalar") + "\x94" + global("numpy", "dtype") +
          unicode("f8") + "\x89\x88\x87RC\x08\0\0\0\0\0\0\xf8\x7f\x86R\x94"s + "0}(" +
          repeated("h\1N"s, 400'000) + "u",
      Answer::kRead);
  add(cases, "keys_nan_of_numpy_in_tuples",
      global("numpy.core.multiarray", "scalar") + "\x94" + global("numpy", "dtype") +
          unicode("f8") + "\x89\x88\x87RC\x08\0\0\0\0\0\0\xf8\x7f\x86R\x94"s + "0}(" +
          repeated("h\1\x85N"s, 200'000) + "u",
      Answer::kRead);
  add(cases, "one_complex_nan_as_keys",
      global("builtins", "complex") + kNaN + "K\1\x86R\x94" + "0}(" + repeated("h\0N"s, 400'000) +
          "u",
      Answer::kRead);
  add(cases, "items_nan", "\x8f(" + repeated(kNaN, 400'000) + "\x90", Answer::kRead);
  const std::string frozen = "(" + distinct + "\x91";  // equal, but two objects
  add(cases, "equal_frozensets", "}" + frozen + "Ns" + frozen + "Ns", Answer::kRead);
}

// Data that is small in the file, and large for code that lists or walks the data.
void add_repetitions(Cases& cases) {
  const std::string shared_tensor = tensor(float_storage() + "K\0K\4\x85K\1\x85"s) + "q\1"s + "0";
  const auto file = [&](const std::string& name, const std::string& body, Answer answer) {
    cases.push_back({name, {{"", torch_file_of(pickle(body))}}, answer});
  };
  file("one_tensor_a_million_times", shared_tensor + "](" + repeated("h\1"s, 2'000'000) + "e",
       Answer::kCorrupt);
  std::string doubled = shared_tensor + "]h\1aq\2"s;
  for (int i = 3; i < 25; ++i) {
    const std::string last = "h"s + static_cast<char>(i - 1);
    doubled += "](" + last + last + "eq"s + static_cast<char>(i);
  }
  file("one_tensor_doubled", "(" + doubled + "l", Answer::kCorrupt);
  std::string below_a_long_name = shared_tensor + "}" + unicode(std::string(1 << 20, 'x')) + "}(";
  for (int i = 0; i < 10'000; ++i) {
    below_a_long_name += int32(i) + "h\1"s;
  }
  file("tensors_below_a_long_name", below_a_long_name + "us", Answer::kCorrupt);
  const std::string long_name = unicode(std::string(1 << 20, 'x')) + "q\2"s + "0";
  file("placeholders_below_a_long_name",
       "ca\nb\nq\1"s + "0" + long_name + "}h\2]("s + repeated("h\1)R"s, 100'000) + "es",
       Answer::kCorrupt);
  file("numbers_below_a_long_name", long_name + "}h\2]("s + repeated("K\1"s, 1'000'000) + "es",
       Answer::kRead);
  file("lists_below_a_long_name", long_name + "("s + repeated("}h\2]s"s, 200'000) + "l",
       Answer::kCorrupt);
  file("placeholders_of_a_long_class",
       "ca\n"s + std::string(1 << 20, 'b') + "\nq\1"s + "0(" + repeated("h\1)R"s, 50'000) + "l",
       Answer::kCorrupt);
  file("an_int_of_a_megabyte",
       "\x8b"s + std::string("\0\0\x10\0", 4) + std::string(1 << 20, '\x11'), Answer::kRead);
}

}  // namespace

std::vector<HostileCase> hostile_memory() {
  Cases cases;
  add_lists(cases);
  add_tables(cases);
  add_repetitions(cases);
  return cases;
}

}  // namespace cairn::testing
