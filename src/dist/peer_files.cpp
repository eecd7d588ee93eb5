#include "dist/peer_files.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>
#include <vector>

#include "cairn/dist/dist.h"
#include "cairn/error.h"

#include "dist/group.h"
#include "io/bytes/range_batches.h"
#include "io/read_fault.h"

namespace cairn::dist {
namespace {

constexpr std::uint64_t kMaxBytes = std::uint64_t{4} << 20;  // Per answer.
constexpr std::size_t kMaxRanges = 256;                      // Per question.
constexpr int kFirstQuestionTag = 1 << 10;                   // row_gather.cpp has lower ones.
constexpr int kFirstAnswerTag = 1 << 20;
constexpr int kAnswerTags = 1 << 20;

// A question: the tag of its answer, the file, the number of ranges, then the offset and the size
// of each range. All questions have one length, since the receiver must know the length.
constexpr std::int64_t kHead = 4;
constexpr std::int64_t kQuestion = kHead + 2 * static_cast<std::int64_t>(kMaxRanges);

// An answer: the number of bytes that follow; whether these bytes are an error's text; the error's
// errno; the error's ReadFault.
enum Answer : std::int64_t { kBytes, kIsError, kStatus, kFault, kAnswerHead };
constexpr std::int64_t kMaxReasonBytes = 64 << 10;

struct Wanted {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

// The ranges of a question. Throws UsageError if the question is malformed.
std::vector<Wanted> ranges_of(const std::int64_t* numbers) {
  const auto count = static_cast<std::size_t>(numbers[3]);
  if (count > kMaxRanges) throw UsageError("another version of cairn asks for a file's bytes");
  std::vector<Wanted> ranges;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t* const range = numbers + kHead + 2 * i;
    ranges.push_back({static_cast<std::uint64_t>(range[0]), static_cast<std::uint64_t>(range[1])});
    bytes += std::min(ranges.back().size, 2 * kMaxBytes);
  }
  if (bytes > kMaxBytes) throw UsageError("another version of cairn asks for a file's bytes");
  return ranges;
}

at::Tensor bytes_of_ranges(const ByteSource& file, const std::vector<Wanted>& wanted) {
  std::uint64_t all = 0;
  for (const Wanted& each : wanted) {
    file.check_range(each.offset, each.size);
    all += each.size;
  }
  at::Tensor bytes = at::empty({static_cast<std::int64_t>(all)}, at::kByte);
  std::vector<ByteSource::Range> ranges;
  auto* to = reinterpret_cast<std::byte*>(bytes.data_ptr<std::uint8_t>());
  for (const Wanted& each : wanted) {
    ranges.push_back({each.offset, {to, each.size}});
    to += each.size;
  }
  file.read(ranges);
  return bytes;
}

at::Tensor bytes_of_text(std::string text) {
  text.resize(std::min<std::size_t>(text.size(), kMaxReasonBytes));
  at::Tensor bytes = at::empty({static_cast<std::int64_t>(text.size())}, at::kByte);
  std::memcpy(bytes.data_ptr<std::uint8_t>(), text.data(), text.size());
  return bytes;
}

// Throws the class of error that the other rank found for its file.
[[noreturn]] void throw_read_fault(const std::string& why, int status, std::int64_t fault) {
  switch (static_cast<ReadFault>(fault)) {
    case ReadFault::kContent:
      throw CorruptError(why);
    case ReadFault::kNoFile:
      throw NotFoundError(why);
    case ReadFault::kBytes:
      throw UnreadableError(why, status);
    case ReadFault::kNow:
      break;
  }
  throw StorageError(why, status);
}

}  // namespace

PeerFiles::PeerFiles(Group& group)
    : group_(group), question_tag_(kFirstQuestionTag + group.next_exchange()) {}

PeerFiles::~PeerFiles() { end(); }

void PeerFiles::end() {
  {
    const std::scoped_lock lock(mutex_);
    is_over_ = true;
    if (awaited_) awaited_->abort();
    awaited_.reset();
  }
  if (thread_.joinable()) thread_.join();
}

void PeerFiles::serve(Open open) {
  thread_ = std::thread([this, open = std::move(open)] { answer_all(open); });
}

void PeerFiles::answer_all(const Open& open) {
  try {
    for (;;) {
      std::vector<at::Tensor> question = {at::zeros({kQuestion}, at::kLong)};
      WorkPtr work;
      {
        const std::scoped_lock lock(mutex_);
        if (is_over_) return;
        work = awaited_ = group_.backend().recvAnysource(question, question_tag_);
      }
      if (!work->wait()) return;  // Aborted.
      answer(open, work->sourceRank(), question[0]);
    }
  } catch (const std::exception&) {
    return;  // The group has failed, and the ranks that ask notice it.
  }
}

void PeerFiles::answer(const Open& open, int to, const at::Tensor& question) {
  const auto* const numbers = question.data_ptr<std::int64_t>();
  const int tag = static_cast<int>(numbers[0]);
  at::Tensor bytes;
  std::int64_t status = 0;
  auto fault = ReadFault::kNow;
  bool is_error = false;
  try {
    const FileOfRank file{.checkpoint = static_cast<std::size_t>(numbers[1]),
                          .file = static_cast<std::size_t>(numbers[2]),
                          .rank = group_.launch().rank};
    bytes = bytes_of_ranges(*open(file), ranges_of(numbers));
  } catch (const std::exception& e) {
    const auto* const of_store = dynamic_cast<const StorageError*>(&e);
    status = of_store == nullptr ? 0 : of_store->status();
    fault = read_fault_of(e);
    is_error = true;
    bytes = bytes_of_text(e.what());
  }
  std::vector<at::Tensor> head = {
      at::tensor({bytes.numel(), std::int64_t{is_error}, status, static_cast<std::int64_t>(fault)},
                 at::kLong)};
  std::vector<at::Tensor> body = {bytes};
  try {
    const WorkPtr said = group_.backend().send(head, to, tag);
    if (bytes.numel() > 0) group_.backend().send(body, to, tag)->wait(group_.timeout());
    said->wait(group_.timeout());
  } catch (const std::exception&) {
    return;  // The asking rank is gone; others may still ask.
  }
}

void PeerFiles::read(const FileOfRank& file, std::span<const ByteSource::Range> ranges) const {
  if (is_over_) {
    throw UsageError("a checkpoint of several machines can be read only while all ranks load it");
  }
  for_each_batch(ranges, {.ranges = kMaxRanges, .bytes = kMaxBytes},
                 [&](const std::vector<ByteSource::Range>& batch) { ask(file, batch); });
}

void PeerFiles::ask(const FileOfRank& file, std::span<const ByteSource::Range> ranges) const {
  const torch::NoGradGuard no_grad;
  const int tag = kFirstAnswerTag + (answers_++ % kAnswerTags + kAnswerTags) % kAnswerTags;
  const int from = static_cast<int>(file.rank);
  std::vector<at::Tensor> question = {at::zeros({kQuestion}, at::kLong)};
  auto* const numbers = question[0].data_ptr<std::int64_t>();
  numbers[0] = tag;
  numbers[1] = static_cast<std::int64_t>(file.checkpoint);
  numbers[2] = static_cast<std::int64_t>(file.file);
  numbers[3] = static_cast<std::int64_t>(ranges.size());
  std::int64_t wanted = 0;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    numbers[kHead + 2 * i] = static_cast<std::int64_t>(ranges[i].offset);
    numbers[kHead + 2 * i + 1] = static_cast<std::int64_t>(ranges[i].into.size());
    wanted += numbers[kHead + 2 * i + 1];
  }
  std::vector<at::Tensor> head = {at::zeros({kAnswerHead}, at::kLong)};
  std::vector<at::Tensor> body(1);
  try {
    Backend& backend = group_.backend();
    const WorkPtr said = backend.recv(head, from, tag);
    backend.send(question, from, question_tag_)->wait(group_.timeout());
    said->wait(group_.timeout());
    const auto* const said_of = head[0].data_ptr<std::int64_t>();
    const std::int64_t most = said_of[kIsError] != 0 ? kMaxReasonBytes : wanted;
    if (said_of[kBytes] < 0 || said_of[kBytes] > most) {
      throw std::length_error("its answer has the wrong length; is it another version of cairn?");
    }
    body[0] = at::empty({said_of[kBytes]}, at::kByte);
    if (body[0].numel() > 0) backend.recv(body, from, tag)->wait(group_.timeout());
  } catch (const std::exception& e) {
    const std::string why = e.what();
    throw DistError(
        fmt::format("rank {} of {}: reading a checkpoint's file that rank {} has failed: it did "
                    "not answer; a process ended, hangs, or is cut off ({})",
                    group_.launch().rank, group_.launch().world_size, from,
                    why.substr(0, why.find('\n'))),
        {from});
  }
  const auto* const said = head[0].data_ptr<std::int64_t>();
  const auto* bytes = reinterpret_cast<const std::byte*>(body[0].data_ptr<std::uint8_t>());
  if (said[kIsError] != 0 || said[kBytes] != wanted) {
    const std::string why(reinterpret_cast<const char*>(bytes),
                          static_cast<std::size_t>(body[0].numel()));
    throw_read_fault(fmt::format("rank {}, which has it, cannot read it: {}", from,
                                 said[kIsError] != 0 ? why : "its answer has the wrong length"),
                     static_cast<int>(said[kStatus]), said[kFault]);
  }
  for (const ByteSource::Range& range : ranges) {
    std::memcpy(range.into.data(), bytes, range.into.size());
    bytes += range.into.size();
  }
}

}  // namespace cairn::dist
