// `cairn dump` of every golden file gives the description that lies beside the file.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>

#include <nlohmann/json.hpp>

#include "cli/shell/tool.h"
#include "testing/temp_folder.h"
#include "testing/test_data.h"

namespace cairn::cli {
namespace {

using testing::kData;

using nlohmann::json;

const std::string kContainers = "composer-0.33/containers/ck";

// Each golden file or folder, and its description, below kData.
std::map<std::string, std::string> described_files() {
  namespace fs = std::filesystem;
  std::map<std::string, std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(kData)) {
    const std::string path = entry.path().string().substr(kData.size() + 1);
    const std::string described =
        path.substr(0, path.size() - std::min<std::size_t>(5, path.size()));
    if (path.starts_with(kContainers)) {
      if (!path.ends_with(".json")) found.emplace(path, kContainers + ".json");
    } else if (path.ends_with(".json") && fs::exists(kData + "/" + described)) {
      found.emplace(described, path);
    }
  }
  return found;
}

class DumpTest : public ::testing::TestWithParam<std::pair<const std::string, std::string>> {};

TEST_P(DumpTest, IsTheDescription) {
  const auto& [path, description] = GetParam();
  std::ostringstream out;
  std::ostringstream err;
  ASSERT_EQ(run_tool({"dump", kData + "/" + path}, out, err), 0) << err.str();
  json dumped = json::parse(out.str());
  json expected = json::parse(testing::read_file(kData + "/" + description));
  if (path.ends_with(".safetensors")) {  // the order of keys in this format has no meaning
    for (json* tree : {&dumped, &expected}) {
      std::sort((*tree)["items"].begin(), (*tree)["items"].end());
    }
  }
  EXPECT_EQ(dumped, expected);
  EXPECT_EQ(err.str(), "");
}

std::string test_name(const ::testing::TestParamInfo<DumpTest::ParamType>& info) {
  std::string name = info.param.first;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(GoldenFiles, DumpTest, ::testing::ValuesIn(described_files()), test_name);

}  // namespace
}  // namespace cairn::cli
