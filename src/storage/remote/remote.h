// A server that keeps objects, as far as all of them are alike: requests by HTTP, each with as many
// attempts as it takes, ended when their thread's work is cancelled. How requests are addressed and
// signed, and what answers mean, is each protocol's own.
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
  std::string ca_file = {};            // as HttpRequest's
  std::uint64_t part_bytes = 8 << 20;  // what is larger is written in parts of so many
  int parallel_requests = 6;           // parts of an upload; twice as many ranges
  bool has_suffix_ranges = true;       // the server knows "bytes=-9": the last ones
  bool has_plain_404 = true;  // a 404 to HEAD says that there is no object, and nothing else
  // An object of at most so many bytes is read as a whole, into memory, where the server knows no
  // ranges; 0: all that is asked know them.
  std::uint64_t most_without_ranges = 0;
};

struct RemoteRequest {
  std::string method = "GET";
  std::string key = {};  // "" is what all keys are in: the bucket
  Query query = {};
  std::vector<HttpHeader> headers = {};
  std::vector<SharedBytes> body = {};
  std::span<std::byte> into = {};
  std::size_t most_bytes = std::size_t{8} << 20;
  bool is_last_wish = false;    // of what is given up: one attempt, and a few seconds
  bool gives_too_long = false;  // an answer of over `most_bytes` is given, not thrown: is_too_long
  bool is_answered_late = false;  // 200 may be sent before the work: its body may be an error
  std::string payload_hash = {};  // of `body`, where a protocol signs it: Remote::prepare()
  bool is_prepared = false;       // Remote::prepare_once() was here
};

// A request as it is signed: method, URL and headers of `http`; the rest is filled in by
// RemoteCall.
struct SignedRequest {
  HttpRequest http;
  std::string signed_by = {};  // which keys, for Remote::learn(): may be a secret
};

// When a request is signed, by the server's clock as far as it is known.
struct SigningTime {
  NetTime time;
  std::string skew;  // for SignedRequest::signed_by: by how much ours was corrected
};

// What an answer says is wrong.
struct RemoteError {
  std::string code = {};  // "NoSuchKey"; empty when it says nothing
  std::string message = {};
};

// The ranges that are under way, and the room that is left for more: a limit for a store, whatever
// number of objects is read, in whatever number of ranges. Safe from several threads.
class RangesUnderWay {
 public:
  static constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 20;

  explicit RangesUnderWay(int most) : most_(most) {}

  // Room for a range, until its end.
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
  // nullptr: there is no room until a range is done. A reader that has none under way gets room all
  // the same (`is_first`): no reader ever waits for another one.
  std::unique_ptr<Room> take(std::uint64_t bytes, bool is_first);

 private:
  void give_back(std::uint64_t bytes);

  const int most_;
  std::mutex mutex_;
  int count_ = 0;
  std::uint64_t bytes_ = 0;
};

