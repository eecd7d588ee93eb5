// Saves that all ranks write together. For a minute, beginning with any of its calls, one rank
// cannot reach the store.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"

#include "checkpoint/plan/save_pipeline.h"
#include "checkpoint/ranks/save_over_ranks.h"
#include "checkpoint/ranks/save_rank_tars.h"
#include "io/threads/cancellation.h"
#include "testing/sim_job.h"
#include "testing/watched_store.h"

namespace cairn {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using ::testing::AllOf;
using ::testing::Each;
using testing::Fibers;
using ::testing::HasSubstr;
using testing::SimJob;
using testing::StoreCall;
using testing::WatchedStore;

class FiberClock final : public PauseClock {
 public:
  explicit FiberClock(Fibers& fibers) : fibers_(fibers) {}
  std::chrono::steady_clock::time_point now() override { return fibers_.now(); }
  void wait_for(std::chrono::milliseconds time) override { fibers_.pause(time); }

 private:
  Fibers& fibers_;
};

struct Layout {
  std::string name;  // The test's name.
  std::vector<std::string> paths;
  std::function<void(SimJob::Rank&, ObjectStore&, const RetryPolicy&)> save;
};

void save_folder(SimJob::Rank& rank, ObjectStore& store, const RetryPolicy& retry) {
  RankSaveJob job{
      .path = "run/ba7", .tree = Dict{{"state", Dict{{"batch", 7}}}}, .far = {.retry = retry}};
  job.own = {{"rng", Value(rank.number())}};
  if (rank.number() == 0) job.far.check = [&store] { store.read_pointer("run/latest"); };
  save_over_ranks(rank.table, store, job);
}

void save_tars(SimJob::Rank& rank, ObjectStore& store, const RetryPolicy& retry) {
  const std::string own = std::to_string(rank.number());
  RankTarsJob job{.path = "run/ba7-rank" + own + ".tar", .stage = 2, .far = {.retry = retry}};
  job.checkpoint = Dict{{"state", Dict{{"model", Dict{}}, {"rank", rank.number()}}}};
  job.far.check = [&store, own] { store.read_pointer("run/latest" + own); };
  save_rank_tars(rank.table, store, job);
}

struct Outage {
  std::int64_t rank = 0;
  std::uint64_t call = 0;  // The rank's call, counted from 1.
  bool is_answer_lost = false;
};

class StoreAwayOfARank : public ::testing::TestWithParam<Layout> {
 protected:
  StoreAwayOfARank() { set_pause_clock(std::make_shared<FiberClock>(fibers_)); }
  ~StoreAwayOfARank() override { set_pause_clock(nullptr); }

  // Returns "ok" or the error of each rank. Counts the calls of each rank.
  std::vector<std::string> save(const Outage& outage, minutes length = minutes(1),
                                minutes patience = minutes(30)) {
    store_ = memory_store();
    calls_ = {0, 0};
    SimJob job(fibers_, {.disks = {disk_.get()}, .seed = ++seed_});
    std::vector<std::string> heard(2);
    job.start([&](SimJob::Rank& rank) {
      const auto number = static_cast<std::size_t>(rank.number());
      const auto store = watched(outage, length, rank.number());
      const RetryPolicy retry = {.patience = patience,
                                 .patience_option = "save_store_patience",
                                 .random = [] { return 0.5; }};
      try {
        GetParam().save(rank, *store, retry);
        heard[number] = "ok";
      } catch (const Error& e) {
        heard[number] = e.what();
      }
    });
    fibers_.run();
    return heard;
  }

  std::shared_ptr<ObjectStore> watched(const Outage& outage, minutes length, std::int64_t rank) {
    const auto count = [this, outage, length, rank] {
      if (++calls_.at(static_cast<std::size_t>(rank)) != outage.call || rank != outage.rank) return;
      away_until_ = fibers_.now() + length;
    };
    const auto fail = [this, outage, rank] {
      if (rank == outage.rank && fibers_.now() < away_until_)
        throw StorageError("no connection", 0, true);
    };
    testing::StoreHooks hooks;
    hooks.before = [=](StoreCall, const std::string&) {
      if (outage.is_answer_lost) fail();
      count();
      if (!outage.is_answer_lost) fail();
    };
    hooks.after = [=](StoreCall, const std::string&) { fail(); };
    return std::make_shared<WatchedStore>(store_, hooks);
  }

