// The completion script for bash. It needs only bash 4.
#include <fmt/format.h>

#include <algorithm>

#include "cli/manual/completion_scripts.h"
#include "cli/view/joined.h"

namespace cairn::cli {
namespace {

std::vector<std::string> names_of(const std::vector<OptionInfo>& options) {
  std::vector<std::string> names;
  for (const OptionInfo& option : options) {
    names.insert(names.end(), option.names.begin(), option.names.end());
  }
  return names;
}

// The action that completes a value of this option or positional.
std::string bash_action(const OptionInfo& option) {
  if (!option.choices.empty()) return fmt::format("_cairn_words '{}'", joined(option.choices, " "));
  switch (option.completes) {
    case CompletionKind::kFiles:
      return "_cairn_paths -f";
    case CompletionKind::kFolders:
      return "_cairn_paths -d";
    default:
      return ":";
  }
}

// A case "ls:--color) ... ;;" for each option that takes a value. `command` is "*" for options that
// every command has.
std::string value_cases(const std::string& command, const std::vector<OptionInfo>& options) {
  std::string text;
  for (const OptionInfo& option : options) {
    if (option.value.empty()) continue;
    std::vector<std::string> patterns;
    for (const std::string& name : option.names) {
      patterns.push_back(fmt::format("{}:{}", command, name));
    }
    text += fmt::format("    {}) {}; return ;;\n", joined(patterns, " | "), bash_action(option));
  }
  return text;
}

std::string option_cases(const CommandInfo& tool) {
  std::string text =
      fmt::format("      '') _cairn_words '{}' ;;\n", joined(names_of(tool.options), " "));
  for (const CommandInfo& command : tool.commands) {
    std::vector<std::string> names = names_of(command.options);
    for (const std::string& name : names_of(tool.options)) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
    text += fmt::format("      {}) _cairn_words '{}' ;;\n", command.name, joined(names, " "));
  }
  return text;
}

std::string positional_cases(const CommandInfo& tool) {
  std::vector<std::string> commands;
  std::string text;
  for (const CommandInfo& command : tool.commands) {
    commands.push_back(command.name);
    if (!command.positionals.empty()) {
      text +=
          fmt::format("    {}) {} ;;\n", command.name, bash_action(command.positionals.front()));
    }
  }
  return fmt::format("    '') _cairn_words '{}' ;;\n", joined(commands, " ")) + text;
}

constexpr const char* kFunctions = R"(# bash completion of cairn, written by `cairn completion bash`
_cairn_words() { mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur"); }
_cairn_paths() {
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen "$1" -- "$cur")
}
_cairn() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command= i
  COMPREPLY=()
  # --color=au comes as three words.
  if [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD - 2]}; fi
  if [[ $cur == = ]]; then cur=; fi
)";

}  // namespace

std::string bash_completion(const CommandInfo& tool) {
  std::vector<std::string> commands;
  std::string values = value_cases("*", tool.options);
  for (const CommandInfo& command : tool.commands) {
    commands.push_back(command.name);
    values += value_cases(command.name, command.options);
  }
  std::string script = kFunctions;
  script += "  for ((i = 1; i < COMP_CWORD; i++)); do\n";
  script += fmt::format("    case ${{COMP_WORDS[i]}} in {}) command=${{COMP_WORDS[i]}} ;; esac\n",
                        joined(commands, " | "));
  script += "    if [[ $command ]]; then break; fi\n  done\n";
  script += "  case $command:$prev in\n" + values + "  esac\n";
  script += "  if [[ $cur == -* ]]; then\n    case $command in\n" + option_cases(tool);
  script += "    esac\n    return\n  fi\n";
  script += "  case $command in\n" + positional_cases(tool) + "  esac\n}\n";
  return script + "complete -F _cairn cairn\n";
}

}  // namespace cairn::cli
