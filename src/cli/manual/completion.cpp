// cairn completion SHELL: prints the script that completes cairn's command line in that shell.
#include <memory>
#include <string>

#include "cairn/exit_code.h"

#include "cli/manual/completion_scripts.h"
#include "cli/shell/command.h"
#include "core/text/json.h"

namespace cairn::cli {

Run define_completion(CLI::App& app) {
  const auto shell = std::make_shared<std::string>();
  app.add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  app.footer(
      "Installed packages bring the scripts along. By hand: source <(cairn completion bash) in "
      "~/.bashrc, source <(cairn completion zsh) in ~/.zshrc after compinit, cairn completion "
      "fish > ~/.config/fish/completions/cairn.fish.");
  return [shell, &app](Console& console) {
    const CommandInfo tool = describe_tool(app);
    const std::string script = *shell == "bash"  ? bash_completion(tool)
                               : *shell == "zsh" ? zsh_completion(tool)
                                                 : fish_completion(tool);
    if (console.json) {
      console.print_json({{"shell", *shell}, {"script", script}});
    } else {
      console.out << script;
    }
    return kDone;
  };
}

}  // namespace cairn::cli
