// cairn dump: prints the whole object as JSON, tensors by the SHA-256 of their elements.
#include <memory>
#include <string>

#include "cli/shell/command.h"
#include "cli/shell/reading.h"
#include "cli/view/content/write_description.h"

namespace cairn::cli {

Run define_dump(CLI::App& app) {
  const auto path = std::make_shared<std::string>();
  const auto reading = std::make_shared<Reading>();
  app.add_option("PATH", *path, "a checkpoint of any format")->required();
  add_raw(app, *reading);
  add_force(app, *reading);
  app.footer("docs/formats/dump.md describes the form.");
  return [path, reading](Console& console) {
    const auto source = open_to_read(*path, *reading, console);
    const Value value = source->read();
    check_work(value, *source, *path, *reading);
    write_description(value, console.out);
    console.out << "\n";
    return kDone;
  };
}

}  // namespace cairn::cli
