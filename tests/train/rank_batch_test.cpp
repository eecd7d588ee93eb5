// The messages of a batch between simulated ranks: fibers take turns in random order, and a sum
// ends when all ranks have come to it.
#include "train/loop/rank_batch.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <stdexcept>
#include <vector>

#include "testing/fibers.h"

namespace cairn {
namespace {

using std::chrono::microseconds;
using ::testing::Each;
using testing::Fibers;

// Where the sums of a job's ranks meet. Each rank's n-th message belongs to the n-th message of all
// others.
class MeetingSums {
 public:
  MeetingSums(Fibers& fibers, int ranks, std::uint64_t seed)
      : fibers_(fibers), ranks_(ranks), random_(seed), sent_(static_cast<std::size_t>(ranks)) {}

  // Lets other ranks run for a random time.
  void pass_time() { fibers_.pause(microseconds(random_() % 20)); }

  // Throws if the ranks sum different things, or if a rank does not come.
  std::vector<double> sum(int rank, const std::vector<double>& own, const std::string& what) {
    pass_time();
    const std::size_t number = sent_[static_cast<std::size_t>(rank)]++;
    if (number == messages_.size()) {
      messages_.push_back({.what = what, .sums = std::vector<double>(own.size()), .came = 0});
    }
    if (messages_[number].what != what || messages_[number].sums.size() != own.size()) {
      throw std::runtime_error(fmt::format("message {} of rank {} is \"{}\", another rank's \"{}\"",
                                           number, rank, what, messages_[number].what));
    }
    std::ranges::transform(own, messages_[number].sums, messages_[number].sums.begin(),
                           std::plus<>());
    ++messages_[number].came;
    for (int tries = 0; messages_[number].came < ranks_; ++tries) {
      if (tries == 1000) throw std::runtime_error("rank " + std::to_string(rank) + " hangs");
      fibers_.pause(microseconds(10));
    }
    return messages_[number].sums;
  }

  std::size_t count(const std::string& what) const {
    return static_cast<std::size_t>(
        std::ranges::count(messages_, what, [](const Message& one) { return one.what; }));
  }

 private:
  struct Message {
    std::string what;
    std::vector<double> sums;
    int came;
  };

  Fibers& fibers_;
  const int ranks_;
  std::mt19937_64 random_;
  std::vector<std::size_t> sent_;  // By rank.
  std::vector<Message> messages_;
};

enum class Place : std::uint8_t { kNever, kFetch, kInside, kBatchEnd, kEvaluation, kSave };

// The actions of a rank that the other ranks do not see.
struct RankPlan {
  int length = 3;  // Batches in each epoch of this rank's loader.
  Place stops_at = Place::kNever;
  int stops_in = 0;             // The batch, from 0.
  int changes_parameters = -1;  // The batch; before message 1.
  int freezes = -1;             // The batch; between messages 1 and 2.
  bool may_change = false;
  bool peeks = false;
};

constexpr int kMaxDuration = 5;

// A rank's training, as FitLoop does it.
class SimulatedTraining {
 public:
  SimulatedTraining(MeetingSums& sums, int rank, RankPlan plan, bool evaluates)
      : sums_(sums),
        rank_(rank),
        plan_(plan),
        evaluates_(evaluates),
        rank_batch_([this](const std::vector<double>& own, const std::string& what) {
          return sums_.sum(rank_, own, what);
        }) {}

  void run() {
    for (;;) {
      agree();
      if (ends_ || !run_epoch()) return;
    }
  }

  int batches() const { return batch_; }
  std::int64_t samples() const { return samples_; }
  microseconds time() const { return time_; }
  // The decisions that this rank shared with the others, in order.
  const std::vector<std::string>& joint_steps() const { return joint_steps_; }

 private:
  bool is_over() const { return stopped_ || batch_ >= kMaxDuration; }

  void come_to(Place place, int batch) {
    sums_.pass_time();
    if (place == plan_.stops_at && batch == plan_.stops_in) stopped_ = true;
  }

