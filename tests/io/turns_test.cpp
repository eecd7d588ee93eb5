#include "io/threads/turns.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "cairn/error.h"

#include "io/threads/cancellation.h"

namespace cairn {
namespace {

// Whether waiting for a turn ends with CancelledError.
bool is_cancelled(Turns& turns, Cancellation& cancellation) {
  const CancelScope scope(&cancellation);
  try {
    const Turn mine(turns);
    return false;
  } catch (const CancelledError&) {
    return true;
  }
}

TEST(TurnsTest, OneHasItAtATime) {
  Turns turns;
  int count = 0;  // protected only by the turns
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 1000; ++n) {
        const Turn turn(turns);
        ++count;
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(count, 4000);
}

TEST(TurnsTest, OneThatIsCancelledTakesNone) {
  Turns turns;
  {
    const Turn turn(turns);
    Cancellation cancellation("the run has ended");
    std::atomic<bool> was_cancelled = false;
    std::thread other([&] { was_cancelled = is_cancelled(turns, cancellation); });
    cancellation.cancel();
    other.join();
    EXPECT_TRUE(was_cancelled);
  }
  EXPECT_TRUE(Turn(turns)) << "the next has it";
}

// This holds even if the cancellation was renewed before the thread noticed it. Without a turn the
// thread does not continue.
TEST(TurnsTest, OneThatWasCancelledTakesNone) {
  Turns turns;
  const Turn turn(turns);
  Cancellation cancellation("the run has ended");
  for (int i = 0; i < 100; ++i) {
    std::atomic<bool> was_cancelled = false;
    std::atomic<bool> is_over = false;
    std::thread other([&] {
      was_cancelled = is_cancelled(turns, cancellation);
      is_over = true;
    });
    while (!is_over) {
      cancellation.cancel();
      cancellation.renew();
    }
    other.join();
    EXPECT_TRUE(was_cancelled);
  }
}

TEST(TurnsTest, OneThatWaitsForSoLongHasNone) {
  Turns turns;
  const Turn turn(turns);
  std::thread other([&] { EXPECT_FALSE(Turn(turns, std::chrono::milliseconds(1))); });
  other.join();
}

}  // namespace
}  // namespace cairn
