// Plans that are used again. A save with a kept plan gives the same files as a save with a new
// plan.
#include "checkpoint/sharded/kept_plan.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string_view>

#include "cairn/error.h"

#include "checkpoint/ranks/save_over_ranks.h"
#include "checkpoint/sharded/rank_files.h"
#include "testing/file_bytes.h"
#include "testing/message_of.h"
#include "testing/sharded_folder.h"
#include "testing/sim_job.h"

namespace cairn::sharded {
namespace {

using ::testing::Each;
using testing::Fibers;
using testing::message_of;
using testing::part_of_numbers;
using testing::SimFault;
using testing::SimFileSystem;
using testing::SimJob;
using testing::slice_of;

using Shape = std::vector<std::int64_t>;

TensorView rows_of_ranks(const Shape& shape, std::int64_t rank, std::int64_t ranks,
                         std::int32_t salt) {
  dcp::Box box{.offsets = Dims(shape.size(), 0), .sizes = shape};
  std::tie(box.offsets[0], box.sizes[0]) = slice_of(shape[0], rank, ranks);
  return part_of_numbers(shape, box, salt);
}

Description described(std::uint32_t rank, std::uint32_t ranks, std::int64_t rows) {
  RankState state(
      {.rank = rank, .world_size = ranks},
      Dict{{"w", rows_of_ranks({rows, 2}, rank, ranks, 0)}, {"a long name of an object", 1}});
  state.add_own("rng", Dict{{"torch", static_cast<int>(rank)}});
  return describe(state);
}

// Ranks that make a plan together, again and again.
class PlanningRanks {
 public:
  explicit PlanningRanks(std::uint32_t ranks, std::uint64_t most_kept = KeptPlan::kMaxKeptBytes)
      : kept_(ranks, KeptPlan(most_kept)) {}

  std::shared_ptr<const GlobalPlan> plan(const std::vector<Description>& all) {
    const std::string asked = kept_[0].ask(std::to_string(++saves_), all[0]);
    told_ = 0;
    return kept_[0].plan(all[0], static_cast<std::uint32_t>(all.size()), [&](std::uint32_t rank) {
      std::string answer = kept_[rank].answer(asked, all[rank]);
      told_ += answer.size();
      return answer;
    });
  }
  std::shared_ptr<const GlobalPlan> plan(std::int64_t rows) {
    std::vector<Description> all;
    for (std::uint32_t rank = 0; rank < kept_.size(); ++rank) {
      all.push_back(described(rank, static_cast<std::uint32_t>(kept_.size()), rows));
    }
    return plan(all);
  }
  void forget(std::uint32_t rank) { kept_[rank] = KeptPlan(); }
  std::size_t told() const { return told_; }  // Bytes sent to rank 0 for the last plan.

