// Writing an object:
//
//  1. Bytes are gathered into a part. If one part is enough, commit() sends it with one request.
//  2. The second part begins an upload. A separate thread hashes each part. Parts are sent while
//     the next ones are gathered, as many at once as the settings allow. If more are gathered,
//     write() waits for the oldest part. Each part has its own attempts (remote.cpp). The server
//     compares the part's checksum with what it received.
//  3. commit() waits for all parts and completes the upload under the condition. Only then is the
//     object visible. If the answer is lost, the object's write id shows whether this write made
//     the object.
//  4. Size, version and, if the server keeps it, the checksum of the whole object are requested and
//     compared with what was sent. For a small new object nothing is requested if the answer to the
//     write has the object's checksum.
//  5. The destructor of an uncommitted write aborts the upload, if the server responds at once. The
//     store's remove_leftovers() aborts the uploads of killed writers.
#include "storage/remote/write.h"

#include <algorithm>
#include <deque>
#include <future>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "cairn/error.h"

namespace cairn {
namespace {

constexpr int kMaxParts = 10'000;       // the lowest limit among the servers
constexpr int kPartsOfOneSize = 1'000;  // if the size is not known; then parts grow
constexpr std::uint64_t kPartsOfKnown = 9'000;
constexpr std::size_t kHashedAtOnce = 2;
// A core's own cache has room for this many bytes beside their copy, and its first-level cache has
// room for one piece.
constexpr std::size_t kGatheredAtOnce = std::size_t{256} << 10;
constexpr std::size_t kPieceBytes = std::size_t{16} << 10;

using PartBytes = std::vector<std::byte>;

class RemoteWrite final : public ObjectWrite {
 public:
  RemoteWrite(std::shared_ptr<RemoteContainer> container, std::string key,
              const BeginOptions& options)
      : container_(std::move(container)),
        key_(std::move(key)),
        condition_(options.condition),
        first_part_bytes_(
            std::max(remote().settings().part_bytes, options.expected_bytes / kPartsOfKnown + 1)),
        is_large_(options.expected_bytes > first_part_bytes_) {}

  ~RemoteWrite() override {
    hashed_.clear();  // Waits for the hashing threads.
    under_way_.clear();
    if (upload_ != nullptr) container_->abort(*upload_);
  }
  RemoteWrite(const RemoteWrite&) = delete;
  RemoteWrite& operator=(const RemoteWrite&) = delete;

  std::size_t piece_bytes() const override { return kPieceBytes; }

  void write(ByteView bytes) override {
    while (!bytes.empty()) {
      if (part_ && part_->size() == part_bytes()) send_part();
      if (!part_) {
        part_ = new_part();
        part_->reserve(upload_ != nullptr || is_large_ ? part_bytes() : 0);
      }
      const std::size_t now =
          std::min<std::size_t>({bytes.size(), part_bytes() - part_->size(), kGatheredAtOnce});
      part_->insert(part_->end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(now));
      // Passes bytes of the copy, since the caller may change its own bytes. The first part is
      // hashed later, as a whole.
      if (upload_ != nullptr) upload_->note_gathered(ByteView(*part_).last(now));
      bytes = bytes.subspan(now);
      size_ += now;
    }
  }

  // For an object in parts: all parts are at the store. An object of one request is sent by
  // commit().
  void make_durable() override {
    if (upload_ == nullptr) return;
    if (part_) send_part();
    while (!hashed_.empty())
      start_part();
    while (!under_way_.empty())
      finish_part();
  }

  std::optional<ObjectInfo> committed() const override {
    return there_ ? std::optional(info_of_object(*there_)) : std::nullopt;
  }

 private:
  struct HashedPart {
    int number;
    std::shared_ptr<PartBytes> part;
    std::future<RemoteRequest> request;
  };
  struct SentPart {
    int number;
    std::shared_ptr<PartBytes> part;
    std::unique_ptr<RemoteCall> call;
  };

  Remote& remote() const { return *container_->remote(); }

  std::uint64_t part_bytes() const {
    return first_part_bytes_ << std::min(parts_begun_ / kPartsOfOneSize, 9);
  }

  void publish() override {
    if (upload_ == nullptr) {
      const SharedBytes bytes = part_ ? SharedBytes{*part_, part_} : SharedBytes{};
      there_ = container_->put({.key = key_, .bytes = bytes, .condition = condition_});
      return;
    }
    make_durable();
    complete();
  }

  // Part memory is used again: with repeated malloc() and free() more memory would be kept than
  // needed.
  std::shared_ptr<PartBytes> new_part() {
    if (spare_.empty()) return std::make_shared<PartBytes>();
    std::shared_ptr<PartBytes> part = std::move(spare_.back());
    spare_.pop_back();
    return part;
  }

