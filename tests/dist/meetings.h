// Counts keys left at the meeting place. Only the end of the job removes such keys.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "cairn/dist/dist.h"
#include "cairn/train/trainer.h"

#include "arguments.h"
#include "checkpoint/ranks/agree_over_ranks.h"
#include "dist/backend.h"
#include "dist/group.h"
#include "dist/rank_tables.h"

// The number of keys at the meeting place after all ranks have come. Call it on all ranks together.
inline std::int64_t keys_at_the_meeting_place() {
  namespace dist = cairn::dist;
  dist::barrier();
  const cairn::Launch& launch = dist::group()->launch();
  const auto store =
      dist::open_store({launch.master_addr, static_cast<std::uint16_t>(*launch.master_port)},
                       /*listens=*/false, std::chrono::seconds(60));
  const std::int64_t count = store->getNumKeys();
  dist::barrier();
  return count;
}

// saves_again=N: calls save_checkpoint() N times in a row.
inline void save_again(const Arguments& arguments, cairn::Trainer& trainer) {
  std::int64_t behind_first = 0;
  for (std::int64_t i = 0; i < arguments.number("saves_again", 0); ++i) {
    trainer.save_checkpoint(arguments.text("folder") + "/again" + std::to_string(i) +
                            "-rank{rank}.pt");
    const std::int64_t count = keys_at_the_meeting_place();
    if (i == 0) behind_first = count;
    // A rank that was slow once says so in a key that stays (dist/liveness/liveness_watch.h, step
    // 2).
    demand(count <= behind_first + cairn::dist::world_size(),
           std::to_string(count) + " keys after save " + std::to_string(i) + ", and " +
               std::to_string(behind_first) + " after the first");
  }
}

inline void agree(cairn::RankTable& table) {
  const cairn::AgreeJob job{
      .look = [](const std::function<void()>&) { return std::vector<cairn::SeenCheckpoint>(); }};
  demand(cairn::agree_over_ranks(table, job).empty(), "all find nothing");
}

// For two ranks.
inline void use_tables(const Arguments& arguments) {
  initialize(arguments);
  using cairn::dist::rank_table;
  const bool is_late = cairn::dist::rank() == 1;
  auto first = rank_table();
  const cairn::RankTable* const of_first = first.get();
  agree(*first);
  if (!is_late) first.reset();
  auto second = rank_table();
  demand(second.get() != of_first, "what one rank still has none takes");
  agree(*second);
  first.reset();
  const std::int64_t keys = keys_at_the_meeting_place();
  for (int i = 0; i < 5; ++i) {
    auto third = rank_table();
    demand(third.get() == of_first, "what nobody needs is used again");
    agree(*third);
    if (is_late) third->number += 3;  // As after failed uses of the table.
  }
  demand(keys_at_the_meeting_place() == keys, "nothing more is left there");
  print_line("all of it holds");
}
