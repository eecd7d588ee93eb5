// A server that keeps objects: what all protocols share. Requests go by HTTP, with as many attempts
// as they need. A request ends when the work of its thread is cancelled. Each protocol defines how
// requests are addressed and signed, and what answers mean.
//
//   Remote           requests, attempts, errors                      (here)
//   open_object()    an object as a source of ranges                 source.h
//   RemoteContainer  what the store asks of a bucket                 container.h
//   write_object()   an object that is written, in parts when large  write.h
//   remote_store()   all of it as an ObjectStore                     store.h
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/threads/cancellation.h"
#include "net/digest.h"
#include "net/http.h"
#include "net/net_time.h"
#include "net/retry.h"
#include "net/url.h"

namespace cairn {

struct RemoteSettings {
  NetRetries retries = {};
  HttpDeadlines deadlines = {};  // of each attempt
  std::shared_ptr<HttpClient> client = {};
  std::string ca_file = {};            // as in HttpRequest
  std::uint64_t part_bytes = 8 << 20;  // larger objects are written in parts of this size
  int parallel_requests = 6;           // parts of an upload; ranges of a read may be twice as many
  bool has_suffix_ranges = true;       // the server understands "bytes=-9", the last 9 bytes
  bool has_plain_404 = true;           // a 404 to HEAD can only mean that there is no object
  // If the server does not support ranges, an object of at most this size is read whole into
  // memory. 0: all servers of this protocol support ranges.
  std::uint64_t most_without_ranges = 0;
};

struct RemoteRequest {
  std::string method = "GET";
  std::string key = {};  // "" is the container of all keys: the bucket
  Query query = {};
  std::vector<HttpHeader> headers = {};
  std::vector<SharedBytes> body = {};
  std::span<std::byte> into = {};
  std::size_t most_bytes = std::size_t{8} << 20;
  bool is_cleanup = false;  // gives up an upload: one attempt, a few seconds
  // An answer longer than `most_bytes` is returned, not thrown: is_too_long.
  bool returns_too_long = false;
  // The server may answer 200 before the work is done, so the body may be an error.
  bool is_answered_late = false;
  std::string payload_hash = {};  // of `body`, if the protocol signs it: Remote::prepare()
  bool is_prepared = false;       // Remote::prepare_once() has run
};

// A signed request: method, URL and headers of `http`. RemoteCall fills in the rest.
struct SignedRequest {
  HttpRequest http;
  std::string signed_by = {};  // identifies the keys, for Remote::learn(); may be a secret
};

// The time of signing, by the server's clock as far as it is known.
struct SigningTime {
  NetTime time;
  std::string skew;  // for SignedRequest::signed_by: the correction of our clock
};

// The error in an answer.
struct RemoteError {
  std::string code = {};  // "NoSuchKey"; empty if the answer has none
  std::string message = {};
};

// Limits the ranges that are under way for one store, over all objects and readers. Thread-safe.
class RangesUnderWay {
 public:
  static constexpr std::uint64_t kMaxBytes = std::uint64_t{64} << 20;

  explicit RangesUnderWay(int most) : most_(most) {}

  // Room for a range, until the Room is destroyed.
  class Room {
   public:
    Room(RangesUnderWay& of, std::uint64_t bytes) : of_(of), bytes_(bytes) {}
    ~Room() { of_.give_back(bytes_); }
    Room(const Room&) = delete;
    Room& operator=(const Room&) = delete;

   private:
    RangesUnderWay& of_;
    const std::uint64_t bytes_;
  };
  // Returns nullptr if there is no room until a range is done. A reader without a range under way
  // always gets room (`is_first`), so that no reader waits for another reader.
  std::unique_ptr<Room> take(std::uint64_t bytes, bool is_first);

 private:
  void give_back(std::uint64_t bytes);

  const int most_;
  std::mutex mutex_;
  int count_ = 0;
  std::uint64_t bytes_ = 0;
};

// Thread-safe.
class Remote {
 public:
  explicit Remote(RemoteSettings settings)
      : settings_(std::move(settings)), ranges_(2 * settings_.parallel_requests) {}
  virtual ~Remote() = default;
  Remote(const Remote&) = delete;
  Remote& operator=(const Remote&) = delete;

  const RemoteSettings& settings() const { return settings_; }
  // The ranges that are under way for all readers of this server.
  RangesUnderWay& ranges() { return ranges_; }

  // Fills in the fields that are the same in all attempts. This may take time (a hash of the body).
  // Any thread may call prepare_once() before the request is sent.
  void prepare_once(RemoteRequest& request) const;
  // Sends the request with all its attempts, like RemoteCall.
  HttpResponse send(RemoteRequest request);
  // Throws the error that an answer means, with its type. `doing` is a word like "reading".
  [[noreturn]] void refuse(const HttpResponse& response, const std::string& doing,
                           const std::string& key) const;
  // Calls refuse() unless the status is 2xx.
  void check(const HttpResponse& response, const std::string& doing, const std::string& key) const;
  // A server's text in a form that is safe for messages: short, printable, without the secrets
  // given to keep_secret().
  std::string safe_text(const std::string& text) const;
  // The server's time.
  NetTime now() const;
  // The server's time, and the correction that learn_time() needs, both from the same moment.
  SigningTime signing_time() const;

