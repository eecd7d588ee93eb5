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

using WallTime = std::chrono::system_clock::time_point;

struct Moment {
  WallTime wall;
  SteadyTime steady;  // intervals are measured by it
  static Moment now() {
    return {std::chrono::system_clock::now(), std::chrono::steady_clock::now()};
  }
};

// Thread-safe. However many clients ask, the runs are looked at once in an interval. A client never
// waits for a look that another one is waiting for, unless there is nothing older to answer.
class RunPages {
 public:
  struct Options {
    std::string place;
    std::optional<std::chrono::seconds> interval = std::nullopt;  // default: by the store
    std::function<Moment()> clock = Moment::now;
  };

  // Looks at the runs once. Throws what ServedRuns::refresh() throws.
  explicit RunPages(const Options& options);

  WebAnswer answer(const WebRequest& asked);
  // Ends the look that is under way, if any.
  void stop() { cancellation_.cancel(); }

 private:
  using Names = std::set<std::string>;
  // How a text is made: the runs of which it shows all, and the text.
  struct Text {
    std::function<Names()> shown;
    std::function<std::string(const Names& shown)> make;
    bool tells_time = false;  // so it is another one at each look, even if the runs are the same
  };
  // A text that was made from the runs as they were at a look.
  struct Made {
    Names shown = {};
    SteadyTime asked = {};       // the last time
    std::uint64_t look = 0;      // the last one after which the text was right
    std::uint64_t revision = 0;  // of the runs
    WallTime looked_at = {};
    std::shared_ptr<const std::string> text = nullptr;
    std::string tag = {};  // as the header ETag has it
  };

  WebAnswer data(const WebRequest& asked);
  WebAnswer metrics();
  Made made(const std::string& key, const Text& wanted);
  Made make(const std::string& key, const Text& wanted);
  std::optional<Made> known(const std::string& key, bool may_be_old);
  void keep(const std::string& key, const Made& made);
  bool is_due();
  void look();
  Names shown_now();
  Names newest_runs() const;
  Json data_json(const Names& shown) const;

  const std::string place_;
  const std::function<Moment()> clock_;
  Cancellation cancellation_{"cairn serve ends"};
  std::mutex looking_;  // held by the thread that looks at the runs, and reads what it found
  ServedRuns runs_;
  const std::chrono::seconds interval_;
  std::string problem_ = {};  // why the last look failed
  std::mutex mutex_;          // protects what follows
  Moment looked_at_ = {};
  std::uint64_t looks_ = 0;
  std::map<std::string, Made> made_ = {};
  const LivePage page_;
};

}  // namespace cairn::cli
