// Describes the tool's command line as data, read from the CLI11 objects that declare it.
// Completions and man pages are made from this description.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace cairn::cli {

enum class CompletionKind : std::uint8_t { kNothing, kFiles, kFolders };

struct OptionInfo {
  std::vector<std::string> names = {};  // "-q", "--quiet"; "FOLDER" for a positional
  std::string value = {};               // "N", "INTERVAL"; empty for a flag or a positional
  std::vector<std::string> choices = {};
  CompletionKind completes = CompletionKind::kNothing;
  std::string description = {};
  bool is_required = false;
  bool is_repeated = false;
};

struct CommandInfo {
  std::string name = {};         // "ls"; "cairn" for the tool itself
  std::string summary = {};      // one line
  std::string explanation = {};  // the footer of its help
  std::vector<OptionInfo> options = {};
  std::vector<OptionInfo> positionals = {};
  std::vector<CommandInfo> commands = {};
};

CommandInfo describe_app(const CLI::App& app);

// Describes the whole tool, starting from one of its commands.
CommandInfo describe_tool(const CLI::App& command);

}  // namespace cairn::cli
