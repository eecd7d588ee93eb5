// cairn dump: the whole object as JSON, tensors by the SHA-256 of their elements.
#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "checkpoint/source.h"
#include "cli/command.h"
#include "cli/describe_value.h"

namespace cairn::cli {

Run define_dump(CLI::App& app) {
  const auto path = std::make_shared<std::string>();
  app.add_option("PATH", *path, "a checkpoint of any format")->required();
  return [path](Console& console) {
    console.out << describe_value(open_source(*path)->read()).dump(1) << "\n";
    return kDone;
  };
}

}  // namespace cairn::cli
