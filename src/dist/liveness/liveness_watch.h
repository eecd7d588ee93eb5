// Who has come to what is done together, and who is kept by something that takes long: what the
// ranks tell each other through c10d's store, beside Gloo.
//
//  1. at/R: the number of what rank R waits for or has come to. Written when it waits for long.
//  2. busy/R: a count that rank R raises about every second while it does something long that the
//     others know to wait for (LongWork). A rank that hangs elsewhere raises nothing.
//  3. alive/R: a count that rank R raises about every second, where ranks wait for what does not
//     end with a process (NCCL). While it waits each rank looks at that of the next one, and
//     whether another raised the alarm: so all know of one that is gone, and begin to find out who,
//     at the cost of a few messages of each.
//  4. verdict: who is missing, as the first one found that gave up. It holds for all.
//
// The store is a process's of another machine, and c10d's calls have no time limit: when the
// network is cut they return when TCP gives up, after a quarter of an hour. Questions are so asked
// on a thread of their own, which is left behind when there is no answer in time.
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

// Its questions are asked on one thread, all else on any.
class LivenessWatch {
 public:
  LivenessWatch(c10::intrusive_ptr<c10d::Store> store, std::int64_t rank, std::int64_t world_size);

  // Steps 1 and 2, of this rank. Throws what c10d throws.
  void come_to(std::int64_t number);
  void beat();
  // The keys of step 1: of which a rank waits for all to begin with.
  std::vector<std::string> all_places() const;

  // Which ranks are not at `number`, given some seconds to come there; what another rank found
  // before goes first. nullopt: the store does not answer, so that nobody can say.
  std::optional<std::vector<std::int64_t>> find_absent(std::int64_t number);

  // Step 3, of this rank. Throws what c10d throws.
  void live();
  // Whether the next rank has raised nothing between the last kSilentLooks of these calls, or
  // another rank raised the alarm, or the store is gone. To be asked about every second.
  bool is_anybody_gone();

  // Whether one of those that are not at `number` is kept by long work now. Takes some seconds when
  // none is.
  bool is_awaited(std::int64_t number);

 private:
  struct Shared {
    c10::intrusive_ptr<c10d::Store> store;
    std::int64_t rank;
    std::int64_t world_size;

    void come_to(std::int64_t number);
    bool is_absent(std::int64_t of_rank, std::int64_t number);
    std::vector<std::int64_t> absent(std::int64_t number);
    std::vector<std::string> beats(const std::vector<std::int64_t>& ranks);
    std::vector<std::int64_t> find_absent(std::int64_t number);
    bool is_awaited(std::int64_t number);
    std::string life_of_next();
  };
  template <class Answer>
  std::optional<Answer> ask(std::function<Answer(Shared&)> question);

  std::shared_ptr<Shared> shared_;  // outlives this where a question got no answer
  bool is_lost_ = false;            // the store: nobody asks twice
  std::string life_of_next_;        // at the last look
  int silent_looks_ = 0;            // Looks, not seconds: this process may have been stopped, too.
};

}  // namespace cairn::dist
