// Tests how many ranges of objects are under way at once, and in which order their bytes are shown.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <mutex>
#include <numeric>
#include <thread>

#include "s3_fixture.h"

namespace cairn {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kSize = 200 * kMiB + 12345;

std::byte byte_at(std::uint64_t offset) { return static_cast<std::byte>(offset * 31 >> 7); }

// Every object has kSize bytes. A range is under way from its start until wait(). The client notes
// the highest number of ranges and bytes under way.
class PatternClient final : public HttpClient {
 public:
  std::unique_ptr<HttpCall> start(HttpRequest request) override {
    const std::string range = value_of(request, "range");
    const std::size_t minus = range.find('-');
    const bool is_tail = minus == 6;
    const std::uint64_t last = number(range.substr(minus + 1));
    const std::uint64_t begin = is_tail ? kSize - last : number(range.substr(6, minus - 6));
    const std::uint64_t end = is_tail ? kSize : last + 1;
    EXPECT_TRUE(is_tail || value_of(request, "if-match") == "\"e\"");
    return std::make_unique<Call>(*this, std::move(request), begin, end);
  }

  int requests = 0;
  int most = 0;
  std::uint64_t most_bytes = 0;
  bool breaks_off = false;  // whether the first answer to each range breaks off in its middle

 private:
  class Call final : public HttpCall {
   public:
    Call(PatternClient& client, HttpRequest request, std::uint64_t begin, std::uint64_t end)
        : client_(client), request_(std::move(request)), begin_(begin), end_(end) {
      client_.add(1, end_ - begin_);
    }
    ~Call() override { done(); }
    HttpResponse wait() override {
      done();
      HttpResponse response{.status = 206,
                            .headers = {{"etag", "\"e\""},
                                        {"content-range", "bytes " + std::to_string(begin_) + "-" +
                                                              std::to_string(end_ - 1) + "/" +
                                                              std::to_string(kSize)}}};
      std::uint64_t size = end_ - begin_;
      if (request_.into.empty()) {
        response.body.resize(size);
        fill(std::as_writable_bytes(std::span(response.body)));
        return response;
      }
      if (client_.breaks_off && size > kMiB) {
        size /= 2;
        response.failure = "broken off";
        response.may_work_later = true;
      }
      fill(request_.into.first(size));
      response.received = size;
      return response;
    }
    void cancel() override {}

   private:
    void fill(std::span<std::byte> place) const {
      for (std::size_t i = 0; i < place.size(); ++i)
        place[i] = byte_at(begin_ + i);
    }
    void done() {
      if (!std::exchange(is_done_, true)) client_.add(-1, -(end_ - begin_));
    }

    PatternClient& client_;
    HttpRequest request_;
    std::uint64_t begin_;
    std::uint64_t end_;
    bool is_done_ = false;
  };

  static std::uint64_t number(const std::string& text) {
    std::uint64_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
  }
  static std::string value_of(const HttpRequest& request, const std::string& name) {
    for (const HttpHeader& header : request.headers) {
      if (header.name == name) return header.value;
    }
    return "";
  }
  void add(int count, std::uint64_t bytes) {
    const std::scoped_lock lock(mutex_);
    requests += std::max(count, 0);
    now_ += count;
    bytes_ += bytes;
    most = std::max(most, now_);
    most_bytes = std::max(most_bytes, bytes_);
  }

  std::mutex mutex_;
  int now_ = 0;
  std::uint64_t bytes_ = 0;
};

class FarReadingTest : public ::testing::Test {
 protected:
  std::shared_ptr<ObjectStore> store(int parallel_requests = 6) {
    const testing::CleanAwsEnvironment clean;
    return s3::make_s3_store(s3::resolve_config(
        {.bucket = "bucket",
         .access_key_id = "AKID",
         .secret_access_key = "secret",
         .parallel_requests = parallel_requests},
        {.client = client_, .retries = {.clock = std::make_shared<testing::FakeNetClock>()}}));
  }
  std::shared_ptr<const ByteSource> opened(int parallel_requests = 6) {
    auto source = store(parallel_requests)->open("a");
    client_->requests = 0;
    client_->most = 0;
    client_->most_bytes = 0;
    return source;
  }

  std::shared_ptr<PatternClient> client_ = std::make_shared<PatternClient>();
};

// Checks that parts come one after another, with the right bytes, on this thread.
class InOrder {
 public:
  explicit InOrder(std::span<const ByteSource::Part> parts) : parts_(parts) {}
  void operator()(std::size_t part, std::uint64_t begin, ByteView bytes) {
    EXPECT_EQ(std::this_thread::get_id(), thread_);
    EXPECT_LE(bytes.size(), 4 * kMiB);
    while (part_ < part && done_ == parts_[part_].size) {
      ++part_;
      done_ = 0;
    }
    ASSERT_EQ(part, part_);
    ASSERT_EQ(begin, done_);
    const std::uint64_t offset = parts_[part].offset + begin;
    ASSERT_EQ(bytes.front(), byte_at(offset));
    ASSERT_EQ(bytes.back(), byte_at(offset + bytes.size() - 1));
    done_ += bytes.size();
    all_ += bytes.size();
  }
  std::uint64_t all() const { return all_; }

