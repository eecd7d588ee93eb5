// The completion script for zsh, to be put into a folder of fpath or sourced.
#include <fmt/format.h>

#include "cli/manual/completion_scripts.h"

namespace cairn::cli {
namespace {

// Escapes text for single quotes in a specification of _arguments.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\'') {
      result += "'\\''";
    } else {
      if (c == '[' || c == ']' || c == ':' || c == '\\') result += '\\';
      result += c;
    }
  }
  return result;
}

std::string zsh_action(const OptionInfo& option) {
  std::string choices;
  for (const std::string& choice : option.choices) {
    choices += (choices.empty() ? "" : " ") + choice;
  }
  if (!choices.empty()) return "(" + choices + ")";
  switch (option.completes) {
    case CompletionKind::kFiles:
      return "_files";
    case CompletionKind::kFolders:
      return "_files -/";
    default:
      return " ";
  }
}

// One specification for each name: '(-q --quiet)--quiet[no progress bars]'.
std::string option_specs(const std::vector<OptionInfo>& options, const std::string& indent) {
  std::string text;
  for (const OptionInfo& option : options) {
    std::string all;
    for (const std::string& name : option.names) {
      all += (all.empty() ? "" : " ") + name;
    }
    for (const std::string& name : option.names) {
      text += fmt::format("{}'{}{}[{}]", indent, option.is_repeated ? "*" : "(" + all + ")", name,
                          escaped(option.description));
      if (!option.value.empty()) {
        text += fmt::format(":{}:{}", escaped(option.value), zsh_action(option));
      }
      text += "' \\\n";
    }
  }
  return text;
}

std::string positional_specs(const CommandInfo& command, const std::string& indent) {
  std::string text;
  int number = 1;
  for (const OptionInfo& positional : command.positionals) {
    const std::string place = positional.is_repeated ? "*" : std::to_string(number++);
    text += fmt::format("{}'{}:{}:{}' \\\n", indent, place, escaped(positional.names.front()),
                        zsh_action(positional));
  }
  return text;
}

std::string without_last_backslash(const std::string& text) {
  return text.substr(0, text.rfind(" \\\n")) + "\n";
}

}  // namespace

std::string zsh_completion(const CommandInfo& tool) {
  std::string script =
      "#compdef cairn\n# zsh completion of cairn, written by `cairn completion zsh`\n";
  script += "_cairn() {\n  local curcontext=\"$curcontext\" state line\n  typeset -A opt_args\n";
  script += "  local -a commands\n  commands=(\n";
  for (const CommandInfo& command : tool.commands) {
    script += fmt::format("    '{}:{}'\n", command.name, escaped(command.summary));
  }
  script += "  )\n  _arguments -C \\\n" + option_specs(tool.options, "    ");
  script += "    '1:command:->command' \\\n    '*::argument:->argument'\n";
  script += "  case $state in\n  command) _describe -t commands command commands ;;\n";
  script += "  argument)\n    case $line[1] in\n";
  for (const CommandInfo& command : tool.commands) {
    const std::string specs = option_specs(command.options, "        ") +
                              option_specs(tool.options, "        ") +
                              positional_specs(command, "        ");
    script += fmt::format("    {})\n      _arguments \\\n{}      ;;\n", command.name,
                          without_last_backslash(specs));
  }
  script += "    esac\n    ;;\n  esac\n}\n";
  // If zsh autoloads the file, the file is the body of the function. If the file is sourced, it
  // defines the function.
  return script +
         "if [ \"$funcstack[1]\" = \"_cairn\" ]; then _cairn \"$@\"; else compdef _cairn cairn; "
         "fi\n";
}

}  // namespace cairn::cli
