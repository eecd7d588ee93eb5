// The completion script for fish: one line for each option.
#include <fmt/format.h>

#include "cli/manual/completion_scripts.h"

namespace cairn::cli {
namespace {

std::string in_quotes(const std::string& text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') result += '\\';
    result += c;
  }
  return result + "'";
}

// The fish arguments for a value or a positional: "-x -a 'auto always'", "-r -F", ...
std::string arguments(const OptionInfo& option) {
  std::string choices;
  for (const std::string& choice : option.choices) {
    choices += (choices.empty() ? "" : " ") + choice;
  }
  if (!choices.empty()) return " -x -a " + in_quotes(choices);
  switch (option.completes) {
    case CompletionKind::kFiles:
      return " -r -F";
    case CompletionKind::kFolders:
      return " -x -a '(__fish_complete_directories)'";
    default:
      return option.value.empty() ? "" : " -x";
  }
}

std::string option_lines(const std::vector<OptionInfo>& options, const std::string& condition) {
  std::string text;
  for (const OptionInfo& option : options) {
    text += "complete -c cairn" + condition;
    for (const std::string& name : option.names) {
      text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    }
    text += arguments(option) + " -d " + in_quotes(option.description) + "\n";
  }
  return text;
}

}  // namespace

std::string fish_completion(const CommandInfo& tool) {
  std::string script =
      "# fish completion of cairn, written by `cairn completion fish`\ncomplete -c cairn -f\n";
  script += option_lines(tool.options, "");
  for (const CommandInfo& command : tool.commands) {
    script += fmt::format("complete -c cairn -n __fish_use_subcommand -a {} -d {}\n", command.name,
                          in_quotes(command.summary));
  }
  for (const CommandInfo& command : tool.commands) {
    const std::string condition = " -n " + in_quotes("__fish_seen_subcommand_from " + command.name);
    script += option_lines(command.options, condition);
    for (const OptionInfo& positional : command.positionals) {
      script += "complete -c cairn" + condition + arguments(positional) + "\n";
    }
  }
  return script;
}

}  // namespace cairn::cli
