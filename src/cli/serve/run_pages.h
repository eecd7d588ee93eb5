// The answers of `cairn serve`: the page at "/", its data at "/data.json", metrics at "/metrics".
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "cli/report/page.h"
#include "cli/serve/served_runs.h"
#include "cli/serve/web_answer.h"
#include "core/text/json_fwd.h"
#include "io/threads/cancellation.h"

namespace cairn::cli {

// Thread-safe. However many clients ask, the runs are looked at once in an interval. A client never
// waits for a look that another one is waiting for, unless there is nothing older to answer.
class RunPages {
 public:
  struct Options {
    std::string place;
    std::optional<std::chrono::seconds> interval = std::nullopt;  // default: by the store
    std::function<WallTime()> clock = [] { return std::chrono::system_clock::now(); };
  };

  // Looks at the runs once. Throws what ServedRuns::refresh() throws.
  explicit RunPages(const Options& options);

  WebAnswer answer(const WebRequest& asked);
  // Ends the look that is under way, if any.
  void stop() { cancellation_.cancel(); }

 private:
  using Body = std::shared_ptr<const std::string>;
  using Names = std::set<std::string>;
  // How a text is made: the runs of which it shows all, and the text.
  struct Text {
    std::function<Names()> shown;
    std::function<std::string(const Names& shown)> make;
  };
  // A text that was made from the runs as they were at a look.
  struct Made {
    Names shown;
    WallTime asked;  // the last time
    std::uint64_t look = 0;
    Body text;
  };

  Body data(const WebRequest& asked);
  Body metrics();
  Body text(const std::string& key, const Text& wanted);
  Body known(const std::string& key, bool may_be_old);
  void keep(const std::string& key, Made made);
  bool is_due();
  void look();
  Names shown_now();
  Names newest_runs() const;
  Json data_json(const Names& shown) const;

  const std::string place_;
  const std::function<WallTime()> clock_;
  Cancellation cancellation_{"cairn serve ends"};
  std::mutex looking_;  // held by the thread that looks at the runs, and reads what it found
  ServedRuns runs_;
  const std::chrono::seconds interval_;
  std::string problem_ = {};  // why the last look failed
  std::mutex mutex_;          // protects what follows
  WallTime looked_at_ = {};
  std::uint64_t looks_ = 0;
  std::map<std::string, Made> made_ = {};
  const LivePage page_;
};

}  // namespace cairn::cli
