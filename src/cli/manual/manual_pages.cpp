#include "cli/manual/manual_pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "cairn/exit_code.h"

#include "cli/view/joined.h"
#include "core/text/utf8.h"

namespace cairn::cli {
namespace {

constexpr std::array<std::pair<ExitCode, const char*>, 10> kExitCodes = {{
    {kDone, "done"},
    {kNegativeAnswer, "a negative answer: files differ, or are damaged"},
    {kFailed, "wrong usage, or the request could not be done"},
    {kNotFound, "not found"},
    {kDamaged, "damaged: the bytes are not what their format says"},
    {kIncompatible, "valid, but of a kind or with a content that cairn does not read"},
    {kDenied, "not permitted"},
    {kStorage, "a disk or a store does not answer, or fails: try again later"},
    {kNoSpace, "no space left"},
    {kBusy, "another process is at work there"},
}};

// Escapes text so that roff shows the text unchanged. A line of the text may begin with any
// character.
std::string roff(const std::string& text) {
  std::string result;
  for (const char32_t c : code_points(text)) {
    switch (c) {
      case '\\':
        result += "\\e";
        break;
      case '-':
        result += "\\-";
        break;
      case '~':
        result += "\\(ti";
        break;
      case '^':
        result += "\\(ha";
        break;
      case '`':
        result += "\\(ga";
        break;
      case '\'':
        result += "\\(aq";
        break;
      default:
        if (c < 128) {
          result += static_cast<char>(c);
        } else {
          result += fmt::format("\\[u{:04X}]", static_cast<std::uint32_t>(c));
        }
    }
  }
  return result.starts_with('.') ? "\\&" + result : result;
}

std::string bold(const std::string& text) { return "\\fB" + roff(text) + "\\fR"; }
std::string italic(const std::string& text) { return "\\fI" + roff(text) + "\\fR"; }

// Makes "List the checkpoints." from "list the checkpoints".
std::string sentence(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') {
    text[0] = static_cast<char>(text[0] - 'a' + 'A');
  }
  return text + ".";
}

std::string positional_text(const OptionInfo& positional) {
  const std::string name = italic(positional.names.front()) + (positional.is_repeated ? "..." : "");
  return positional.is_required ? name : "[" + name + "]";
}

// ".TP", the names in bold, the description.
std::string entry(const OptionInfo& option) {
  std::string head;
  for (const std::string& name : option.names) {
    const bool is_option = name.starts_with('-');
    head += (head.empty() ? "" : ", ") + (is_option ? bold(name) : italic(name));
  }
  if (!option.choices.empty()) {
    head += " " + italic(joined(option.choices, "|"));
  } else if (!option.value.empty()) {
    head += " " + italic(option.value);
  }
  return ".TP\n" + head + "\n" + roff(option.description) + "\n";
}

std::string entries(const char* title, const std::vector<OptionInfo>& options) {
  if (options.empty()) return {};
  std::string text = fmt::format(".SH {}\n", title);
  for (const OptionInfo& option : options) {
    text += entry(option);
  }
  return text;
}

std::string header(const std::string& page, const std::string& summary) {
  std::string upper = page;
  std::transform(upper.begin(), upper.end(), upper.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return fmt::format(".TH \"{}\" \"1\" \"\" \"cairn {}\" \"User Commands\"\n.SH NAME\n{} \\- {}\n",
                     roff(upper), CAIRN_VERSION, roff(page), roff(summary));
}

std::string exit_status() {
  std::string text = ".SH EXIT STATUS\n";
  for (const auto& [code, meaning] : kExitCodes) {
    text += fmt::format(".TP\n.B {}\n{}\n", static_cast<int>(code), roff(meaning));
  }
  return text;
}

// Removes --help, which every command has.
std::vector<OptionInfo> without_help(std::vector<OptionInfo> options) {
  std::erase_if(options, [](const OptionInfo& option) {
    return std::find(option.names.begin(), option.names.end(), "--help") != option.names.end();
  });
  return options;
}

std::string command_page(const CommandInfo& tool, const CommandInfo& command) {
  std::string text = header(tool.name + "-" + command.name, command.summary);
  text +=
      ".SH SYNOPSIS\n" + bold(tool.name + " " + command.name) + " [" + italic("OPTION") + "...]";
  for (const OptionInfo& positional : command.positionals) {
    text += " " + positional_text(positional);
  }
  text += "\n.SH DESCRIPTION\n" + roff(sentence(command.summary)) + "\n";
  if (!command.explanation.empty()) text += ".PP\n" + roff(command.explanation) + "\n";
  text += entries("ARGUMENTS", command.positionals);
  text += entries("OPTIONS", without_help(command.options));
  text += entries("GENERAL OPTIONS", tool.options);
  return text + exit_status() + ".SH SEE ALSO\n.BR " + roff(tool.name) + " (1)\n";
}

std::string tool_page(const CommandInfo& tool) {
  std::string text = header(tool.name, "look into checkpoints of training runs");
  text += ".SH SYNOPSIS\n" + bold(tool.name) + " [" + italic("OPTION") + "...] " +
          italic("COMMAND") + " [" + italic("ARGUMENT") + "...]\n";
  text += ".SH DESCRIPTION\n" + roff(tool.summary) +
          " It needs no Python and no framework, and runs nothing that is in a file.\n";
  text += ".SH COMMANDS\n";
  std::string pages;
  for (const CommandInfo& command : tool.commands) {
    const std::string page = roff(tool.name + "-" + command.name);
    text += fmt::format(".TP\n.BR {} (1)\n{}\n", page, roff(command.summary));
    pages += fmt::format("{}.BR {} (1)", pages.empty() ? "" : ",\n", page);
  }
  return text + entries("OPTIONS", tool.options) + exit_status() + ".SH SEE ALSO\n" + pages + "\n";
}

}  // namespace

std::map<std::string, std::string> manual_pages(const CommandInfo& tool) {
  std::map<std::string, std::string> pages = {{tool.name + ".1", tool_page(tool)}};
  for (const CommandInfo& command : tool.commands) {
    pages.emplace(tool.name + "-" + command.name + ".1", command_page(tool, command));
  }
  return pages;
}

}  // namespace cairn::cli