 private:
  std::vector<KeptPlan> kept_;
  int saves_ = 0;
  std::size_t told_ = 0;
};

TEST(KeptPlanTest, IsUsedAgainWhileAllHaveWhatTheyHad) {
  PlanningRanks ranks(3);
  const auto first = ranks.plan(7);
  const std::size_t all = ranks.told();
  EXPECT_EQ(ranks.plan(7), first);
  EXPECT_LT(ranks.told(), all / 2);
  EXPECT_EQ(ranks.plan(7), first);
  EXPECT_LT(ranks.told(), all / 2);
  const auto other = ranks.plan(8);
  EXPECT_NE(other, first);
  EXPECT_EQ(other->bytes_of(1), 24U);
  EXPECT_EQ(ranks.plan(8), other);
}

TEST(KeptPlanTest, OneRankThatHasAnotherStateIsEnoughToPlanAnew) {
  PlanningRanks ranks(3);
  ranks.plan(7);
  std::vector<Description> all;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    all.push_back(described(rank, 3, 7));
  }
  RankState changed({.rank = 2, .world_size = 3},
                    Dict{{"w", rows_of_ranks({7, 2}, 2, 3, 0)}, {"more", 1}});
  all[2] = describe(changed);
  const auto plan = ranks.plan(all);
  EXPECT_EQ(plan->items(), 5U);  // Uses the description that rank 0 has kept of rank 1.
  EXPECT_EQ(plan->plan_of(1),
            GlobalPlan({all[0].names, all[2].names}, {all[0].parts, all[1].parts, all[2].parts})
                .plan_of(1));
  const std::size_t told = ranks.told();
  EXPECT_EQ(ranks.plan(all), plan);
  EXPECT_LT(ranks.told(), told);
}

TEST(KeptPlanTest, WhoHasForgottenTellsAllAgain) {
  PlanningRanks ranks(3);
  const auto first = ranks.plan(7);
  const std::size_t all = ranks.told();
  ranks.forget(1);
  EXPECT_EQ(ranks.plan(7), first);  // The plan follows from what all ranks have.
  ranks.forget(0);
  EXPECT_NE(ranks.plan(7), first);
  EXPECT_EQ(ranks.told(), all);
}

TEST(KeptPlanTest, BehindAPlanningThatFailedNothingIsKept) {
  PlanningRanks ranks(2);
  const auto first = ranks.plan(6);
  const std::size_t all = ranks.told();
  std::vector<Description> torn = {described(0, 2, 6), described(1, 2, 6)};
  torn[1] = describe(
      RankState({.rank = 1, .world_size = 2}, Dict{{"w", rows_of_ranks({6, 2}, 0, 2, 0)}}));
  EXPECT_NE(message_of([&] { ranks.plan(torn); }).find("no rank has"), std::string::npos);
  EXPECT_NE(ranks.plan(6), first);
  EXPECT_EQ(ranks.told(), all);
}

TEST(KeptPlanTest, WhatTakesTooMuchMemoryIsNotKept) {
  PlanningRanks ranks(2, 100);
  const auto first = ranks.plan(6);
  const std::size_t all = ranks.told();
  EXPECT_NE(ranks.plan(6), first);
  EXPECT_EQ(ranks.told(), all);
}

TEST(KeptPlanTest, ADigestOfWhatIsNotKeptIsAnError) {
  KeptPlan leader;
  KeptPlan other;
  const Description own = described(0, 2, 6);
  const auto plan = [&](const std::string& answer) {
    return leader.plan(own, 2, [&](std::uint32_t) { return answer; });
  };
  plan(other.answer(leader.ask("1", own), described(1, 2, 6)));
  const std::string same = other.answer(leader.ask("2", own), described(1, 2, 6));
  EXPECT_THROW(plan(same.substr(0, same.size() - 1)), CorruptError);
  EXPECT_THROW(plan(same), CorruptError);  // The kept description is forgotten now.
  EXPECT_THROW(other.answer("\x01", own), CorruptError);
}

// The state of a run's ranks, which changes from save to save.
struct Model {
  struct Tensor {
    Shape shape = {};
    DType dtype = DType::kInt32;
    bool is_cut = true;
    bool requires_grad = false;
    std::int64_t alone = -1;  // If not -1, only this rank has the tensor.
  };
  std::map<std::string, Tensor> tensors = {{"weight", {{7, 3}}}, {"bias", {{5}}}};
  std::map<std::string, std::size_t> objects = {{"step", 3}};  // With their sizes.
  std::size_t own_size = 4;
  bool has_replicas = false;
  bool is_torn = false;  // The last rank has the first rank's state.
  std::int32_t salt = 0;

  Value tree(std::int64_t rank, std::int64_t ranks) const {
    if (is_torn && rank == ranks - 1) rank = 0;
    Dict model;
    for (const auto& [name, tensor] : tensors) {
      if (tensor.alone >= 0 && tensor.alone != rank) continue;
      const bool is_cut = tensor.is_cut && tensor.alone < 0;
      const std::int64_t cuts = has_replicas ? (ranks + 1) / 2 : ranks;
      TensorView part =
          rows_of_ranks(tensor.shape, is_cut ? rank % cuts : 0, is_cut ? cuts : 1, salt);
      if (!is_cut) part.part = nullptr;
      part.dtype = tensor.dtype;
      part.requires_grad = tensor.requires_grad;
      model[name] = part;
    }
    for (const auto& [name, size] : objects) {
      model[name] = std::string(size, 'o');
    }
    return Dict{{"state", model}};
  }
};

class ModelChanges {
 public:
  explicit ModelChanges(std::uint64_t seed) : random_(seed) {}