  Fibers fibers_;
  std::unique_ptr<testing::SimFileSystem> disk_ = std::make_unique<testing::SimFileSystem>();
  std::shared_ptr<ObjectStore> store_;
  std::vector<std::uint64_t> calls_;  // Per rank.
  Fibers::Time away_until_ = {};
  std::uint64_t seed_ = 0;
};

TEST_P(StoreAwayOfARank, AnyCallMayFailForAMinute) {
  ASSERT_THAT(save({}), Each("ok"));
  const std::vector<std::uint64_t> counts = calls_;
  for (const bool is_answer_lost : {false, true}) {
    for (const std::int64_t rank : {0, 1}) {
      ASSERT_GT(counts.at(static_cast<std::size_t>(rank)), 2U);
      for (std::uint64_t call = 1; call <= counts.at(static_cast<std::size_t>(rank)); ++call) {
        EXPECT_THAT(save({rank, call, is_answer_lost}), Each("ok"))
            << "rank " << rank << ", call " << call << (is_answer_lost ? ", answer lost" : "");
        for (const std::string& path : GetParam().paths)
          EXPECT_TRUE(verify(path, Verify::kFull, store_).ok()) << path;
      }
    }
  }
}

TEST_P(StoreAwayOfARank, WhenPatienceIsOverItIsTheSameErrorOnAll) {
  for (const std::int64_t rank : {0, 1}) {
    const auto heard = save({rank, 2, false}, minutes(60));
    EXPECT_THAT(heard, Each(AllOf(HasSubstr("rank " + std::to_string(rank)),
                                  HasSubstr("failed for 1800 s (more: save_store_patience)"),
                                  HasSubstr("no connection"))));
    EXPECT_EQ(heard[0], heard[1]);
  }
}

// A meeting place for ranks that are threads.
class SharedMeeting final : public Meeting {
 public:
  void set(const std::string& key, const std::string& value) override {
    const std::scoped_lock lock(mutex_);
    values_[key] = value;
  }
  std::optional<std::string> find(const std::string& key) override {
    const std::scoped_lock lock(mutex_);
    const auto found = values_.find(key);
    return found == values_.end() ? std::nullopt : std::optional(found->second);
  }
  std::optional<std::string> exchange(const std::string& key, const std::string& from,
                                      const std::string& to) override {
    const std::scoped_lock lock(mutex_);
    std::string& value = values_[key];
    if (value == from) value = to;
    return value;
  }
  void remove(const std::string& key) override {
    const std::scoped_lock lock(mutex_);
    values_.erase(key);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> values_;
};

// A server that answers one rank so late that the other ranks would not wait that long for a silent
// rank.
class SlowStoreOfARank : public ::testing::TestWithParam<Layout> {};

TEST_P(SlowStoreOfARank, ACallThatTakesLongIsNoHang) {
  const auto memory = memory_store();
  const auto meeting = std::make_shared<SharedMeeting>();
  open_table(*meeting);
  std::vector<std::string> heard(2);
  std::vector<std::jthread> ranks;
  for (const std::int64_t number : {0, 1}) {
    ranks.emplace_back([&, number] {
      SimJob::Rank rank;
      rank.table = {.meeting = meeting, .me = {.rank = number, .world_size = 2}};
      rank.table.patience = {
          .silence = milliseconds(1200), .beat = milliseconds(100), .look = milliseconds(50)};
      rank.table.has_threads = true;
      bool is_slow = number == 0;  // Only the first call is slow.
      WatchedStore store(memory, {.before = [&is_slow](StoreCall call, const std::string&) {
                           if (call != StoreCall::kBegin || !std::exchange(is_slow, false)) return;
                           std::promise<void>().get_future().wait_for(milliseconds(2500));
                         }});
      try {
        GetParam().save(rank, store, {});
        heard.at(static_cast<std::size_t>(number)) = "ok";
      } catch (const Error& e) {
        heard.at(static_cast<std::size_t>(number)) = e.what();
      }
    });
  }
  ranks.clear();  // Joins the threads.
  EXPECT_THAT(heard, Each("ok"));
}

// If a rank waited for its store before it meets the other ranks, they would take it for a rank
// that hangs.
TEST(PipelineOfARank, ThePointerIsCheckedByTheWrite) {
  const auto store = std::make_shared<WatchedStore>(memory_store());
  SavePipeline pipeline({.async = false, .store = store});
  SaveJob job{.path = "run/ba7", .latest = "run/latest", .is_of_all_ranks = true};
  job.write = [&](ObjectStore& to, const SaveJob& save, const auto& point) {
    EXPECT_EQ(store->calls(StoreCall::kReadPointer), 0U);
    save.far.check();
    EXPECT_EQ(store->calls(StoreCall::kReadPointer), 1U);
    to.begin(save.path)->commit();
    point();
    return std::uint64_t{0};
  };
  pipeline.submit(job);
  EXPECT_EQ(store->read_pointer("run/latest")->target, "run/ba7");
}

const auto kBothLayouts =
    ::testing::Values(Layout{"Folder", {"run/ba7"}, save_folder},
                      Layout{"Tars", {"run/ba7-rank0.tar", "run/ba7-rank1.tar"}, save_tars});
constexpr auto kLayoutName = [](const auto& one) { return one.param.name; };
INSTANTIATE_TEST_SUITE_P(Layouts, StoreAwayOfARank, kBothLayouts, kLayoutName);
INSTANTIATE_TEST_SUITE_P(Layouts, SlowStoreOfARank, kBothLayouts, kLayoutName);

}  // namespace
}  // namespace cairn
