#include "storage/remote/remote.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "cairn/error.h"

#include "core/text/printable.h"
#include "net/digest.h"

namespace cairn {
namespace {

constexpr int kMaxLessons = 4;  // a region, the time, and keys twice
constexpr HttpDeadlines kCleanupDeadlines = {.connect = std::chrono::milliseconds(2000),
                                             .stall = std::chrono::milliseconds(3000),
                                             .total = std::chrono::milliseconds(3000)};
constexpr std::size_t kLongestMessage = 300;
constexpr std::string_view kMask = "***";
constexpr std::chrono::minutes kMaxSkew{4};  // Less does not explain a refusal: AWS allows 15.

Sha256 hash_of(const std::vector<SharedBytes>& body) {
  std::vector<ByteView> pieces;
  for (const SharedBytes& piece : body)
    pieces.push_back(piece.view);
  return sha256(pieces);
}

}  // namespace

bool is_success(const HttpResponse& response) {
  return response.status >= 200 && response.status <= 299;
}

bool is_temporary_status(int status) {
  return status == 500 || status == 502 || status == 503 || status == 504 || status == 429 ||
         status == 408;
}

std::uint64_t content_length(const HttpResponse& response) {
  const std::string_view text = response.header("content-length");
  std::uint64_t size = 0;
  std::from_chars(text.data(), text.data() + text.size(), size);
  return size;
}

std::string masked(std::string text, std::span<const std::string> secrets) {
  for (const std::string& secret : secrets) {
    if (secret.empty()) continue;
    std::size_t at = 0;
    while ((at = text.find(secret, at)) != std::string::npos) {
      text.replace(at, secret.size(), kMask);
      at += kMask.size();
    }
  }
  return text;
}

// --- RangesUnderWay ------------------------------------------------------------------------------

std::unique_ptr<RangesUnderWay::Room> RangesUnderWay::take(std::uint64_t bytes, bool is_first) {
  const std::scoped_lock lock(mutex_);
  if (!is_first && (count_ >= most_ || bytes_ + bytes > kMaxBytes)) return nullptr;
  auto room = std::make_unique<Room>(*this, bytes);
  ++count_;
  bytes_ += bytes;
  return room;
}

void RangesUnderWay::give_back(std::uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  --count_;
  bytes_ -= bytes;
}

// --- Remote --------------------------------------------------------------------------------------

void Remote::prepare_once(RemoteRequest& request) const {
  const bool is_hashed = !std::exchange(request.is_prepared, true) && prepare(request);
  if (is_hashed) request.payload_hash = hash_text(hash_of(request.body));
}

HttpResponse Remote::send(RemoteRequest request) {
  return RemoteCall(*this, std::move(request)).wait();
}

NetTime Remote::now() const { return signing_time().time; }

SigningTime Remote::signing_time() const {
  const auto& clock = settings_.retries.clock;
  const std::int64_t skew_ms = skew_ms_;
  return {.time = (clock ? *clock : *real_net_clock()).now() + std::chrono::milliseconds(skew_ms),
          .skew = std::to_string(skew_ms)};
}

bool Remote::is_temporary(int status, const std::string& /*code*/) const {
  return is_temporary_status(status);
}

std::optional<HttpHeader> Remote::same_version(const HttpResponse& response) const {
  const std::string_view etag = response.header("etag");
  return etag.empty() ? std::nullopt : std::optional(HttpHeader{"if-match", std::string(etag)});
}

// Several requests may have been signed before an answer corrected the clock. Their refusals arrive
// when the clock is already right, but these requests had the wrong time. So if the correction has
// changed since the request was signed, the request is worth another attempt.
bool Remote::learn_time(const HttpResponse& response, bool is_certain, std::string_view skew) {
  std::int64_t known = skew_ms_;
  if (skew != std::to_string(known)) return true;
  const auto date = parse_http_date(response.header("date"));
  if (!date) return false;
  const auto& clock = settings_.retries.clock;
  const NetTime ours = (clock ? *clock : *real_net_clock()).now();
  const auto right = std::chrono::duration_cast<std::chrono::milliseconds>(*date - ours);
  if (!is_certain && std::chrono::abs(right - std::chrono::milliseconds(known)) <= kMaxSkew) {
    return false;
  }
  skew_ms_.compare_exchange_strong(known, right.count());  // unless another thread was faster
  return true;
}

void Remote::keep_secret(std::vector<std::string> secrets) {
  const std::scoped_lock lock(mutex_);
  if (secrets == secrets_[0]) return;  // Most requests report the same secrets again.
  secrets_[1] = std::exchange(secrets_[0], std::move(secrets));
}

// Nobody who reads a log may be able to sign with what it contains.
std::string Remote::without_secrets(std::string text) const {
  const std::scoped_lock lock(mutex_);
  for (const auto& secrets : secrets_)
    text = masked(std::move(text), secrets);
  return text;
}

// Masks first: a secret that is cut, or has a byte replaced, would not be found.
std::string Remote::safe_text(const std::string& text) const {
  return printable_line(without_secrets(text).substr(0, kLongestMessage));
}

std::string Remote::described(const std::string& key, const HttpResponse& response) const {
  if (response.redirected_to.empty()) return describe(key);
  return describe(key) + " (redirected to " + safe_text(response.redirected_to) + ")";
}

void Remote::refuse(const HttpResponse& response, const std::string& doing,
                    const std::string& key) const {
  const RemoteError error = error_in(response);
  std::string text = doing + " " + described(key, response) + ": the server answered " +
                     std::to_string(response.status);
  if (!error.code.empty()) text += " " + safe_text(error.code);
  if (!error.message.empty()) text += ": " + safe_text(error.message);
  text = without_secrets(std::move(text)) + advice_for(response.status, error.code);
  const bool is_known = settings_.has_plain_404 || is_missing(response);
  if (response.status == 404 && is_known) throw NotFoundError(text);
  if (response.status == 412) throw AlreadyExistsError(text);
  throw StorageError(text, response.status, is_temporary(response.status, error.code));
}

void Remote::check(const HttpResponse& response, const std::string& doing,
                   const std::string& key) const {
  if (!is_success(response)) refuse(response, doing, key);
}

// --- RemoteCall ----------------------------------------------------------------------------------

RemoteCall::RemoteCall(Remote& remote, RemoteRequest request)
    : remote_(remote),
      request_(std::move(request)),
      attempts_(remote.settings().retries),
      hook_([this] {
        const std::scoped_lock lock(mutex_);
        if (call_ != nullptr) call_->cancel();
      }) {
  remote_.prepare_once(request_);
  start();
}

void RemoteCall::start() {
  SignedRequest made = remote_.sign(request_);
  const RemoteSettings& settings = remote_.settings();
  signed_by_ = std::move(made.signed_by);
  made.http.body = request_.body;
  made.http.into = request_.into;
  made.http.most_bytes = request_.most_bytes;
  made.http.deadlines = request_.is_cleanup ? kCleanupDeadlines : settings.deadlines;
  // While the server works, it sends only blanks.
  if (request_.is_answered_late) made.http.deadlines.least_speed = 1;
  made.http.ca_file = settings.ca_file;
  {
    const std::scoped_lock lock(mutex_);
    call_.reset();  // Releases the memory for the body, which is used again.
  }
  auto call = settings.client->start(std::move(made.http));
  const std::scoped_lock lock(mutex_);
  call_ = std::move(call);
  if (hook_.is_cancelled()) call_->cancel();
}

bool RemoteCall::wait_for_next(std::optional<std::chrono::milliseconds> server_asks) {
  return !request_.is_cleanup && attempts_.wait_for_next(server_asks);
}

HttpResponse RemoteCall::wait() {
  for (;;) {
    HttpResponse response = call_->wait();
    if (is_of_other_version(response)) response.status = 412;
    if (is_final(response)) {
      response.received += received_;
      return response;
    }
    start();
  }
}

// Whether wait() returns this answer. If not, there is another attempt.
bool RemoteCall::is_final(const HttpResponse& response) {
  if (response.failure.empty()) {
    const bool may_be_error = response.status >= 300 || request_.is_answered_late;
    const RemoteError error = may_be_error ? remote_.error_in(response) : RemoteError();
    if (remote_.learn(response, error, signed_by_) && ++learned_ <= kMaxLessons) return false;
    if (!remote_.is_temporary(response.status, error.code)) {
      if (response.status == 206) check_range(response);
      return true;
    }
    return !wait_for_next(retry_after(response.header("retry-after"), remote_.now()));
  }
  if (response.is_too_long && request_.returns_too_long) return true;
  // A server that sends only a few bytes at a time does not count as progress: otherwise the
  // attempts would never end.
  if (resume_after(response) && !response.is_stalled) attempts_.reset();
  const std::string text = request_.method + " of " + remote_.described(request_.key, response) +
                           ": " + printable_line(response.failure);
  if (response.cancelled) {
    check_cancelled_here();  // its error says why
    throw CancelledError(text);
  }
  if (response.may_work_later && wait_for_next()) return false;
  throw StorageError(
      text + (response.may_work_later ? " (tried " + std::to_string(attempts_.made()) + " times)"
                                      : std::string()),
      response.status, response.may_work_later);
}

// Some servers, and caches in front of servers, ignore the condition of a read. Such a server sends
// the current object with its version. That answer is as good as a refusal.
bool RemoteCall::is_of_other_version(const HttpResponse& response) const {
  if (request_.method != "GET" || !is_success(response)) return false;
  const auto given = remote_.same_version(response);
  return given && std::ranges::any_of(request_.headers, [&](const HttpHeader& asked) {
           return asked.name == given->name && asked.value != given->value;
         });
}

// The first byte that a range asks for: 5 for "bytes=5-9". nullopt if there is no range, or the
// range asks for the last bytes.
std::optional<std::uint64_t> RemoteCall::first_byte() const {
  constexpr std::string_view kUnit = "bytes=";
  for (const HttpHeader& header : request_.headers) {
    if (header.name != "range" || !header.value.starts_with(kUnit)) continue;
    if (header.value.find('-') == kUnit.size()) return std::nullopt;
    return std::stoull(header.value.substr(kUnit.size()));
  }
  return std::nullopt;
}

// Whether the answer's bytes begin at `first`.
bool RemoteCall::begins_at(const HttpResponse& response, std::uint64_t first) const {
  return response.status == 206 &&
         response.header("content-range").starts_with("bytes " + std::to_string(first) + "-");
}

void RemoteCall::check_range(const HttpResponse& response) const {
  const auto first = first_byte();
  const std::string_view given = response.header("content-range");
  if (!first || begins_at(response, *first)) return;
  throw StorageError("reading " + remote_.describe(request_.key) + ": asked for bytes from " +
                         std::to_string(*first) + " on, the server sent \"" +
                         printable_line(given) + "\"",
                     response.status);
}

// A range that broke off continues where it stopped. The range starts again if the received bytes
// are not the requested bytes: a server that ignores ranges sends the first bytes.
bool RemoteCall::resume_after(const HttpResponse& response) {
  const std::size_t received = response.received;
  const auto first = first_byte();
  if (received == 0 || !first || received >= request_.into.size()) return false;
  if (!begins_at(response, *first)) return false;
  for (HttpHeader& header : request_.headers) {
    if (header.name != "range") continue;
    header.value =
        "bytes=" + std::to_string(*first + received) + header.value.substr(header.value.find('-'));
  }
  request_.into = request_.into.subspan(received);
  received_ += received;
  return true;
}

}  // namespace cairn
