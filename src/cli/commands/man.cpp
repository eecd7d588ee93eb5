// cairn man [COMMAND]: prints a man page. The build installs this output.
#include <memory>
#include <string>

#include "cairn/error.h"
#include "cairn/exit_code.h"

#include "cli/manual/manual_pages.h"
#include "cli/shell/command.h"
#include "core/text/json.h"

namespace cairn::cli {

Run define_man(CLI::App& app) {
  const auto command = std::make_shared<std::string>();
  app.add_option("COMMAND", *command, "the page of this command; without it, the page of the tool")
      ->check([](const std::string& name) {
        for (const Command& known : commands()) {
          if (name == known.name) return std::string();
        }
        return "there is no command " + name;
      });
  app.footer(
      "Prints roff: cairn man ls | man -l - shows it. With --json, an object of all pages by their "
      "file names, or of the one that was asked for.");
  return [command, &app](Console& console) {
    const auto pages = manual_pages(describe_tool(app));
    const std::string name = command->empty() ? "cairn.1" : "cairn-" + *command + ".1";
    if (!console.json) {
      console.out << pages.at(name);
    } else if (command->empty()) {
      console.print_json({{"pages", pages}});
    } else {
      console.print_json({{"pages", {{name, pages.at(name)}}}});
    }
    return kDone;
  };
}

}  // namespace cairn::cli
