#include "io/process/listening_socket.h"

#include <gtest/gtest.h>

#include "io/process/reserved_port.h"

namespace cairn {
namespace {

TEST(ListeningSocketTest, APortIsListenedAtOnceSomebodyListens) {
  const ReservedPort port;
  EXPECT_FALSE(is_listened_at_loopback(port.number()));
  {
    const FileDescriptor socket = listen_at_loopback(port.number());
    EXPECT_TRUE(is_listened_at_loopback(port.number()));
    EXPECT_TRUE(is_listened_at_loopback(port.number()));
  }
  EXPECT_FALSE(is_listened_at_loopback(port.number()));
}

}  // namespace
}  // namespace cairn