  std::uint64_t below(std::uint64_t end) { return random_() % end; }

  // Changes what training changes, and sometimes what the plan depends on.
  void change(Model& model, std::int64_t ranks) {
    ++model.salt;
    for (auto& [name, size] : model.objects) {
      size = below(300);
    }
    model.own_size = below(300);
    model.is_torn = false;
    if (below(2) != 0) return;
    auto& tensor =
        std::next(model.tensors.begin(), static_cast<std::ptrdiff_t>(below(model.tensors.size())))
            ->second;
    switch (below(9)) {
      case 0:
        tensor.shape[0] += 1;
        break;
      case 1:
        tensor.dtype = tensor.dtype == DType::kInt32 ? DType::kFloat32 : DType::kInt32;
        break;
      case 2:
        tensor.is_cut = !tensor.is_cut;
        break;
      case 3:
        tensor.requires_grad = !tensor.requires_grad;
        break;
      case 4:
        tensor.alone = below(2) == 0 ? -1 : static_cast<std::int64_t>(below(ranks));
        break;
      case 5:
        model.tensors[fmt::format("t{}", below(4))] = {{1 + std::int64_t(below(9)), 2}};
        break;
      case 6:
        model.objects[fmt::format("o{}", below(4))] = below(9);
        break;
      case 7:
        model.has_replicas = !model.has_replicas;
        break;
      default:
        model.is_torn = true;
        if (model.tensors.size() > 2) model.tensors.erase(std::prev(model.tensors.end()));
    }
  }

 private:
  std::mt19937_64 random_;
};

// Counts the bytes with which a rank describes its state.
class CountingMeeting final : public Meeting {
 public:
  CountingMeeting(std::shared_ptr<Meeting> under, std::size_t& told)
      : under_(std::move(under)), told_(told) {}

  void set(const std::string& key, const std::string& value) override {
    // The first roll call is for planning.
    if (key.starts_with("1/report/")) told_ += value.size();
    under_->set(key, value);
  }
  std::optional<std::string> find(const std::string& key) override { return under_->find(key); }
  std::optional<std::string> exchange(const std::string& key, const std::string& from,
                                      const std::string& to) override {
    return under_->exchange(key, from, to);
  }
  void remove(const std::string& key) override { under_->remove(key); }
  Time now() override { return under_->now(); }
  void pause(std::chrono::milliseconds time) override { under_->pause(time); }

 private:
  std::shared_ptr<Meeting> under_;
  std::size_t& told_;
};

struct Saved {
  std::vector<std::string> heard;            // Per rank: "ok", or its error.
  std::map<std::string, std::string> files;  // The files of the folder.
  std::size_t told = 0;  // Bytes sent to rank 0 to describe the other ranks' states.
};

// One saver per rank. Each save is a separate simulated job.
class Savers {
 public:
  struct Save {
    std::string path = "/run/ep0";
    std::string id = {};
    std::size_t files = 1;
    std::vector<SimFault> faults = {};
  };
  explicit Savers(bool keeps) : keeps_(keeps) {}

