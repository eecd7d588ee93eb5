// Reading an object:
//
//  1. Opening requests the last bytes: the answer reports size and version, and most formats begin
//     at the end. A small object arrives whole.
//  2. Ranges that are close become one request, large ranges several. A request with only one
//     destination writes straight into it. Many requests are under way at once, as far as the store
//     has room (RangesUnderWay). The reader waits for the oldest request, shows its bytes, and
//     starts the next request. So bytes are shown in order.
//  3. Every request names the version that it means. Every answer's version, if it has one, is
//     compared with that version. Bytes of different versions are never mixed.
//  4. A request that breaks off resumes where it stopped (remote.cpp).
#include "storage/remote/source.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <deque>

#include "cairn/error.h"

#include "core/text/printable.h"

namespace cairn {
namespace {

// Largest range of a request. A read of few bytes takes few requests; a read of many bytes keeps
// many connections busy.
constexpr std::uint64_t kLargestRange = std::uint64_t{8} << 20;
constexpr std::uint64_t kRangeOfMany = std::uint64_t{4} << 20;
constexpr std::uint64_t kManyBytes = RangesUnderWay::kMaxBytes;
// Reading a gap of up to this many bytes is cheaper than another request.
constexpr std::uint64_t kWorthReading = std::uint64_t{64} << 10;
constexpr std::uint64_t kShownAtOnce = std::uint64_t{1} << 20;  // fits a core's cache

struct Opened {
  std::uint64_t size = 0;
  std::optional<HttpHeader> condition = {};  // that the object still has the same version
  std::uint64_t tail_begin = 0;
  SharedBytes tail = {};
};

// Some bytes of a part of read_each().
struct PartPiece {
  std::size_t part = 0;
  std::uint64_t begin = 0;   // in the part
  std::uint64_t offset = 0;  // in the object
  std::uint64_t size = 0;
  std::span<std::byte> into = {};  // empty: the bytes are only shown

  std::uint64_t end() const { return offset + size; }
};

// Pieces that lie close together: one request brings them, or opening has brought them.
struct Read {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::vector<PartPiece> pieces = {};

  bool is_one_place() const { return pieces.size() == 1 && !pieces.front().into.empty(); }
};

HttpHeader range_header(std::uint64_t begin, std::uint64_t end) {
  return {"range", "bytes=" + std::to_string(begin) + "-" + std::to_string(end - 1)};
}

// Returns the reads in the order of the parts. Opening has already brought the bytes from `tail`
// on.
std::vector<Read> plan_reads(std::span<const ByteSource::Part> parts, std::uint64_t tail) {
  std::uint64_t bytes = 0;
  for (const ByteSource::Part& part : parts) {
    bytes += part.size;
  }
  const std::uint64_t most = bytes < kManyBytes ? kLargestRange : kRangeOfMany;
  std::vector<Read> reads;
  const auto add = [&](const PartPiece& piece) {
    const bool joins = !reads.empty() && piece.offset >= reads.back().begin &&
                       piece.offset <= reads.back().end + kWorthReading &&
                       std::max(piece.end(), reads.back().end) - reads.back().begin <= most &&
                       (piece.offset >= tail) == (reads.back().begin >= tail);
    if (!joins) reads.push_back({.begin = piece.offset, .end = piece.end()});
    reads.back().end = std::max(piece.end(), reads.back().end);
    reads.back().pieces.push_back(piece);
  };
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const ByteSource::Part& part = parts[i];
    const std::uint64_t cut = part.size <= kLargestRange ? part.size : most;
    for (std::uint64_t done = 0, size = 0; done < part.size; done += size) {
      const std::uint64_t at = part.offset + done;
      size = std::min(cut, part.size - done);
      if (at < tail) size = std::min(size, tail - at);
      const auto into = part.into.empty() ? part.into : part.into.subspan(done, size);
      add({.part = i, .begin = done, .offset = at, .size = size, .into = into});
    }
  }
  return reads;
}

void show(const PartPiece& piece, ByteView bytes, const ByteSource::Look& look) {
  for (std::uint64_t done = 0; done < piece.size; done += kShownAtOnce) {
    const std::uint64_t size = std::min(kShownAtOnce, piece.size - done);
    ByteView some = bytes.subspan(done, size);
    if (!piece.into.empty()) {
      const std::span<std::byte> into = piece.into.subspan(done, size);
      if (into.data() != some.data()) std::copy(some.begin(), some.end(), into.begin());
      some = into;
    }
    look(piece.part, piece.begin + done, some);
  }
}

class ObjectSource final : public ByteSource {
 public:
  ObjectSource(std::shared_ptr<Remote> remote, std::string key, Opened opened)
      : remote_(std::move(remote)),
        key_(std::move(key)),
        name_(remote_->describe(key_)),
        opened_(std::move(opened)) {}