  void agree(microseconds duration = {}, std::optional<RankBatch::Begin> next = std::nullopt) {
    const auto all =
        rank_batch_.end({.stops = is_over(), .asked = {}, .duration = duration, .next = next});
    time_ += all.duration;
    stopped_ = stopped_ || all.stops;
    ends_ = is_over();
    joint_steps_.push_back(ends_ ? "ends" : "continues");
  }

  RankBatch::Join own_join() const {
    return {.weight = 1.0 + rank_,
            .has_other_parameters = parameters_ != synced_,
            .has_other_buffers = false};
  }

  RankBatch::Begin own_begin() const {
    return {.has_batch = true,
            .samples = rank_ + 1,
            .may_change = plan_.may_change,
            .join = own_join()};
  }

  std::optional<RankBatch::Begin> foresee() {
    if (!plan_.peeks || plan_.may_change || is_over()) return std::nullopt;
    if (in_epoch_ + 1 >= plan_.length) return std::nullopt;
    if (plan_.changes_parameters == batch_) parameters_ = 1;
    return own_begin();
  }

  bool run_epoch() {
    bool stops = false;
    for (in_epoch_ = 0;; ++in_epoch_) {
      const bool fetches = !stops || rank_batch_.has_begun();
      if (fetches) come_to(Place::kFetch, batch_);
      const auto all = rank_batch_.begin([&] {
        RankBatch::Begin own{.stops = stops, .may_change = plan_.may_change};
        if (!fetches) return own;
        if (plan_.changes_parameters == batch_) parameters_ = 1;
        if (in_epoch_ < plan_.length) own = own_begin();
        return own;
      });
      if (all.stops) return false;
      if (!all.has_batch) return true;
      samples_ += all.samples;
      train();
      stops = is_over();
      if (ends_) return false;
    }
  }

  void train() {
    if (plan_.freezes == batch_) parameters_ = 2;
    const auto join = rank_batch_.join([this] { return own_join(); });
    joint_steps_.push_back(fmt::format("trains with weight {}", join.weight));
    if (join.has_other_parameters) {
      joint_steps_.emplace_back("compares parameters");
      synced_ = parameters_;
    }
    EXPECT_EQ(parameters_, synced_);
    come_to(Place::kInside, batch_);
    ++batch_;
    come_to(Place::kBatchEnd, batch_ - 1);
    agree(microseconds(rank_ == 0 ? 7 : 0), foresee());
    if (evaluates_) {
      come_to(Place::kEvaluation, batch_ - 1);
      agree();
    }
    come_to(Place::kSave, batch_ - 1);
  }

