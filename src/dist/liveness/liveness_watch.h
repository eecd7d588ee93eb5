// Finds out which ranks have come to a collective, and which are busy with long work. The ranks
// exchange this through c10d's store, beside Gloo.
//
//  1. at/R: the number of the collective that rank R waits for or has come to. Written when the
//     rank waits for long.
//  2. busy/R: a count that rank R raises about every second during long work that the other ranks
//     know to wait for (LongWork). A rank that hangs elsewhere raises nothing.
//  3. alive/R: a count that rank R raises about every second, if ranks wait for works that do not
//     end with a process (NCCL). While a rank waits, it looks at the count of the next rank, and
//     for an alarm of any rank. So all ranks learn that one rank is gone, and begin to find out
//     which, at the cost of a few messages each.
//  4. verdict: the missing ranks, as the first rank that gave up found them. The verdict holds for
//     all ranks.
//
// The store may be on another machine, and c10d's calls have no time limit. If the network is cut,
// they return when TCP gives up, after a quarter of an hour. So each question is asked on its own
// thread, which is abandoned if there is no answer in time.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

namespace cairn::dist {

// Call find_absent(), is_any_rank_gone() and is_awaited() on one thread only. The other functions
// are thread-safe.
class LivenessWatch {
 public:
  LivenessWatch(c10::intrusive_ptr<c10d::Store> store, std::int64_t rank, std::int64_t world_size);

  // Write the entries of steps 1 and 2 for this rank. Throw c10d's exceptions.
  void report_number(std::int64_t number);
  void show_work();
  // The keys of step 1. In the beginning, a rank waits for all of these keys.
  std::vector<std::string> all_places() const;

  // Waits some seconds for all ranks to come to `number`, and returns the ranks that have not. If
  // another rank has stored a verdict, returns that verdict. nullopt: the store does not answer, so
  // the ranks are unknown.
  std::optional<std::vector<std::int64_t>> find_absent(std::int64_t number);

  // Raises the count of step 3 for this rank. Throws c10d's exceptions.
  void show_life();
  // True if the next rank raised nothing during the last kSilentLooks calls, or another rank raised
  // the alarm, or the store is gone. Call it about every second.
  bool is_any_rank_gone();

  // Whether a rank that is not at `number` is doing long work now. Takes some seconds if none is.
  bool is_awaited(std::int64_t number);

 private:
  struct Shared {
    c10::intrusive_ptr<c10d::Store> store;
    std::int64_t rank;
    std::int64_t world_size;

    void report_number(std::int64_t number);
    bool is_absent(std::int64_t of_rank, std::int64_t number);
    std::vector<std::int64_t> absent(std::int64_t number);
    std::vector<std::string> beats(const std::vector<std::int64_t>& ranks);
    std::vector<std::int64_t> find_absent(std::int64_t number);
    bool is_awaited(std::int64_t number);
    std::string life_of_next();
  };
  template <class Answer>
  std::optional<Answer> ask(std::function<Answer(Shared&)> question);

  std::shared_ptr<Shared> shared_;  // Outlives this object if a question got no answer.
  bool is_lost_ = false;            // The store is lost; it is not asked again.
  std::string life_of_next_;        // At the last look.
  int silent_looks_ = 0;            // Looks, not seconds: this process may have been stopped, too.
};

}  // namespace cairn::dist
