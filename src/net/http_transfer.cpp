#include "net/http_transfer.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <stdexcept>

#include "net/url.h"

namespace cairn {
namespace {

constexpr std::string_view kUserAgent = "cairn/0.1";
constexpr long kReceiveBuffer = 512 << 10;
// Each upload has one such buffer: 1 MiB is not faster. TLS sends records of 16 KiB, one per call.
// TLS is faster if the buffer and the records fit into a core's cache together.
constexpr long kSendBuffer = 256 << 10;
constexpr long kTlsSendBuffer = 128 << 10;

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") + 1 - begin);
}

std::string lower_case_name(std::string_view name) {
  std::string lower(name);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
  return lower;
}

// Whether the cause may be a broken network, a restarting server or an overloaded server.
bool may_work_later(CURLcode code) {
  constexpr std::array kPassing = {CURLE_COULDNT_RESOLVE_PROXY,
                                   CURLE_COULDNT_RESOLVE_HOST,
                                   CURLE_COULDNT_CONNECT,
                                   CURLE_PARTIAL_FILE,
                                   CURLE_OPERATION_TIMEDOUT,
                                   CURLE_SSL_CONNECT_ERROR,
                                   CURLE_GOT_NOTHING,
                                   CURLE_SEND_ERROR,
                                   CURLE_RECV_ERROR,
                                   CURLE_SEND_FAIL_REWIND,
                                   CURLE_HTTP2,
                                   CURLE_HTTP2_STREAM,
                                   CURLE_WEIRD_SERVER_REPLY};
  return std::find(kPassing.begin(), kPassing.end(), code) != kPassing.end();
}

// Recognizes libcurl's message about an unusable proxy, whose error code varies.
bool is_unusable_proxy(std::string_view said) { return said.starts_with("Unsupported proxy"); }

}  // namespace

HttpTransfer::HttpTransfer(const CurlApi& api, HttpRequest request)
    : api_(api),
      request_(std::move(request)),
      headers_(nullptr, api.slist_free_all),
      easy_(api.easy_init(), api.easy_cleanup) {
  if (easy_ == nullptr) throw std::bad_alloc();
  future_ = promise_.get_future().share();
  set_target();
  set_limits();
  set_callbacks();
  set_body();
}

template <class Value>
void HttpTransfer::set(CURLoption option, Value value) {
  const CURLcode code = api_.easy_setopt(easy_.get(), option, value);
  if (code != CURLE_OK) {
    throw std::runtime_error("libcurl refuses option " + std::to_string(option) + ": " +
                             api_.easy_strerror(code));
  }
}

void HttpTransfer::set_target() {
  set(CURLOPT_URL, request_.url.c_str());
  set(CURLOPT_PATH_AS_IS, 1L);  // The path was signed as it is.
  set_protocols();
  set(CURLOPT_FOLLOWLOCATION, request_.redirects > 0 ? 1L : 0L);
  set(CURLOPT_MAXREDIRS, static_cast<long>(request_.redirects));
  set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));  // one connection per part
  set(CURLOPT_SSL_VERIFYPEER, 1L);
  set(CURLOPT_SSL_VERIFYHOST, 2L);
  set_certificates();
  if (request_.is_direct) set(CURLOPT_NOPROXY, "*");
  set(CURLOPT_USERAGENT, kUserAgent.data());
  for (const HttpHeader& header : request_.headers) {
    add_header(header.value.empty() ? header.name + ";" : header.name + ": " + header.value);
  }
  add_header("expect:");  // Saves a round trip before every body.
  set(CURLOPT_HTTPHEADER, headers_.get());
}

void HttpTransfer::set_certificates() {
  const std::string& file = request_.ca_file.empty() ? api_.ca_file : request_.ca_file;
  if (!file.empty()) set(CURLOPT_CAINFO, file.c_str());
  if (!api_.ca_file.empty()) set(CURLOPT_PROXY_CAINFO, api_.ca_file.c_str());
  if (!api_.ca_folder.empty()) {
    if (request_.ca_file.empty()) set(CURLOPT_CAPATH, api_.ca_folder.c_str());
    set(CURLOPT_PROXY_CAPATH, api_.ca_folder.c_str());
  }
}

void HttpTransfer::add_header(const std::string& line) {
  curl_slist* const longer = api_.slist_append(headers_.get(), line.c_str());
  if (longer == nullptr) throw std::bad_alloc();
  static_cast<void>(headers_.release());
  headers_.reset(longer);
}