  std::uint64_t size() const override { return opened_.size; }
  const std::string& name() const override { return name_; }
  bool in_memory() const override { return opened_.tail_begin == 0; }

  bool shows_in_order() const override { return true; }

  void read(std::span<const Range> ranges) const override {
    std::vector<Part> parts;
    parts.reserve(ranges.size());
    for (const Range& range : ranges) {
      parts.push_back({range.offset, range.into.size(), range.into});
    }
    std::ranges::sort(parts, {}, &Part::offset);
    read_each(parts, [](std::size_t, std::uint64_t, ByteView) {});
  }

  void read_each(std::span<const Part> parts, const Look& look) const override {
    for (const Part& part : parts) {
      check_range(part.offset, part.size);
    }
    std::deque<UnderWay> under_way;
    const auto finish_oldest = [&] {
      finish(under_way.front(), look);
      under_way.pop_front();
    };
    for (Read& read : plan_reads(parts, opened_.tail_begin)) {
      const std::uint64_t bytes = read.begin >= opened_.tail_begin ? 0 : read.end - read.begin;
      std::unique_ptr<RangesUnderWay::Room> room;
      while (!(room = remote_->ranges().take(bytes, under_way.empty())))
        finish_oldest();
      start(under_way.emplace_back(std::move(read), std::move(room)));
    }
    while (!under_way.empty())
      finish_oldest();
  }

  SharedBytes view(std::uint64_t offset, std::uint64_t bytes) const override {
    check_range(offset, bytes);
    if (offset >= opened_.tail_begin) {
      return opened_.tail.part(offset - opened_.tail_begin, bytes);
    }
    return ByteSource::view(offset, bytes);
  }

 private:
  struct UnderWay {
    UnderWay(Read what, std::unique_ptr<RangesUnderWay::Room> taken)
        : read(std::move(what)), room(std::move(taken)) {}

    Read read;
    std::unique_ptr<RangesUnderWay::Room> room;
    std::vector<std::byte> buffer = {};          // empty if the bytes have only one destination
    std::unique_ptr<RemoteCall> call = nullptr;  // null: the bytes are in memory. Destroyed first.
  };

  void start(UnderWay& one) const {
    const Read& read = one.read;
    if (read.begin >= opened_.tail_begin) return;
    if (!read.is_one_place()) one.buffer.resize(read.end - read.begin);
    RemoteRequest request = {
        .key = key_,
        .headers = {range_header(read.begin, read.end)},
        .into = read.is_one_place() ? read.pieces.front().into : std::span(one.buffer)};
    if (opened_.condition) request.headers.push_back(*opened_.condition);
    one.call = std::make_unique<RemoteCall>(*remote_, std::move(request));
  }

  void finish(UnderWay& one, const Look& look) const {
    const Read& read = one.read;
    ByteView bytes = one.buffer;
    if (one.call == nullptr) {
      bytes = opened_.tail.view.subspan(read.begin - opened_.tail_begin, read.end - read.begin);
    } else {
      receive(read, *one.call);
      if (read.is_one_place()) bytes = read.pieces.front().into;
    }
    for (const PartPiece& piece : read.pieces) {
      show(piece, bytes.subspan(piece.offset - read.begin, piece.size), look);
    }
  }

  void receive(const Read& read, RemoteCall& call) const {
    const HttpResponse response = call.wait();
    if (response.status == 412 || response.status == 404) {
      throw StorageError(name_ + (response.status == 404 ? " was removed" : " was replaced") +
                             " after it was opened, before byte " + std::to_string(read.begin) +
                             " was read; open it again",
                         response.status);
    }
    remote_->check(response, "reading", key_);
    if (response.received != read.end - read.begin) {
      throw StorageError(name_ + ": asked for " + std::to_string(read.end - read.begin) +
                             " bytes from " + std::to_string(read.begin) + " on, the server sent " +
                             std::to_string(response.received),
                         response.status);
    }
  }

