#include "cli/shell/tool.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ios>
#include <memory>
#include <new>
#include <sstream>
#include <string_view>
#include <system_error>

#include "cairn/error.h"

#include "cli/shell/command.h"
#include "cli/shell/nearest.h"
#include "cli/view/joined.h"
#include "cli/view/printable_stream.h"
#include "cli/view/screen.h"
#include "core/error_class.h"
#include "core/text/json.h"
#include "core/text/json_text.h"
#include "core/text/printable.h"
#include "io/file_size_limit.h"
#include "io/memory/mapped_file.h"
#include "io/read_fault.h"
#include "storage/place.h"
#include "terminal/terminal.h"

namespace cairn::cli {
namespace {

struct GlobalOptions {
  bool json = false;
  bool exact_bytes = false;
  bool quiet = false;
  std::string color = "auto";
};

bool wants_color(const std::string& when, const std::ostream& out) {
  const auto is_set = [](const char* name) {
    const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
    return value != nullptr && *value != '\0';
  };
  if (when != "auto") return when == "always";
  if (is_set("NO_COLOR")) return false;
  return is_set("CLICOLOR_FORCE") || is_terminal(out);
}

void add_global_options(CLI::App& app, GlobalOptions& options) {
  app.add_flag("--json", options.json, "answer with one JSON object");
  app.add_flag("--bytes", options.exact_bytes, "sizes in bytes instead of KiB, MiB, ...");
  app.add_flag("-q,--quiet", options.quiet, "no progress bars; reports show only problems");
  app.add_option("--color", options.color, "colour the answer: auto (on a terminal), always, never")
      ->check(CLI::IsMember({"auto", "always", "never"}));
}

struct Failure {
  std::string message;
  ExitCode code = kFailed;
  std::string_view error_class = "UsageError";
};

int report(const Failure& failure, bool as_json, std::ostream& out, std::ostream& err) {
  if (as_json) {
    const Json object = {{"error", failure.message},
                         {"error_class", failure.error_class},
                         {"exit_code", static_cast<int>(failure.code)}};
    out << json_text(object, 1) << "\n";
  }
  err << "cairn: " << printable(failure.message) << "\n";
  return failure.code;
}

// Removes the secrets of places from `text`, CLI11's message about the command line.
std::string without_secrets(std::string text, const std::vector<std::string>& arguments) {
  for (const std::string& argument : arguments) {
    const std::string shown = shown_place(argument);
    if (shown == argument) continue;
    for (std::size_t at = 0; (at = text.find(argument, at)) != std::string::npos;) {
      text.replace(at, argument.size(), shown);
      at += shown.size();
    }
  }
  return text;
}

// Looks at the arguments themselves, so this also works if CLI11 failed to parse them.
bool asks_for_json(const std::vector<std::string>& arguments) {
  return std::find(arguments.begin(), arguments.end(), "--json") != arguments.end();
}

bool is_option(const std::string& argument) { return argument.size() > 1 && argument[0] == '-'; }

// The first argument that is neither an option of the tool itself nor the value of one.
std::string command_word(const CLI::App& app, const std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!is_option(arguments[i])) return arguments[i];
    const CLI::Option* option = app.get_option_no_throw(arguments[i]);
    if (option != nullptr && option->get_items_expected_max() > 0) ++i;
  }
  return {};
}

// Throws if the command is unknown. CLI11 would ask for a subcommand without naming the unknown
// word, and would print help for a --help after that word.
void check_command(const CLI::App& app, const std::vector<std::string>& arguments) {
  const std::string word = command_word(app, arguments);
  if (word.empty()) return;
  std::vector<std::string> names;
  for (const Command& command : commands()) {
    if (word == command.name) return;
    names.emplace_back(command.name);
  }
  const std::string meant = nearest(word, names);
  throw CLI::ExtrasError(
      "there is no command \"" + word + "\"" +
          (meant.empty() ? ": there are " + joined(names) : "; did you mean \"" + meant + "\"?"),
      CLI::ExitCodes::ExtrasError);
}