// The program finds libcurl at run time; libcurl may be older or newer than the headers. The old
// options take numbers, the new ones take texts.
void HttpTransfer::set_protocols() {
  // for 7.85 and later
  constexpr auto kAllowed = static_cast<CURLoption>(CURLOPTTYPE_STRINGPOINT + 318);
  constexpr auto kRedirected = static_cast<CURLoption>(CURLOPTTYPE_STRINGPOINT + 319);
  constexpr auto kOldAllowed = static_cast<CURLoption>(CURLOPTTYPE_LONG + 181);
  constexpr auto kOldRedirected = static_cast<CURLoption>(CURLOPTTYPE_LONG + 182);
  constexpr long kBoth = CURLPROTO_HTTP | CURLPROTO_HTTPS;
  const bool is_secure = request_.url.starts_with("https:");
  if (api_.easy_setopt(easy_.get(), kAllowed, "http,https") == CURLE_OK) {
    set(kRedirected, is_secure ? "https" : "http,https");
  } else {
    set(kOldAllowed, kBoth);
    set(kOldRedirected, is_secure ? static_cast<long>(CURLPROTO_HTTPS) : kBoth);
  }
}

void HttpTransfer::set_limits() {
  const HttpDeadlines& deadlines = request_.deadlines;
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(deadlines.connect.count()));
  set(CURLOPT_TIMEOUT_MS, static_cast<long>(deadlines.total.count()));
  if (deadlines.stall.count() > 0) {
    set(CURLOPT_LOW_SPEED_LIMIT, deadlines.least_speed);
    set(CURLOPT_LOW_SPEED_TIME,
        static_cast<long>(std::max<std::int64_t>(1, deadlines.stall.count() / 1000)));
  }
  set(CURLOPT_BUFFERSIZE, kReceiveBuffer);
  const bool is_tls = request_.url.starts_with("https:");
  set(CURLOPT_UPLOAD_BUFFERSIZE, is_tls ? kTlsSendBuffer : kSendBuffer);
}

void HttpTransfer::set_callbacks() {
  using Write = std::size_t (*)(char*, std::size_t, std::size_t, void*);
  using Seek = int (*)(void*, curl_off_t, int);
  set(CURLOPT_ERRORBUFFER, error_.data());
  set(CURLOPT_HEADERDATA, static_cast<void*>(this));
  set(CURLOPT_HEADERFUNCTION,
      static_cast<Write>([](char* data, std::size_t, std::size_t size, void* self) {
        return static_cast<HttpTransfer*>(self)->take(&HttpTransfer::take_header, {data, size});
      }));
  set(CURLOPT_WRITEDATA, static_cast<void*>(this));
  set(CURLOPT_WRITEFUNCTION,
      static_cast<Write>([](char* data, std::size_t, std::size_t size, void* self) {
        return static_cast<HttpTransfer*>(self)->take(&HttpTransfer::take_body, {data, size});
      }));
  set(CURLOPT_READDATA, static_cast<void*>(this));
  set(CURLOPT_READFUNCTION,
      static_cast<Write>([](char* data, std::size_t one, std::size_t size, void* self) {
        return static_cast<HttpTransfer*>(self)->read_body(data, one * size);
      }));
  set(CURLOPT_SEEKDATA, static_cast<void*>(this));
  set(CURLOPT_SEEKFUNCTION, static_cast<Seek>([](void* self, curl_off_t offset, int) {
        return static_cast<HttpTransfer*>(self)->seek_body(offset);
      }));
}

void HttpTransfer::set_body() {
  curl_off_t size = 0;
  for (const SharedBytes& piece : request_.body) {
    size += static_cast<curl_off_t>(piece.view.size());
  }
  if (request_.method == "HEAD") {
    set(CURLOPT_NOBODY, 1L);
  } else if (request_.method != "GET" && request_.method != "DELETE") {
    set(CURLOPT_UPLOAD, 1L);
    set(CURLOPT_INFILESIZE_LARGE, size);
    set(CURLOPT_CUSTOMREQUEST, request_.method.c_str());
  } else if (request_.method != "GET") {
    set(CURLOPT_CUSTOMREQUEST, request_.method.c_str());
  }
}

std::size_t HttpTransfer::read_body(char* into, std::size_t size) {
  std::size_t copied = 0;
  while (copied < size && piece_ < request_.body.size()) {
    const ByteView piece = request_.body[piece_].view.subspan(piece_offset_);
    const std::size_t now = std::min(piece.size(), size - copied);
    std::memcpy(into + copied, piece.data(), now);
    copied += now;
    piece_offset_ += now;
    if (now == piece.size()) {
      ++piece_;
      piece_offset_ = 0;
    }
  }
  return copied;
}

// libcurl sends the body again if a kept connection turns out to be closed.
int HttpTransfer::seek_body(curl_off_t offset) {
  auto left = static_cast<std::size_t>(offset);
  for (piece_ = 0; piece_ < request_.body.size(); ++piece_) {
    if (left < request_.body[piece_].view.size()) break;
    left -= request_.body[piece_].view.size();
  }
  piece_offset_ = left;
  return CURL_SEEKFUNC_OK;
}