  // The name of an object or the bucket in messages: "s3://bucket/key".
  virtual std::string describe(const std::string& key) const = 0;
  // Whether an answer says that there is no such object, rather than no such bucket.
  virtual bool is_missing(const HttpResponse& response) const { return response.status == 404; }
  // The header with which a read demands the version of `response`. nullopt if nothing in
  // `response` distinguishes versions.
  virtual std::optional<HttpHeader> same_version(const HttpResponse& response) const;

 protected:
  friend class RemoteCall;

  // Called before the first attempt. Fills in the fields that all attempts share. Returns true if
  // `payload_hash` must be the body's SHA-256 as hash_text() writes it; the caller then fills it
  // in.
  virtual bool prepare(RemoteRequest& /*request*/) const { return false; }
  virtual std::string hash_text(const Sha256& hash) const { return hex(hash); }
  virtual SignedRequest sign(const RemoteRequest& request) = 0;
  // The error in an answer with a status from 300 on, or in another answer that may be an error.
  virtual RemoteError error_in(const HttpResponse& response) const = 0;
  // Learns from a refusal: another region, the server's time, new keys. Returns whether it learned
  // something; the request is then made again at once.
  virtual bool learn(const HttpResponse& /*response*/, const RemoteError& /*error*/,
                     const std::string& /*signed_by*/) {
    return false;
  }
  // Whether an answer with this status and code means that a fault of the server, or of the network
  // on the way to the server, may be temporary.
  virtual bool is_temporary(int status, const std::string& code) const;
  // What to do next ("; check ..."), or nothing.
  virtual std::string advice_for(int /*status*/, const std::string& /*code*/) const { return {}; }

  // For learn(): takes over the server's time if an answer says that the request's time is wrong.
  // `is_certain`: the error code says so; otherwise the time must be far off. Also returns true if
  // any thread has corrected the clock since the request was signed, with `skew` from
  // signing_time().
  bool learn_time(const HttpResponse& response, bool is_certain, std::string_view skew);
  // From now on keeps these secrets out of messages, and the previous secrets, too: answers to
  // requests with the previous secrets may still be under way. Empty secrets are ignored.
  void keep_secret(std::vector<std::string> secrets);

 private:
  std::string without_secrets(std::string text) const;
  // describe(), with the address that a redirect led to.
  std::string described(const std::string& key, const HttpResponse& response) const;

  const RemoteSettings settings_;
  RangesUnderWay ranges_;
  std::atomic<std::int64_t> skew_ms_ = 0;  // the server's clock minus ours
  mutable std::mutex mutex_;
  std::array<std::vector<std::string>, 2> secrets_ = {};  // current and previous; under the lock
};

// Replaces each secret in a server's text by "***". Call it before the text is cut or made
// printable: part of a secret would not be found.
std::string masked(std::string text, std::span<const std::string> secrets);

// Whether a status is temporary: some of 5xx, 429, 408.
bool is_temporary_status(int status);
bool is_success(const HttpResponse& response);  // 2xx
// The value of the header; 0 without the header.
std::uint64_t content_length(const HttpResponse& response);

// A request under way, with all its attempts. The destructor cancels the request, and so does the
// Cancellation of the thread that made it (io/threads/cancellation.h). The request advances only in
// wait(). Not thread-safe.
class RemoteCall {
 public:
  RemoteCall(Remote& remote, RemoteRequest request);
  // The answer of the last attempt, with any status that is not worth another attempt. Throws
  // StorageError if there is no answer or the server keeps failing, and CancelledError.
  HttpResponse wait();

 private:
  void start();
  bool wait_for_next(std::optional<std::chrono::milliseconds> server_asks = std::nullopt);
  bool is_final(const HttpResponse& response);
  std::optional<std::uint64_t> first_byte() const;
  bool begins_at(const HttpResponse& response, std::uint64_t first) const;
  bool is_of_other_version(const HttpResponse& response) const;
  void check_range(const HttpResponse& response) const;
  bool resume_after(const HttpResponse& response);

  Remote& remote_;
  RemoteRequest request_;
  Attempts attempts_;
  std::size_t received_ = 0;  // into `into`, by earlier attempts
  std::string signed_by_ = {};
  int learned_ = 0;   // how often a learned fact caused a new request
  std::mutex mutex_;  // guards call_, which other threads cancel
  std::unique_ptr<HttpCall> call_;
  CancelHook hook_;  // the last member: it uses those above
};

}  // namespace cairn