  std::shared_ptr<Remote> remote_;
  std::string key_;
  std::string name_;
  Opened opened_;
};

// The header Content-Range: "bytes 5-9/10"; "bytes */10" when nothing was sent.
struct ContentRange {
  std::optional<std::uint64_t> first = {};
  std::optional<std::uint64_t> size = {};
};

std::optional<std::uint64_t> number_of_text(std::string_view text) {
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stopped == end ? std::optional(number) : std::nullopt;
}

ContentRange range_in(const HttpResponse& response) {
  constexpr std::string_view kUnit = "bytes ";
  std::string_view text = response.header("content-range");
  if (!text.starts_with(kUnit)) return {};
  text.remove_prefix(kUnit.size());
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return {};
  return {.first = number_of_text(text.substr(0, text.find('-'))),
          .size = number_of_text(text.substr(slash + 1))};
}

// Learns the size from HEAD, and then asks for the last bytes by their numbers. Asks for the whole
// object if the size is unknown.
HttpResponse ask_after_head(Remote& remote, const std::string& key) {
  RemoteRequest request = {.key = key,
                           .returns_too_long = remote.settings().most_without_ranges > 0};
  const HttpResponse head = remote.send({.method = "HEAD", .key = key});
  const std::uint64_t size = is_success(head) ? content_length(head) : 0;
  if (size > 0) {
    request.headers.push_back(range_header(size - std::min(size, kTailRead), size));
    if (auto condition = remote.same_version(head)) request.headers.push_back(*condition);
  }
  return remote.send(std::move(request));
}

HttpResponse ask_for_tail(Remote& remote, const std::string& key) {
  if (!remote.settings().has_suffix_ranges) return ask_after_head(remote, key);
  HttpResponse response =
      remote.send({.key = key,
                   .headers = {{"range", "bytes=-" + std::to_string(kTailRead)}},
                   .returns_too_long = remote.settings().most_without_ranges > 0});
  // This is the answer for an empty object, which has no last bytes. But servers without suffix
  // ranges answer in the same way.
  const bool is_unclear = response.status == 416 && range_in(response).size != 0;
  return is_unclear ? ask_after_head(remote, key) : response;
}

// Interprets an answer to ask_for_tail() that is 2xx, 412 or 416. Throws StorageError, retryable()
// if the object was replaced between two requests, so that it is opened again.
Opened parse_tail(const Remote& remote, const std::string& key, HttpResponse response) {
  const auto fail = [&](const std::string& what, bool may_work_later) {
    throw StorageError("opening " + remote.describe(key) + ": " + what, response.status,
                       may_work_later);
  };
  const ContentRange range = range_in(response);
  const bool is_empty = response.status == 416 && range.size == 0;
  if (response.status == 412 || (response.status == 416 && !is_empty)) {
    fail("the server answered " + std::to_string(response.status) +
             (response.status == 412 ? ": it was replaced while it was opened"
                                     : " to a range that it said exists") +
             "; open it again",
         /*may_work_later=*/true);
  }
  Opened opened = {.condition = remote.same_version(response)};
  const auto bytes =
      std::make_shared<const std::string>(is_empty ? std::string() : std::move(response.body));
  opened.tail = {as_bytes(*bytes), bytes};
  opened.size = bytes->size();
  if (response.status != 206) return opened;
  if (!range.size || *range.size < bytes->size() || !opened.condition) {
    fail("the server's answer has no size or no ETag", /*may_work_later=*/false);
  }
  opened.size = *range.size;
  opened.tail_begin = opened.size - bytes->size();
  const bool is_tail =
      range.first == opened.tail_begin && (opened.tail_begin == 0 || bytes->size() == kTailRead);
  if (!is_tail) {
    fail("the server sent " + std::to_string(bytes->size()) + " bytes as \"" +
             printable_line(response.header("content-range")) + "\" for the last " +
             std::to_string(kTailRead) + "; open it again",
         /*may_work_later=*/true);
  }
  return opened;
}

// For a server that always sends the whole object. `head` is the beginning of such an answer.
std::shared_ptr<const ByteSource> open_whole(const std::shared_ptr<Remote>& remote,
                                             const std::string& key, const HttpResponse& head) {
  const std::uint64_t size = content_length(head);
  if (size == 0 || size > remote->settings().most_without_ranges) {
    throw UnsupportedError(
        remote->describe(key) + ": the server does not support ranges, and " +
        (size == 0 ? std::string("does not report the size")
                   : std::to_string(size) + " bytes are too many to be read into memory") +
        "; download the file, and load it from there");
  }
  const auto bytes = std::make_shared<std::vector<std::byte>>(size);
  const HttpResponse response = remote->send({.key = key, .into = *bytes});
  remote->check(response, "opening", key);
  if (response.received != size) {
    throw StorageError(remote->describe(key) + ": the server sent " +
                           std::to_string(response.received) + " bytes instead of the announced " +
                           std::to_string(size),
                       response.status, /*retryable=*/true);
  }
  return source_of({*bytes, bytes}, remote->describe(key));
}

}  // namespace

std::shared_ptr<const ByteSource> open_object(std::shared_ptr<Remote> remote,
                                              const std::string& key) {
  for (Attempts attempts(remote->settings().retries);;) {
    HttpResponse response = ask_for_tail(*remote, key);
    if (response.is_too_long) return open_whole(remote, key, response);
    if (remote->is_missing(response)) return nullptr;
    if (response.status != 412 && response.status != 416) {
      remote->check(response, "opening", key);
    }
    try {
      Opened opened = parse_tail(*remote, key, std::move(response));
      return std::make_shared<const ObjectSource>(std::move(remote), key, std::move(opened));
    } catch (const StorageError& e) {
      if (!e.retryable() || !attempts.wait_for_next()) throw;
    }
  }
}

}  // namespace cairn