  void send_part() {
    if (upload_ == nullptr) {
      write_id_ = new_write_id();
      upload_ = container_->begin_upload(key_, write_id_);
    }
    if (parts_begun_ == kMaxParts) {
      throw UsageError(remote().describe(key_) + " is larger than " + std::to_string(kMaxParts) +
                       " parts: set expected_bytes when the write begins, or larger part_bytes");
    }
    const auto most = static_cast<std::size_t>(remote().settings().parallel_requests);
    while (under_way_.size() + hashed_.size() >= most) {
      if (under_way_.empty()) start_part();
      finish_part();
    }
    const int number = ++parts_begun_;
    auto request = prepared(upload_->part(number, {*part_, part_}));
    hashed_.push_back({number, std::exchange(part_, nullptr), std::move(request)});
    while (hashed_.size() > kHashedAtOnce) {
      start_part();
    }
  }

  // Prepares the request on a separate thread. If no thread can be started, get() does it on this
  // one.
  std::future<RemoteRequest> prepared(RemoteRequest request) const {
    const auto work = [this, request = std::move(request)]() mutable {
      remote().prepare_once(request);
      return std::move(request);
    };
    try {
      return std::async(std::launch::async, work);
    } catch (const std::system_error&) {
      return std::async(std::launch::deferred, work);
    }
  }

  void start_part() {
    HashedPart next = std::move(hashed_.front());
    hashed_.pop_front();
    under_way_.push_back({next.number, std::move(next.part),
                          std::make_unique<RemoteCall>(remote(), next.request.get())});
  }

  // Waits for the oldest part.
  void finish_part() {
    SentPart sent = std::move(under_way_.front());
    under_way_.pop_front();
    const HttpResponse response = sent.call->wait();
    sent.call.reset();  // No thread reads the part any more.
    sent.part->clear();
    spare_.push_back(std::move(sent.part));
    if (remote().is_missing(response)) refuse_removed(response.status);
    remote().check(response, "writing part " + std::to_string(sent.number) + " of", key_);
    upload_->note_sent(sent.number, response);
  }

  // Called if another program or a rule of the bucket removed the upload. The data is not at fault.
  [[noreturn]] void refuse_removed(int status) const {
    throw StorageError("writing " + remote().describe(key_) +
                           ": the upload was removed before it was complete; write it again",
                       status, /*retryable=*/true);
  }

  void complete() {
    const auto headers = container_->upload_condition_headers(key_, condition_);
    // Some servers check the condition for a PUT only.
    const auto before = container_->check_condition(key_, condition_);
    const PartedUpload::Completed completed = upload_->complete(headers);
    if (!completed.is_done) check_completed_before(completed.response);
    upload_.reset();  // There is nothing left to abort.
    there_ = container_->verify({.key = key_,
                                 .size = size_,
                                 .version = completed.version,
                                 .checksum = completed.checksum,
                                 .write_id = write_id_,
                                 .before = before});
  }

  // The upload is missing, or the condition does not hold. Perhaps an earlier attempt completed the
  // upload, and its answer was lost.
  void check_completed_before(const HttpResponse& response) {
    const bool is_refused = container_->is_refused(response, condition_);
    if (response.status == 404 || is_refused) {
      const auto there = container_->head(key_);
      if (there && there->write_id == write_id_) return;
      if (response.status != 404) refuse_condition(remote().describe(key_), condition_);
      refuse_removed(response.status);
    }
    remote().refuse(response, "completing", key_);
  }

  std::shared_ptr<RemoteContainer> container_;
  std::string key_;
  WriteCondition condition_;
  std::uint64_t first_part_bytes_;
  bool is_large_;  // more than one part is expected
  std::uint64_t size_ = 0;
  std::shared_ptr<PartBytes> part_;  // being gathered
  std::string write_id_;
  std::unique_ptr<PartedUpload> upload_;  // null: nothing was sent yet, or it is complete
  int parts_begun_ = 0;
  std::optional<RemoteHead> there_;  // set by commit(), unless another writer's object has the key
  std::vector<std::shared_ptr<PartBytes>> spare_;
  std::deque<HashedPart> hashed_;  // hashed, or being hashed
  std::deque<SentPart> under_way_;
};

}  // namespace

std::unique_ptr<ObjectWrite> write_object(std::shared_ptr<RemoteContainer> container,
                                          std::string key, const BeginOptions& options) {
  return std::make_unique<RemoteWrite>(std::move(container), std::move(key), options);
}

}  // namespace cairn