// libcurl cannot pass exceptions on. The exception becomes the answer, and the transfer ends.
std::size_t HttpTransfer::take(std::size_t (HttpTransfer::*part)(std::string_view),
                               std::string_view bytes) noexcept {
  try {
    return (this->*part)(bytes);
  } catch (...) {
    thrown_ = std::current_exception();
    return 0;  // Fewer bytes than given: libcurl aborts.
  }
}

std::size_t HttpTransfer::take_header(std::string_view line) {
  // The first line of an answer. After a redirect it is not the first answer.
  if (line.starts_with("HTTP/")) {
    response_.headers.clear();
    response_.body.clear();
    response_.received = 0;
    has_headers_ = false;
    const std::size_t space = std::min(line.find(' '), line.size());
    response_.status = std::atoi(std::string(line.substr(space)).c_str());
  } else if (const std::size_t colon = line.find(':'); colon != std::string_view::npos) {
    response_.headers.push_back({lower_case_name(trimmed(line.substr(0, colon))),
                                 std::string(trimmed(line.substr(colon + 1)))});
  } else if (trimmed(line).empty()) {
    has_headers_ = true;
  }
  return line.size();
}

std::size_t HttpTransfer::take_body(std::string_view bytes) {
  const bool has_place = request_.into.data() != nullptr;
  if (has_place && (response_.status == 200 || response_.status == 206)) {
    if (bytes.size() > request_.into.size() - response_.received) {
      too_much_ = "the answer is longer than what was asked for";
      return 0;
    }
    std::memcpy(request_.into.data() + response_.received, bytes.data(), bytes.size());
    response_.received += bytes.size();
  } else {
    if (bytes.size() > request_.most_bytes - std::min(request_.most_bytes, response_.body.size())) {
      too_much_ = "the answer is longer than " + std::to_string(request_.most_bytes) + " bytes";
      return 0;
    }
    response_.body += bytes;
  }
  return bytes.size();
}

// libcurl's message about a proxy may repeat the proxy's whole URL, including a password. So the
// messages here are our own.
std::string HttpTransfer::failure_of(CURLcode code) const {
  if (!too_much_.empty()) return too_much_;
  const std::string_view said = error_.data();
  constexpr const char* kProxy =
      "the proxy of the environment (https_proxy, all_proxy, http_proxy)";
  if (is_unusable_proxy(said)) {
    return std::string(kProxy) +
           " is not a usable URL: begin it with http://, and in its user and password write "
           "%2F for /, %23 for #, %40 for @ and %20 for a space";
  }
  if (code == CURLE_COULDNT_RESOLVE_PROXY) {
    return std::string(kProxy) + " is not found: its host name cannot be resolved";
  }
  std::string failure = said.empty() ? std::string(api_.easy_strerror(code)) : std::string(said);
  const bool has_file = !request_.ca_file.empty();
  if (code == CURLE_PEER_FAILED_VERIFICATION && !has_file) failure += api_.certificate_advice;
  return failure;
}

std::string HttpTransfer::redirected_to() const {
  long followed = 0;
  api_.easy_getinfo(easy_.get(), CURLINFO_REDIRECT_COUNT, &followed);
  const char* url = nullptr;
  api_.easy_getinfo(easy_.get(), followed > 0 ? CURLINFO_EFFECTIVE_URL : CURLINFO_REDIRECT_URL,
                    &url);
  return url == nullptr ? std::string() : shown_url(url);
}

// `describe` fills in the rest of the response.
template <class Describe>
void HttpTransfer::answer(const Describe& describe) noexcept {
  try {
    if (thrown_) std::rethrow_exception(thrown_);
    describe();
    promise_.set_value(std::move(response_));
  } catch (...) {
    promise_.set_exception(std::current_exception());
  }
}

void HttpTransfer::finish(CURLcode code) noexcept {
  answer([&] {
    response_.redirected_to = redirected_to();
    if (code != CURLE_OK) {
      response_.failure = failure_of(code);
      response_.is_stalled = code == CURLE_OPERATION_TIMEDOUT;
      response_.is_too_long = !too_much_.empty();
      response_.may_work_later =
          too_much_.empty() && !is_unusable_proxy(error_.data()) && may_work_later(code);
    } else if (!has_headers_) {  // libcurl reports a connection that ends here as an empty answer.
      response_.failure = "the connection broke off in the headers of the answer";
      response_.may_work_later = true;
    }
  });
}

void HttpTransfer::finish_cancelled() noexcept {
  answer([&] {
    response_.failure = "cancelled";
    response_.cancelled = true;
  });
}

void HttpTransfer::finish_refused() noexcept {
  answer([&] { response_.failure = "libcurl takes no more requests"; });
}

}  // namespace cairn
