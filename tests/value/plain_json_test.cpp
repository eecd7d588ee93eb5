#include "value/plain_json.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/text/json.h"

namespace cairn {
namespace {

using json = Json;

Value everything_json_has() {
  return Dict{{"none", None{}},
              {"flag", true},
              {"count", std::int64_t{1} << 60},
              {"rate", 0.25},
              {"name", "fp32"},
              {"betas", Tuple{{0.9, 0.95}}},
              {"nested", Dict{{2, List{{1, "two"}}}}}};
}

TEST(PlainJsonTest, IsTheSameForWhatJsonHas) {
  const json expected = {
      {"none", nullptr}, {"flag", true},         {"count", std::int64_t{1} << 60}, {"rate", 0.25},
      {"name", "fp32"},  {"betas", {0.9, 0.95}}, {"nested", {{"2", {1, "two"}}}}};
  EXPECT_EQ(plain_json(everything_json_has()), expected);
  EXPECT_EQ(plain_json(everything_json_has(), NoJson::kNull), expected);
}

TEST(PlainJsonTest, DescribesWhatJsonHasNotOrGivesNull) {
  const Value value = List{{NAN, -INFINITY, std::complex<double>(1, 2), TimeDelta{.seconds = 90},
                            Size{{2, 3}}, Bytes{"abc"}}};
  EXPECT_EQ(plain_json(value), json::parse(R"(["nan","-inf",[1.0,2.0],90.0,[2,3],{"bytes":3}])"));
  EXPECT_EQ(plain_json(value, NoJson::kNull), json::parse("[null,null,null,null,null,null]"));
}

}  // namespace
}  // namespace cairn