  Saved save(const Model& model, std::int64_t ranks, const Save& save) {
    kept_.resize(static_cast<std::size_t>(ranks));
    for (auto& kept : kept_) {
      if (kept == nullptr && keeps_) kept = std::make_shared<KeptPlan>();
    }
    Fibers fibers;
    SimJob job(fibers, {.world_size = ranks, .disks = {&disk_}, .faults = save.faults});
    Saved saved;
    saved.heard.assign(kept_.size(), "dead");
    job.start([&](SimJob::Rank& rank) {
      const std::int64_t number = rank.number();
      const auto index = static_cast<std::size_t>(number);
      rank.table.draw_id = [&] { return save.id; };
      rank.table.meeting = std::make_shared<CountingMeeting>(rank.table.meeting, saved.told);
      RankSaveJob mine{.path = save.path, .tree = model.tree(number, ranks)};
      mine.own = {{"rng", Dict{{"torch", std::string(model.own_size + index, 'r')}}}};
      if (model.has_replicas) mine.replica = static_cast<std::uint32_t>(number / ((ranks + 1) / 2));
      mine.files = save.files;
      mine.kept = kept_[index];
      try {
        save_over_ranks(rank.table, *rank.store, mine);
        saved.heard[index] = "ok";
      } catch (const Error& e) {
        saved.heard[index] = e.what();
      }
    });
    fibers.run();
    if (!disk_.stat(save.path, false)) return saved;
    for (const std::string& name : disk_.list(save.path)) {
      const std::string path = save.path + "/" + name;
      saved.files[name] = as_text(testing::file_bytes(disk_, path).view);
    }
    return saved;
  }
  void forget(std::size_t rank) { kept_.at(rank) = nullptr; }

 private:
  bool keeps_;
  SimFileSystem disk_;
  std::vector<std::shared_ptr<KeptPlan>> kept_;
};

// Between two saves, the state changes, saves fail, ranks end, and plans are forgotten.
TEST(KeptPlanPropertyTest, FoldersAreThoseOfPlanningAnewByteForByte) {
  std::size_t whole = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    ModelChanges changes(seed);
    Model model;
    Savers with_kept(true);
    Savers anew(false);
    auto ranks = static_cast<std::int64_t>(1 + changes.below(4));
    for (std::uint64_t save = 0; save < 10; ++save) {
      SCOPED_TRACE(fmt::format("seed {}, save {}", seed, save));
      const Model before = model;
      changes.change(model, ranks);
      const auto some_rank = changes.below(static_cast<std::uint64_t>(ranks));
      if (changes.below(4) == 0) {  // May fail during the save.
        const bool is_dead = changes.below(2) == 0;
        const SimFault fault{.kind = is_dead ? SimFault::Kind::kCrash : SimFault::Kind::kFails,
                             .rank = static_cast<std::int64_t>(some_rank),
                             .step = 1 + changes.below(is_dead ? 60 : 20),
                             .error = EIO};
        with_kept.save(changes.below(2) == 0 ? model : before, ranks,
                       {.path = fmt::format("/run/failed{}", save),
                        .id = fmt::format("{:016x}", 1000 + save),
                        .faults = {fault}});
      }
      if (changes.below(6) == 0 && save > 0) with_kept.forget(some_rank);
      if (changes.below(6) == 0) ranks = static_cast<std::int64_t>(1 + changes.below(4));
      const Savers::Save options{.path = fmt::format("/run/ep{}", save),
                                 .id = fmt::format("{:016x}", save),
                                 .files = 1 + changes.below(3)};
      const Saved expected = anew.save(model, ranks, options);
      const Saved saved = with_kept.save(model, ranks, options);
      ASSERT_EQ(saved.heard, expected.heard);
      ASSERT_EQ(saved.files, expected.files);
      whole += saved.files.contains(".metadata") ? 1 : 0;
    }
  }
  EXPECT_GT(whole, 300U);
}

TEST(KeptPlanPropertyTest, OfAModelThatIsTrainedADigestIsTold) {
  Savers with_kept(true);
  Savers anew(false);
  Model model;
  const Savers::Save first{.path = "/run/ep0", .id = "0"};
  const std::size_t told = with_kept.save(model, 3, first).told;
  EXPECT_EQ(anew.save(model, 3, first).told, told);
  model.salt = 5;
  model.objects["step"] = 200;
  const Savers::Save second{.path = "/run/ep1", .id = "1"};
  const Saved saved = with_kept.save(model, 3, second);
  const Saved expected = anew.save(model, 3, second);
  EXPECT_THAT(saved.heard, Each("ok"));
  EXPECT_EQ(saved.files, expected.files);
  EXPECT_EQ(expected.told, told);
  const std::size_t answer = std::string_view("CHas__1\n").size() + 1 + 1 + kSealDigits;
  EXPECT_EQ(saved.told, 2 * answer);
}

}  // namespace
}  // namespace cairn::sharded
