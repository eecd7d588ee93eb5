// cairn serve FOLDER: serves a page that shows the runs of a folder while they train.
#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "cairn/error.h"
#include "cairn/exit_code.h"

#include "cli/serve/ending_signals.h"
#include "cli/serve/page_access.h"
#include "cli/serve/run_pages.h"
#include "cli/serve/web_server.h"
#include "cli/shell/command.h"
#include "core/environment.h"
#include "core/text/json.h"
#include "core/text/printable.h"
#include "core/text/random_name.h"
#include "io/machine.h"

namespace cairn::cli {
namespace {

constexpr const char* kTokenVariable = "CAIRN_SERVE_TOKEN";
constexpr std::size_t kShortestToken = 16;
constexpr std::size_t kRandomToken = 32;

struct ServeArgs {
  std::string place;
  std::string host = "127.0.0.1";
  int port = 8321;
  std::optional<int> interval;
};

struct Token {
  std::string text;        // empty: none is needed
  bool is_random = false;  // so it has to be printed
};

Token token_for(const ServeArgs& options) {
  const std::string given = environment(kTokenVariable);
  if (!given.empty() && given.size() < kShortestToken) {
    throw UsageError(std::string("the token in ") + kTokenVariable + " has " +
                     std::to_string(given.size()) + " characters; at least " +
                     std::to_string(kShortestToken) + " are needed, so that nobody guesses it");
  }
  if (!given.empty() || is_loopback(options.host)) return {.text = given};
  return {.text = random_name(kRandomToken), .is_random = true};
}

// The host as others reach it.
std::string reachable(const std::string& host) {
  return host == "0.0.0.0" || host == "::" ? node_name() : host;
}

void tell(const ServeArgs& options, int port, const Token& token, Console& console) {
  const std::string address =
      web_address(reachable(options.host), port) + (token.is_random ? "?token=" + token.text : "");
  if (console.json) {
    console.print_json(
        {{"address", address}, {"port", port}, {"needs_token", !token.text.empty()}});
  } else {
    console.out << printable_line(address) << "\n";
  }
  console.out.flush();
  if (!token.text.empty() && !token.is_random) {
    console.err << "cairn: a browser opens " << printable_line(address)
                << "?token=..., with the token in " << kTokenVariable << "\n";
  }
  if (is_loopback(options.host)) return;
  const std::string there = std::to_string(port) + ":127.0.0.1:" + std::to_string(port);
  console.err
      << "cairn: warning: other machines reach this server, which speaks plain HTTP: whoever "
         "listens in their network reads the pages and the token. An SSH tunnel to a server "
         "at 127.0.0.1 is safer: ssh -L "
      << there << " " << printable_line(node_name()) << "\n";
}

int run_serve(const ServeArgs& options, Console& console) {
  check_can_serve();
  if (options.host.empty()) throw UsageError("--host is empty: name an address to listen at");
  const Token token = token_for(options);
  RunPages::Options shown{.place = options.place};
  if (options.interval) shown.interval = std::chrono::seconds(*options.interval);
  RunPages pages(shown);
  const EndingSignals signals;  // before the server's threads
  std::atomic<bool> has_failed = false;
  std::optional<PageAccess> access;  // used by the server's threads
  {
    WebServer server({.host = options.host, .port = options.port, .on_failure = [&] {
                        has_failed = true;
                        signals.end();
                      }});
    access.emplace(options.host, server.port(), token.text);
    server.start([&](const WebRequest& asked) {
      if (auto refusal = access->refuse(asked)) return *refusal;
      return pages.answer(asked);
    });
    tell(options, server.port(), token, console);
    signals.wait();
    pages.stop();
  }
  if (has_failed) throw StorageError("the server's socket failed: start cairn serve again", EIO);
  return kDone;
}

}  // namespace

Run define_serve(CLI::App& app) {
  const auto options = std::make_shared<ServeArgs>();
  app.add_option(
         "FOLDER", options->place,
         "the folder of a run, with a log, checkpoints, or both; or a folder of such folders")
      ->required();
  app.add_option("--host", options->host,
                 "the address at which to listen; one that others reach needs a token")
      ->capture_default_str();
  app.add_option("--port", options->port, "the port; 0: any that is free")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  app.add_option("--interval", options->interval,
                 "seconds between two looks at the runs; default 5, and 30 for a far store")
      ->check(CLI::Range(1, 86400));
  app.footer(
      "Prints the address, and serves until SIGINT (Ctrl-C) or SIGTERM. The page shows an overview "
      "of all runs, and what `cairn report` shows of those that are chosen; /metrics is for "
      "Prometheus. Nothing is written. Whoever reads the page needs the token in "
      "CAIRN_SERVE_TOKEN, "
      "if that is set. With a --host that other machines reach a token is always needed: without "
      "the variable a random one is part of the address that is printed.");
  return [options](Console& console) { return run_serve(*options, console); };
}

}  // namespace cairn::cli