// Safe from several threads.
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

  // Fills in what is the same in all attempts. That may take its time (a hash of the body), so any
  // thread can do it before the request is sent.
  void prepare_once(RemoteRequest& request) const;
  // All attempts, to the end: as RemoteCall.
  HttpResponse send(RemoteRequest request);
  // The error that an answer is, typed; `doing` as "reading".
  [[noreturn]] void refuse(const HttpResponse& response, const std::string& doing,
                           const std::string& key) const;
  // The same unless its status is 2xx.
  void check(const HttpResponse& response, const std::string& doing, const std::string& key) const;
  // What a server said, as a message may hold it: short, printable, without what was given to
  // keep_secret().
  std::string told(const std::string& text) const;
  // The time of the server.
  NetTime now() const;
  // The same, with what learn_time() needs to know of it: both of one moment.
  SigningTime signing_time() const;

  // How messages name an object, or the bucket: "s3://bucket/key".
  virtual std::string describe(const std::string& key) const = 0;
  // Whether an answer says that there is no such object, and not that there is no such bucket.
  virtual bool is_missing(const HttpResponse& response) const { return response.status == 404; }
  // The header by which a read demands the version that `response` is of; nullopt when nothing in
  // it tells versions apart.
  virtual std::optional<HttpHeader> same_version(const HttpResponse& response) const;

 protected:
  friend class RemoteCall;

  // Before the first attempt: what is the same in all; whether `payload_hash` is the body's
  // SHA-256, as hash_text() writes it, and is filled in by the caller.
  virtual bool prepare(RemoteRequest& /*request*/) const { return false; }
  virtual std::string hash_text(const Sha256& hash) const { return hex(hash); }
  virtual SignedRequest sign(const RemoteRequest& request) = 0;
  // Of a status from 300 on, or of an answer that may be an error all the same.
  virtual RemoteError error_in(const HttpResponse& response) const = 0;
  // Whether something was learned from an answer that refuses (another region, the server's time,
  // other keys), so that the request is made anew, at once.
  virtual bool learn(const HttpResponse& /*response*/, const RemoteError& /*error*/,
                     const std::string& /*signed_by*/) {
    return false;
  }
  // Whether the server, or the way to it, may do better the next time.
  virtual bool is_passing(int status, const std::string& code) const;
  // What to do next, "; check ...", or nothing.
  virtual std::string advice_for(int /*status*/, const std::string& /*code*/) const { return {}; }

  // For learn(): takes the server's time when an answer that refuses says that the request's is
  // wrong; `is_certain`: by its code, or else when it is far off. Also true when the clock was
  // corrected, by whichever thread, since the request was signed: with `skew` of signing_time().
  bool learn_time(const HttpResponse& response, bool is_certain, std::string_view skew);
  // What no message may hold from now on: these, and those that were given before them, as their
  // answers are still under way; empty ones are none.
  void keep_secret(std::vector<std::string> secrets);

 private:
  std::string without_secrets(std::string text) const;
  // describe(), with the place that a redirect led to.
  std::string described(const std::string& key, const HttpResponse& response) const;

  const RemoteSettings settings_;
  RangesUnderWay ranges_;
  std::atomic<std::int64_t> skew_ms_ = 0;  // the server's clock less ours
  mutable std::mutex mutex_;
  std::array<std::vector<std::string>, 2> secrets_ = {};  // now and before; under the lock
};

// What servers said, with "***" in place of each secret. Before it is cut, and before it is made
// printable: of a part of a secret the rest is not found.
std::string masked(std::string text, std::span<const std::string> secrets);

// Whether a status is one of those that pass: 5xx but not all of them, 429, 408.
bool is_passing_status(int status);
bool is_success(const HttpResponse& response);  // 2xx
// The header; 0 without one.
std::uint64_t content_length(const HttpResponse& response);

// A request under way, with all its attempts. Its end cancels it, and so does the Cancellation of
// the thread that made it (io/threads/cancellation.h): CancelledError. Moves are made by whoever
// waits: one thread at a time.
class RemoteCall {
 public:
  RemoteCall(Remote& remote, RemoteRequest request);
  // The answer of the last attempt: any status but those that were worth another one. StorageError
  // when there is none, or the server only kept failing.
  HttpResponse wait();

 private:
  void start();
  bool again(std::optional<std::chrono::milliseconds> server_asks = std::nullopt);
  bool answered(const HttpResponse& response);
  std::optional<std::uint64_t> first_byte() const;
  bool begins_at(const HttpResponse& response, std::uint64_t first) const;
  bool is_of_other_version(const HttpResponse& response) const;
  void check_range(const HttpResponse& response) const;
  bool resume_behind(const HttpResponse& response);

  Remote& remote_;
  RemoteRequest request_;
  Attempts attempts_;
  std::size_t received_ = 0;  // of `into`, in earlier attempts
  std::string signed_by_ = {};
  int learned_ = 0;   // so often the request was made anew for what was learned
  std::mutex mutex_;  // of call_, which others cancel
  std::unique_ptr<HttpCall> call_;
  CancelHook hook_;  // the last: it uses what is above
};

}  // namespace cairn
