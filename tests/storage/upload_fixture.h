// Helpers for tests of uploads: small files, and stores that hold up a transfer.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "io/bytes/source_part.h"
#include "storage/publish/publish.h"
#include "storage/publish/upload_queue.h"
#include "testing/watched_store.h"

namespace cairn::testing {

inline constexpr auto kForever = UploadQueue::Clock::time_point::max();

inline std::shared_ptr<const ByteSource> file_of(const std::string& text) {
  const auto owner = std::make_shared<const std::string>(text);
  return source_of({as_bytes(*owner), owner}, "a file");
}

inline RetryPolicy at_once(int attempts = 3) {
  return {.attempts = attempts, .pause = [](std::chrono::milliseconds) {}};
}

inline std::string text_in(ObjectStore& store, const std::string& name) {
  return std::string(as_text(read_all(*store.open(name)).view));
}

inline ObjectToPublish object(const std::string& name, const std::string& text,
                              Replace replace = Replace::kAll) {
  return {.name = name, .replace = replace, .fill = [text](ObjectWrite& out) {
            out.write(as_bytes(text));
          }};
}

// Uploads a text in place of the object that the queue knows under that name, and waits for the
// end.
inline void upload_known(UploadQueue& queue, const std::string& name, const std::string& text,
                         std::function<bool(const std::string&)> is_retired = nullptr) {
  queue.submit({.name = name,
                .file = file_of(text),
                .replace = Replace::kOwn,
                .is_retired = std::move(is_retired)});
  EXPECT_TRUE(queue.wait(kForever));
}

// Holds up transfers until it is opened.
class Gate {
 public:
  StoreHooks hooks(const std::string& held) {
    return {.before = [this, held](StoreCall call, const std::string& name) {
      if (call != StoreCall::kCommit || name != held || !first_.exchange(false)) return;
      arrived_.set_value();
      open_.get_future().wait();
    }};
  }
  void wait_for_arrival() { arrived_.get_future().wait(); }
  void open() { open_.set_value(); }

 private:
  std::atomic<bool> first_ = true;
  std::promise<void> arrived_;
  std::promise<void> open_;
};

}  // namespace cairn::testing
