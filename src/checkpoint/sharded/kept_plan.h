// Keeps a plan, to use it again as long as no rank's description changes.
//
//  1. ask()     Rank 0 plans. It gives the save a unique id. The question also says for which save
//               it has kept the descriptions of all ranks and the plan made from them.
//  2. answer()  Each other rank describes itself, as always. It keeps the id of the save for which
//               it last answered, and a digest of that description. If id and digest both still
//               match, it answers with the digest. Otherwise it answers with its description; the
//               names are left out if they equal rank 0's names.
//  3. plan()    If every rank's description equals the kept one, byte for byte or by its digest,
//               the kept plan is used, since a plan depends only on the descriptions. Otherwise all
//               is planned anew. Ranks that sent a digest are planned from their kept descriptions,
//               so that no rank is asked twice.
//  4. After step 3, the kept texts and plan are those of the save that is being planned. If step 3
//     fails, nothing is kept.
//
// Nothing here communicates: the callers carry questions and answers, which are texts. Numbers of
// files, names of folders, bytes and checksums are not part of a plan, so none of them is ever
// reused.
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

// Belongs to one rank, for its consecutive saves with the same other ranks. Rank 0 keeps a
// GlobalPlan with names and descriptions, kMaxKeptBytes bytes at most. Each other rank keeps some
// dozens of bytes.
class KeptPlan {
 public:
  // 10,000 tensors on 1,024 ranks take 58 to 86 MiB. That is less than a tenth of the `.metadata`
  // that rank 0 makes from them in every save.
  static constexpr std::uint64_t kMaxKeptBytes = std::uint64_t{128} << 20;
  using AnswerOf = std::function<std::string(std::uint32_t rank)>;

  explicit KeptPlan(std::uint64_t most_kept = kMaxKeptBytes) : most_kept_(most_kept) {}

  // Step 1.
  std::string ask(const std::string& save, const Description& own);
  // Step 2. Throws CorruptError if `asked` is not a question.
  std::string answer(std::string_view asked, const Description& own);
  // Step 3; call it after ask(). Calls answer_of(rank) for the ranks 1 to `ranks` - 1. Throws what
  // GlobalPlan's constructor throws, and CorruptError for a text that is not an answer.
  std::shared_ptr<const GlobalPlan> plan(const Description& own, std::uint32_t ranks,
                                         const AnswerOf& answer_of);

 private:
  struct LastAnswer {
    std::string save = {};
    std::string digest = {};
  };
  struct Kept {
    std::string save = {};
    std::vector<std::string> names = {};
    std::shared_ptr<const GlobalPlan> plan = nullptr;
  };

  std::uint64_t most_kept_;
  LastAnswer last_answer_;
  Kept kept_;          // on rank 0
  std::string asked_;  // on rank 0: the id of the save that is being planned
};

}  // namespace cairn::sharded
