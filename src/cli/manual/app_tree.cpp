#include "cli/manual/app_tree.h"

#include <sstream>

namespace cairn::cli {
namespace {

// The choices in CLI11's description of a type. CLI11 appends a check to the type's name:
// "TEXT:{auto,always,never}".
std::vector<std::string> choices_in(const std::string& type) {
  const std::size_t begin = type.find('{');
  const std::size_t end = type.rfind('}');
  std::vector<std::string> choices;
  if (begin == std::string::npos || end == std::string::npos || end < begin) return choices;
  std::istringstream list(type.substr(begin + 1, end - begin - 1));
  for (std::string choice; std::getline(list, choice, ',');) {
    choices.push_back(choice);
  }
  return choices;
}

// Returns "METRIC[:N]" unchanged, and only the part before the check of "TEXT:{...}".
std::string value_name(const std::string& type) {
  const std::size_t check = type.find(":{");
  const std::string name = type.substr(0, check);
  return name.empty() ? "VALUE" : name;
}

CompletionKind completes(const std::string& name, bool is_positional) {
  if (name.find("FOLDER") != std::string::npos) return CompletionKind::kFolders;
  const bool is_file =
      name.find("PATH") != std::string::npos || name.find("FILE") != std::string::npos;
  return is_file || is_positional ? CompletionKind::kFiles : CompletionKind::kNothing;
}

OptionInfo describe_option(const CLI::Option& option) {
  OptionInfo info{
      .choices = choices_in(option.get_type_name()),
      .description = option.get_description(),
      .is_required = option.get_required(),
      .is_repeated = option.get_items_expected_max() > 1 ||
                     option.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll};
  const bool is_flag = option.get_items_expected_max() == 0;
  if (option.get_positional()) {
    info.names = {option.get_name(/*positional=*/true)};
  } else {
    for (const std::string& name : option.get_snames()) {
      info.names.push_back("-" + name);
    }
    for (const std::string& name : option.get_lnames()) {
      info.names.push_back("--" + name);
    }
    if (!is_flag) info.value = value_name(option.get_type_name());
  }
  if (is_flag) info.is_repeated = false;
  if (!is_flag && info.choices.empty()) {
    info.completes = completes(option.get_positional() ? info.names.front() : info.value,
                               option.get_positional());
  }
  return info;
}

}  // namespace

CommandInfo describe_app(const CLI::App& app) {
  CommandInfo info{
      .name = app.get_name(), .summary = app.get_description(), .explanation = app.get_footer()};
  for (const CLI::Option* option : app.get_options()) {
    (option->get_positional() ? info.positionals : info.options)
        .push_back(describe_option(*option));
  }
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    info.commands.push_back(describe_app(*command));
  }
  return info;
}

CommandInfo describe_tool(const CLI::App& command) {
  const CLI::App* root = &command;
  while (root->get_parent() != nullptr) {
    root = root->get_parent();
  }
  return describe_app(*root);
}

}  // namespace cairn::cli