 private:
  std::span<const ByteSource::Part> parts_;
  std::thread::id thread_ = std::this_thread::get_id();
  std::size_t part_ = 0;
  std::uint64_t done_ = 0;
  std::uint64_t all_ = 0;
};

TEST_F(FarReadingTest, AllOfALargeObjectComesInManyRangesAtOnce) {
  const auto source = opened();
  EXPECT_TRUE(source->shows_in_order());
  const ByteSource::Part all{.offset = 0, .size = kSize};
  InOrder look({&all, 1});
  source->read_each({&all, 1}, std::ref(look));
  EXPECT_EQ(look.all(), kSize);
  EXPECT_EQ(client_->most, 12);
  EXPECT_EQ(client_->requests, 50);
  EXPECT_LE(client_->most_bytes, 64 * kMiB);
}

TEST_F(FarReadingTest, ManyPartsAreShownInTheirOrder) {
  std::vector<std::byte> kept(30 * kMiB);
  std::vector<ByteSource::Part> parts;
  for (std::uint64_t at = 5; at + 700'000 < kSize; at += 700'100) {
    parts.push_back({.offset = at, .size = 700'000});
  }
  parts[7].into = std::span(kept).first(700'000);
  parts.push_back({.offset = 3, .size = 30 * kMiB, .into = kept});  // backwards
  parts.push_back({.offset = kSize - 1000, .size = 1000});  // read when the object was opened
  // partly read when the object was opened
  parts.push_back({.offset = kSize - 300'000, .size = 300'000});
  parts.push_back({.offset = 77, .size = 0});
  InOrder look(parts);
  opened()->read_each(parts, std::ref(look));
  const std::uint64_t expected =
      std::accumulate(parts.begin(), parts.end(), std::uint64_t{0},
                      [](std::uint64_t sum, const auto& part) { return sum + part.size; });
  EXPECT_EQ(look.all(), expected);
  EXPECT_EQ(kept.back(), byte_at(3 + kept.size() - 1));
  EXPECT_LE(client_->requests, 75);
}

TEST_F(FarReadingTest, FewBytesTakeFewRanges) {
  std::vector<std::byte> into(16 * kMiB);
  const ByteSource::Range range{kMiB, into};
  opened()->read({&range, 1});
  EXPECT_EQ(client_->requests, 2);
  EXPECT_EQ(into.back(), byte_at(kMiB + into.size() - 1));
}

TEST_F(FarReadingTest, TheLimitIsOfAllThatIsReadFromAStore) {
  const auto far = store(64);
  const auto one = far->open("a");
  const auto other = far->open("b");
  client_->most_bytes = 0;
  client_->most = 0;
  const ByteSource::Part all{.offset = 0, .size = kSize};
  bool is_first = true;
  one->read_each({&all, 1}, [&](std::size_t, std::uint64_t, ByteView) {
    if (!std::exchange(is_first, false)) return;
    InOrder look({&all, 1});
    other->read_each({&all, 1}, std::ref(look));
    EXPECT_EQ(look.all(), kSize);
  });
  EXPECT_GT(client_->most_bytes, 56 * kMiB);
  EXPECT_LE(client_->most_bytes, 64 * kMiB + 8 * kMiB) << "and a range for each reader";
}

TEST_F(FarReadingTest, ARangeThatBreaksOffGoesOnWhereItStopped) {
  const auto source = opened();
  client_->breaks_off = true;
  const ByteSource::Part all{.offset = 0, .size = 80 * kMiB};
  InOrder look({&all, 1});
  source->read_each({&all, 1}, std::ref(look));
  EXPECT_EQ(look.all(), 80 * kMiB);
}

TEST_F(FarReadingTest, WhatALookThrowsEndsIt) {
  const auto source = opened();
  const ByteSource::Part all{.offset = 0, .size = kSize};
  EXPECT_THROW(source->read_each({&all, 1}, [](auto...) { throw UsageError("no more"); }),
               UsageError);
  EXPECT_LE(client_->requests, 12);
  std::vector<std::byte> into(1000);
  const ByteSource::Range range{5, into};
  source->read({&range, 1});
  EXPECT_EQ(into.back(), byte_at(1004));
}

}  // namespace
}  // namespace cairn
