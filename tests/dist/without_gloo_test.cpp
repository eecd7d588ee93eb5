// A cairn that was built without Gloo: this program has its own src/dist/backend.cpp.
#include <gmock/gmock.h>

#include "cairn/dist/dist.h"
#include "cairn/error.h"

#include "testing/environment_variable.h"
#include "testing/message_of.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using testing::EnvironmentVariable;
using ::testing::HasSubstr;
using testing::message_of;

TEST(DistWithoutGloo, SeveralProcessesAreRefusedAndNobodyWaits) {
  const auto meet = [] {
    dist::initialize(
        {.rank = 1, .world_size = 2, .master_addr = "127.0.0.1", .master_port = 29500});
  };
  EXPECT_THAT(message_of<UnsupportedError>(meet),
              AllOf(HasSubstr("without Gloo"), HasSubstr("libgloo-dev")));
  EXPECT_FALSE(dist::is_initialized());
}

TEST(DistWithoutGloo, OneProcessIsAsEver) {
  const EnvironmentVariable rank("RANK", nullptr);
  const EnvironmentVariable world("WORLD_SIZE", nullptr);
  dist::initialize({.rank = 0, .world_size = 1});
  dist::barrier();
  EXPECT_EQ(dist::all_gather_values(Value(3)).size(), 1U);
  dist::shutdown();
}

}  // namespace
}  // namespace cairn
