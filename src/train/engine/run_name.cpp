#include "train/engine/run_name.h"

#include <stdlib.h>

#include <array>
#include <chrono>
#include <random>
#include <string_view>

namespace cairn {
namespace {

constexpr std::array<std::string_view, 32> kFirst = {
    "amber", "azure",   "brisk", "calm",  "civil", "clear",  "copper", "coral",
    "crisp", "dapper",  "eager", "early", "fleet", "gentle", "golden", "grand",
    "hardy", "ivory",   "jolly", "keen",  "light", "lucid",  "mellow", "noble",
    "olive", "patient", "quiet", "rapid", "sage",  "silver", "steady", "vivid"};
constexpr std::array<std::string_view, 32> kSecond = {
    "badger", "beaver", "bison",  "crane",   "curlew", "dolphin", "falcon", "ferret",
    "finch",  "gecko",  "heron",  "ibex",    "jackal", "kestrel", "lark",   "lemur",
    "lynx",   "marten", "newt",   "ocelot",  "osprey", "otter",   "panda",  "plover",
    "puffin", "raven",  "salmon", "sparrow", "stoat",  "tapir",   "toucan", "walrus"};

}  // namespace

std::optional<std::string> run_name_of_environment() {
  for (const char* variable : {"COMPOSER_RUN_NAME", "RUN_NAME"}) {
    const char* value = getenv(variable);
    if (value != nullptr && *value != '\0') return value;
  }
  return std::nullopt;
}

std::string invent_run_name() {
  std::random_device device;
  const auto pick = [&](const auto& words) {
    return std::string(
        words[std::uniform_int_distribution<std::size_t>(0, words.size() - 1)(device)]);
  };
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(
      std::chrono::system_clock::now().time_since_epoch());
  return std::to_string(seconds.count()) + "-" + pick(kFirst) + "-" + pick(kSecond);
}

}  // namespace cairn