// "; did you mean --full?" for the first option that neither the tool nor its command has.
std::string hint_at_option(const CLI::App& app, const std::vector<std::string>& arguments) {
  const std::string word = command_word(app, arguments);
  std::vector<const CLI::App*> apps =
      app.get_subcommands([&](const CLI::App* command) { return command->get_name() == word; });
  if (apps.empty()) return {};
  apps.push_back(&app);
  std::vector<std::string> names;
  for (const CLI::App* one : apps) {
    for (const CLI::Option* option : one->get_options()) {
      for (const std::string& name : option->get_lnames()) {
        names.push_back("--" + name);
      }
    }
  }
  for (const std::string& argument : arguments) {
    const std::string name = argument.substr(0, argument.find('='));
    if (!name.starts_with("--") || std::ranges::find(names, name) != names.end()) continue;
    const std::string meant = nearest(name, names);
    return meant.empty() ? "" : "; did you mean " + meant + "?";
  }
  return {};
}

// Help whose explanation is broken into lines that a terminal shows whole.
class WrappedHelp final : public CLI::Formatter {
 public:
  std::string make_footer(const CLI::App* app) const override {
    constexpr std::size_t kColumns = 80;
    std::istringstream words(app->get_footer());
    std::string lines;
    std::size_t column = 0;
    for (std::string word; words >> word; column += word.size()) {
      const bool fits = column + 1 + word.size() <= kColumns;
      if (!lines.empty()) lines += fits ? ' ' : '\n';
      column = fits && column > 0 ? column + 1 : 0;
      lines += word;
    }
    return lines.empty() ? lines : lines + '\n';
  }
};

int run_command(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err) {
  CLI::App app("Looks into checkpoints, verifies, compares, converts and prunes them.", "cairn");
  app.formatter(std::make_shared<WrappedHelp>());  // also of the commands, which inherit it
  GlobalOptions options;
  add_global_options(app, options);
  app.set_version_flag("--version", "cairn " CAIRN_VERSION);
  app.require_subcommand(1);
  app.fallthrough();  // global options may follow the command
  std::vector<std::pair<const CLI::App*, Run>> runs;
  for (const Command& command : commands()) {
    CLI::App* sub = app.add_subcommand(command.name, command.summary);
    runs.emplace_back(sub, command.define(*sub));
  }
  try {
    check_command(app, arguments);
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    app.parse(reversed);
    const bool color = wants_color(options.color, out);
    PrintableBuffer gate(out, color);
    std::ostream printable_out(&gate);
    printable_out.exceptions(std::ios_base::badbit);
    Screen screen(out, color, [&out] { return terminal_size(out); });
    Console console{.out = printable_out,
                    .err = err,
                    .json = options.json,
                    .color = color,
                    .quiet = options.quiet,
                    .exact_bytes = options.exact_bytes,
                    .screen = is_terminal(out) ? &screen : nullptr};
    const auto chosen =
        std::find_if(runs.begin(), runs.end(), [](const auto& run) { return run.first->parsed(); });
    const GuardedReads guard;
    const int code = chosen->second(console);
    printable_out.flush();
    check_mapped_reads();
    return code;
  } catch (const std::ios_base::failure&) {
    throw;  // no further answer can be written
  } catch (const CLI::Success& help) {
    return app.exit(help, out, err);
  } catch (const CLI::ParseError& error) {
    const std::string what = error.what() + hint_at_option(app, arguments);
    const std::string message = without_secrets(what, arguments) + " (see cairn --help)";
    return report({message, kFailed}, asks_for_json(arguments), out, err);
  } catch (const std::exception& error) {
    const std::string message = memory_problem(error).value_or(error.what());
    return report({message, exit_code_of(error), error_class(error)}, options.json, out, err);
  }
}

}  // namespace

int run_tool(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err) {
  ignore_file_size_signal();  // answers may go to a file
  const std::ios_base::iostate before = out.exceptions();
  try {
    // A failed write throws, so that no work is done for an answer that nothing reads.
    out.exceptions(std::ios_base::badbit);
    const int code = run_command(arguments, out, err);
    out.flush();
    out.exceptions(before);
    return code;
  } catch (const std::ios_base::failure&) {
    const int error = errno;
    out.exceptions(std::ios_base::goodbit);
    if (error == EPIPE) return kFailed;  // `cairn dump x.pt | head`: head has read enough
    err << "cairn: cannot write the answer: " << std::generic_category().message(error) << "\n";
    return error == ENOSPC ? kNoSpace : kFailed;
  } catch (const std::bad_alloc&) {  // outside the command, or while its error was reported
    out.exceptions(std::ios_base::goodbit);
    err << "cairn: there is not enough memory\n";
    return kFailed;
  }
}

}  // namespace cairn::cli
