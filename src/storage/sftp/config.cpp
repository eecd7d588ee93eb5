#include "storage/sftp/config.h"

#include <algorithm>
#include <charconv>

#include "cairn/error.h"

#include "core/environment.h"
#include "io/uri.h"

namespace cairn::sftp {
namespace {

constexpr int kLastPort = 65535;

// Allows only characters that neither ssh nor the shell of a ProxyCommand could misinterpret.
bool is_name(const std::string& text, const std::string& also) {
  return !text.empty() && text[0] != '-' && std::ranges::all_of(text, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string("._-").find(c) != std::string::npos || also.find(c) != std::string::npos;
  });
}

// Empty: ssh's default.
std::string port_text(const SftpOptions& options) {
  const int port = options.port.value_or(0);
  return port == 0 ? "" : std::to_string(port);
}

void check(const SftpOptions& options) {
  if (options.command.empty() && !is_name(options.host, ":%")) {
    throw UsageError("an SFTP store needs the name of a host, as in sftp://user@host/name");
  }
  if (!options.user.empty() && !is_name(options.user, "+@")) {
    throw UsageError("sftp://" + options.host +
                     ": the user's name has characters that no name has");
  }
  if (const int port = options.port.value_or(0); port < 0 || port > kLastPort) {
    throw UsageError("sftp://" + options.host + ": there is no port " + std::to_string(port));
  }
  if (options.attempts < 1 || options.stall.count() < 1) {
    throw UsageError("attempts and stall of an SFTP store must be 1 or more");
  }
}

// ssh must not ask questions: nobody answers them.
std::vector<std::string> ssh_command(const SftpOptions& options) {
  std::vector<std::string> command = {"ssh", "-T", "-x", "-a"};
  for (const char* option : {"BatchMode=yes", "ClearAllForwardings=yes", "ConnectTimeout=15",
                             "ServerAliveInterval=10", "ServerAliveCountMax=3"}) {
    command.insert(command.end(), {"-o", option});
  }
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) command.insert(command.end(), {name, value});
  };
  add("-p", port_text(options));
  add("-l", options.user);
  add("-i", options.key_file.empty() ? environment("COMPOSER_SFTP_KEY_FILE") : options.key_file);
  const std::string known = options.known_hosts_file.empty()
                                ? environment("COMPOSER_SFTP_KNOWN_HOSTS_FILE")
                                : options.known_hosts_file;
  add("-o", known.empty() ? "" : "UserKnownHostsFile=\"" + known + "\"");
  command.insert(command.end(), options.ssh_arguments.begin(), options.ssh_arguments.end());
  command.insert(command.end(), {"-s", "--", options.host, "sftp"});
  return command;
}

}  // namespace

Config resolve_config(const SftpOptions& options) {
  check(options);
  Config config;
  config.command = options.command.empty() ? ssh_command(options) : options.command;
  const std::string host =
      options.host.find(':') == std::string::npos ? options.host : "[" + options.host + "]";
  config.root = "sftp://" + (options.user.empty() ? "" : options.user + "@") + host +
                (port_text(options).empty() ? "" : ":" + port_text(options));
  config.folder = options.folder;
  config.stall = options.stall;
  config.retries.attempts = options.attempts;
  for (const std::string& part : config.command) {
    config.identity += part + "\n";
  }
  config.identity += config.folder;
  return config;
}

SftpOptions options_of(const std::string& root) {
  std::string authority = split_uri(root).authority;
  SftpOptions options;
  if (const std::size_t at = authority.rfind('@'); at != std::string::npos) {
    options.user = authority.substr(0, at);
    authority.erase(0, at + 1);
  }
  const std::size_t bracket = authority.find(']');
  const std::size_t colon = authority.find(':', bracket == std::string::npos ? 0 : bracket);
  if (options.user.find(':') != std::string::npos) {
    throw UsageError("sftp://...@" + authority +
                     ": a password in a place is written down wherever places are; use a key "
                     "(COMPOSER_SFTP_KEY_FILE, or what ssh uses)");
  }
  options.host = authority.substr(0, colon);
  if (bracket != std::string::npos && options.host.size() > 2 && options.host.starts_with('[')) {
    options.host = options.host.substr(1, bracket - 1);
  }
  if (colon == std::string::npos) return options;
  const std::string port = authority.substr(colon + 1);
  const char* const end = port.data() + port.size();
  int number = 0;
  const auto [stopped, error] = std::from_chars(port.data(), end, number);
  if (error != std::errc() || stopped != end || number < 1) {
    throw UsageError("sftp://" + options.host + ":...: the text after the colon is no port number");
  }
  options.port = number;
  return options;
}

}  // namespace cairn::sftp

namespace cairn {

std::shared_ptr<ObjectStore> sftp_store(const SftpOptions& options) {
  return sftp::make_sftp_store(sftp::resolve_config(options));
}

}  // namespace cairn
