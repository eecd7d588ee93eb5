// TorchScript archives whose modules or code take far more memory than their size justifies.
#include "tests/format/pickle_text.h"
#include "tests/format/raw_zip.h"
#include "tests/hostile/corpus.h"

namespace cairn::testing {
namespace {

using Cases = std::vector<HostileCase>;

const std::string kCode = "class C(Module):\n  __parameters__ = [\"w\", ]\n  __buffers__ = []\n";

void add_script(Cases& cases, const std::string& name, const std::string& data, Answer answer,
                const std::string& code = kCode) {
  const RawZip zip({{.name = "x/data.pkl", .content = pickle(data), .zero_crc = true},
                    {.name = "x/data/0", .content = std::string(16, '\1'), .zero_crc = true},
                    {.name = "x/constants.pkl", .content = pickle(")"), .zero_crc = true},
                    {.name = "x/version", .content = "3\n", .zero_crc = true},
                    deflated("x/code/__torch__.py", code)});
  cases.push_back({"script " + name, {{"", zip.bytes()}}, answer});
}

// The root object, with `entries` in its dict. h0 is its class, h1 the text "w".
std::string root(const std::string& entries, const std::string& type = "C") {
  return global("__torch__", type) + "q\0"s + "0" + unicode("w") + "q\1" + "0" + "h\0)\x81}("s +
         entries + "ub";
}

const std::string kTensorText = tensor(float_storage() + "K\0K\4\x85K\1\x85"s);

}  // namespace

std::vector<HostileCase> hostile_scripts() {
  Cases cases;
  const std::string weight = "h\1" + kTensorText;
  const std::string object = "h\1h\0)\x81"s;
  add_script(cases, "as it should be", root(weight), Answer::kRead);
  add_script(cases, "class of a long name",
             root(repeated(object, 50'000), std::string(1 << 20, 'C')), Answer::kRead);
  add_script(cases, "key of a long text",
             root(unicode(std::string(1 << 20, 'k')) + "q\2" + kTensorText + "q\3" +
                  repeated("h\2h\3", 100'000)),
             Answer::kCorrupt);
  add_script(cases, "one state of many",
             root(unicode("x") + "}(" + repeated("h\1N", 100'000) + "uq\2" +
                  repeated("h\1h\0)\x81h\2b"s, 20'000)),
             Answer::kCorrupt);
  std::string diamonds = "h\0)\x81"s;
  for (int i = 0; i < 60; ++i) {
    diamonds += "q\2" + "0"s + "h\0)\x81}("s + unicode("a") + "h\2" + unicode("b") + "h\2ub";
  }
  add_script(cases, "parts of parts, twice each", root("h\1" + diamonds), Answer::kCorrupt);
  add_script(cases, "code of many names", root(weight), Answer::kUnsupported,
             "class C(Module):\n  __parameters__ = [" + repeated("\"a\",", 1 << 22) + "]\n");
  add_script(cases, "code of many classes", root(weight), Answer::kUnsupported,
             repeated("class C(Module):\n", 1 << 20));
  add_script(cases, "code of zeros", root(weight), Answer::kUnsupported,
             std::string(std::size_t{64} << 20, '\0'));
  return cases;
}

}  // namespace cairn::testing
