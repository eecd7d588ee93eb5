// cairn dump: the whole object as JSON, tensors by the SHA-256 of their elements.
#include <memory>
#include <string>

#include "checkpoint/open/source.h"
#include "cli/shell/command.h"
#include "cli/view/write_description.h"

namespace cairn::cli {

Run define_dump(CLI::App& app) {
  const auto path = std::make_shared<std::string>();
  app.add_option("PATH", *path, "a checkpoint of any format")->required();
  app.footer("docs/formats/dump.md describes the form.");
  return [path](Console& console) {
    write_description(open_source(*path)->read(), console.out);
    console.out << "\n";
    return kDone;
  };
}

}  // namespace cairn::cli
