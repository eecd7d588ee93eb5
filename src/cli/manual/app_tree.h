// What CLI11 was told about the tool, as data: what completions and man pages are written from.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace cairn::cli {

enum class Completes : std::uint8_t { kNothing, kFiles, kFolders };

struct OptionInfo {
  std::vector<std::string> names = {};  // "-q", "--quiet"; "FOLDER" of a positional
  std::string value = {};               // "N", "INTERVAL"; empty for a flag and a positional
  std::vector<std::string> choices = {};
  Completes completes = Completes::kNothing;
  std::string description = {};
  bool is_required = false;
  bool is_repeated = false;
};

struct CommandInfo {
  std::string name = {};         // "ls"; "cairn" of the tool itself
  std::string summary = {};      // one line
  std::string explanation = {};  // the footer of its help
  std::vector<OptionInfo> options = {};
  std::vector<OptionInfo> positionals = {};
  std::vector<CommandInfo> commands = {};
};

CommandInfo describe_app(const CLI::App& app);

// The tool itself, from one of its commands.
CommandInfo describe_tool(const CLI::App& command);

}  // namespace cairn::cli