  MeetingSums& sums_;
  const int rank_;
  const RankPlan plan_;
  const bool evaluates_;
  RankBatch rank_batch_;
  int batch_ = 0;
  int in_epoch_ = 0;
  std::int64_t samples_ = 0;
  microseconds time_{};
  int parameters_ = 0;
  int synced_ = 0;
  bool stopped_ = false;
  bool ends_ = false;
  std::vector<std::string> joint_steps_;
};

struct Outcome {
  std::vector<int> batches = {};  // By rank.
  std::vector<std::string> errors = {};
  std::size_t begins = 0;
  std::size_t joins = 0;
  std::size_t ends = 0;
};

Outcome simulate(Fibers& fibers, const std::vector<RankPlan>& plans, bool evaluates,
                 std::uint64_t seed = 1) {
  const int ranks = static_cast<int>(plans.size());
  MeetingSums sums(fibers, ranks, seed);
  std::vector<SimulatedTraining> all;
  all.reserve(plans.size());
  Outcome outcome;
  for (int rank = 0; rank < ranks; ++rank)
    all.emplace_back(sums, rank, plans[static_cast<std::size_t>(rank)], evaluates);
  for (SimulatedTraining& one : all) {
    fibers.spawn([&] {
      try {
        one.run();
      } catch (const std::exception& error) {
        outcome.errors.emplace_back(error.what());
      }
    });
  }
  fibers.run();
  for (const SimulatedTraining& one : all) {
    outcome.batches.push_back(one.batches());
    EXPECT_EQ(one.joint_steps(), all[0].joint_steps());
    EXPECT_EQ(one.samples(), one.batches() * ranks * (ranks + 1) / 2);
    EXPECT_EQ(one.time(), microseconds(7 * one.batches()));
  }
  outcome.begins = sums.count("beginning a batch");
  outcome.joins = sums.count("weighing a batch");
  outcome.ends = sums.count("ending a batch");
  return outcome;
}

// Whether message 5 of a batch says that the next one is trained.
bool is_next_known(const std::vector<RankPlan>& plans, bool evaluates, int batch, int length) {
  return !evaluates && (batch + 1) % length != 0 &&
         std::ranges::all_of(plans,
                             [](const RankPlan& one) { return one.peeks && !one.may_change; });
}

// How many batches a job trains. A stop in a batch's events ends training after this batch. But the
// fetch that ends an epoch belongs to no batch, and a save comes after message 5.
int expected_batches(const std::vector<RankPlan>& plans, bool evaluates) {
  int length = plans[0].length;
  for (const RankPlan& plan : plans)
    length = std::min(length, plan.length);
  int batches = kMaxDuration;
  for (const RankPlan& plan : plans) {
    if (plan.stops_at == Place::kNever) continue;
    if (plan.stops_at == Place::kEvaluation && !evaluates) continue;
    const bool is_at_end =
        plan.stops_at == Place::kFetch && plan.stops_in > 0 && plan.stops_in % length == 0;
    const bool is_too_late =
        plan.stops_at == Place::kSave && is_next_known(plans, evaluates, plan.stops_in, length);
    batches = std::min(batches, plan.stops_in + (is_at_end ? 0 : 1) + (is_too_late ? 1 : 0));
  }
  return batches;
}

// All ways in which a rank may stop.
std::vector<RankPlan> stopping_plans() {
  std::vector<RankPlan> plans = {RankPlan()};
  for (const Place place :
       {Place::kFetch, Place::kInside, Place::kBatchEnd, Place::kEvaluation, Place::kSave}) {
    for (const int batch : {0, 1, 2})
      plans.push_back({.stops_at = place, .stops_in = batch});
  }
  return plans;
}

TEST(RankBatchTest, TwoRanksEndTogetherHoweverTheyStop) {
  Fibers fibers;
  for (RankPlan first : stopping_plans()) {
    for (RankPlan second : stopping_plans()) {
      for (const auto& [one, other] : {std::pair(1, 2), std::pair(2, 2), std::pair(3, 1)}) {
        for (const int peeking : {0, 1, 2}) {
          for (const bool evaluates : {false, true}) {
            first.length = one;
            second.length = other;
            first.peeks = peeking > 0;
            second.peeks = peeking > 1;
            const Outcome outcome = simulate(fibers, {first, second}, evaluates);
            EXPECT_THAT(outcome.batches, Each(expected_batches({first, second}, evaluates)));
            ASSERT_THAT(outcome.errors, ::testing::IsEmpty());
          }
        }
      }
    }
  }
}

RankPlan random_plan(std::mt19937_64& random) {
  const auto draw = [&random](int below) { return static_cast<int>(random() % below); };
  RankPlan plan{.length = 1 + draw(4),
                .stops_at = static_cast<Place>(draw(6)),
                .stops_in = draw(5),
                .changes_parameters = draw(10) - 5,
                .may_change = draw(3) == 0,
                .peeks = draw(4) != 0};
  if (plan.may_change) plan.freezes = draw(10) - 5;
  return plan;
}

TEST(RankBatchTest, ManyRanksThatDifferDecideTheSame) {
  Fibers fibers;
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<RankPlan> plans(2 + seed % 3);
    std::ranges::generate(plans, [&random] { return random_plan(random); });
    const bool evaluates = seed % 2 == 0;
    const Outcome outcome = simulate(fibers, plans, evaluates, seed);
    EXPECT_THAT(outcome.batches, Each(expected_batches(plans, evaluates))) << "seed " << seed;
    ASSERT_THAT(outcome.errors, ::testing::IsEmpty()) << "seed " << seed;
  }
}

TEST(RankBatchTest, ABatchCostsTwoMessagesAndAThirdIfACallbackMayChangeIt) {
  Fibers fibers;
  const Outcome usual = simulate(fibers, {{.length = 5}, {.length = 5}}, false);
  EXPECT_EQ(usual.begins, 5U);
  EXPECT_EQ(usual.joins, 0U);
  EXPECT_EQ(usual.ends, 1U + 5U);  // One before the epoch.
  const Outcome changing =
      simulate(fibers, {{.length = 5}, {.length = 5, .may_change = true}}, false);
  EXPECT_EQ(changing.joins, 5U);
  EXPECT_EQ(changing.begins + changing.ends, usual.begins + usual.ends);
}

TEST(RankBatchTest, ABatchCostsOneMessageIfTheLoadersCanPeek) {
  Fibers fibers;
  const RankPlan plan = {.length = 5, .peeks = true};
  const Outcome known = simulate(fibers, {plan, plan}, false);
  EXPECT_EQ(known.begins, 1U);  // The first of the epoch.
  EXPECT_EQ(known.joins, 0U);
  EXPECT_EQ(known.ends, 1U + 5U);
  const Outcome evaluated = simulate(fibers, {plan, plan}, true);
  EXPECT_EQ(evaluated.begins, 5U);
  const Outcome known_to_one = simulate(fibers, {plan, {.length = 5}}, false);
  EXPECT_EQ(known_to_one.begins, 5U);
}

TEST(RankBatchTest, AnOptimizerThatEvaluatesABatchAgainWeighsItAgain) {
  int sums = 0;
  RankBatch batch([&sums](std::vector<double> own, const std::string& /*what*/) {
    ++sums;
    return own;
  });
  batch.begin([] { return RankBatch::Begin{.has_batch = true, .join = {.weight = 3}}; });
  const auto own = [] { return RankBatch::Join{.weight = 5, .has_other_buffers = true}; };
  EXPECT_EQ(batch.join(own).weight, 3);
  EXPECT_EQ(sums, 1);
  EXPECT_EQ(batch.join(own).weight, 5);
  EXPECT_TRUE(batch.join(own).has_other_buffers);
  EXPECT_EQ(sums, 3);
}

TEST(RankBatchTest, OneProcessIsGivenBackWhatItSays) {
  RankBatch alone(nullptr);
  const auto begun = alone.begin(
      [] { return RankBatch::Begin{.stops = true, .samples = 4, .join = {.weight = 2}}; });
  EXPECT_TRUE(begun.stops);
  EXPECT_FALSE(begun.has_batch);
  EXPECT_EQ(begun.samples, 4);
  const auto ended = alone.end({.stops = false,
                                .asked = {.save = true, .stop = false, .reason = "SIGUSR2"},
                                .duration = microseconds(3)});
  EXPECT_FALSE(ended.stops);
  EXPECT_EQ(ended.asked.reason, "SIGUSR2");
  EXPECT_EQ(ended.duration, microseconds(3));
}

TEST(RankBatchTest, ARequestToOneRankIsARequestToAll) {
  RankBatch batch([](std::vector<double> own, const std::string& /*what*/) {
    own[1] += 1;  // Another rank is asked to save.
    return own;
  });
  const auto ended = batch.end({});
  EXPECT_TRUE(ended.asked.save);
  EXPECT_FALSE(ended.asked.stop);
  EXPECT_EQ(ended.asked.reason, "requested on another rank");
}

}  // namespace
}  // namespace cairn
