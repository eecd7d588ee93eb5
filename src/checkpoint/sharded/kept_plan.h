// A plan that is used again while all ranks have what they had.
//
//  1. ask()     Who plans, rank 0, gives the save an id that no other has, and says of which save
//               it keeps what all ranks said that they have, and the plan made of it.
//  2. answer()  Each other rank describes itself as ever. Of what it said last it keeps the id of
//               that save and a digest. Where both are the same it answers with the digest; else
//               with its description, of names only those that are not rank 0's.
//  3. plan()    Where what each rank has is what is kept, to the byte or by its digest, the plan is
//               the one that is kept: it follows from nothing else. Otherwise all is planned anew,
//               from what is kept of the ranks that gave a digest, and nobody is asked twice.
//  4. What is kept belongs to the save that is being planned from now on. After a
//               step 3 that failed nothing is.
//
// Nothing here communicates: questions and answers are texts that others carry. Numbers of files,
// names of folders, bytes and their checksums are in no plan, and so are never those of before.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/sharded/global_plan.h"
#include "checkpoint/sharded/rank_state.h"

namespace cairn::sharded {

// Of one rank, for the saves that it makes with the same others, one after the other. Kept are: of
// rank 0 a GlobalPlan with names and descriptions, of up to kMostKept in all; of each other some
// dozens of bytes.
class KeptPlan {
 public:
  // 10,000 tensors on 1,024 ranks take 58 to 86 MiB, less than a tenth of the `.metadata` that rank
  // 0 makes of them with every save.
  static constexpr std::uint64_t kMostKept = std::uint64_t{128} << 20;
  using AnswerOf = std::function<std::string(std::uint32_t rank)>;

  explicit KeptPlan(std::uint64_t most_kept = kMostKept) : most_kept_(most_kept) {}

  // Step 1.
  std::string ask(const std::string& save, const Description& own);
  // Step 2. CorruptError for what is no question.
  std::string answer(std::string_view asked, const Description& own);
  // Step 3, behind ask(). Calls answer_of(rank) for 1 to `ranks` - 1. As GlobalPlan's constructor;
  // CorruptError for what is no answer.
  std::shared_ptr<const GlobalPlan> plan(const Description& own, std::uint32_t ranks,
                                         const AnswerOf& answer_of);

 private:
  struct Said {
    std::string save = {};
    std::string digest = {};
  };
  struct Kept {
    std::string save = {};
    std::vector<std::string> names = {};
    std::shared_ptr<const GlobalPlan> plan = nullptr;
  };

  std::uint64_t most_kept_;
  Said said_;
  Kept kept_;          // of rank 0
  std::string asked_;  // that, too: the id of the save that is being planned
};

}  // namespace cairn::sharded
