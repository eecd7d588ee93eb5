// One request as libcurl sees it.
#pragma once

#include <array>
#include <atomic>
#include <exception>
#include <future>
#include <memory>

#include "net/curl_api.h"
#include "net/http.h"

namespace cairn {

// Used only by the loop's thread, except future(). Not movable: libcurl holds pointers to it.
class HttpTransfer {
 public:
  HttpTransfer(const CurlApi& api, HttpRequest request);
  HttpTransfer(const HttpTransfer&) = delete;
  HttpTransfer& operator=(const HttpTransfer&) = delete;

  CURL* handle() const { return easy_.get(); }
  std::shared_future<HttpResponse> future() const { return future_; }

  // These functions complete future(), once. If there is no memory for the answer, the future gets
  // an exception.
  void finish(CURLcode code) noexcept;
  void finish_cancelled() noexcept;
  void finish_refused() noexcept;  // libcurl refused the request

  // Any thread may call these two functions.
  void ask_to_cancel() noexcept { is_to_be_cancelled_ = true; }
  bool is_to_be_cancelled() const noexcept { return is_to_be_cancelled_; }

 private:
  template <class Value>
  void set(CURLoption option, Value value);
  void set_target();
  void add_header(const std::string& line);
  void set_certificates();
  void set_protocols();
  void set_limits();
  void set_callbacks();
  void set_body();
  std::size_t read_body(char* into, std::size_t size);
  int seek_body(curl_off_t offset);
  std::size_t take(std::size_t (HttpTransfer::*part)(std::string_view),
                   std::string_view bytes) noexcept;
  std::size_t take_header(std::string_view line);
  std::size_t take_body(std::string_view bytes);
  std::string failure_of(CURLcode code) const;
  std::string redirected_to() const;
  template <class Describe>
  void answer(const Describe& describe) noexcept;

  const CurlApi& api_;
  HttpRequest request_;
  HttpResponse response_ = {};
  std::unique_ptr<curl_slist, decltype(&::curl_slist_free_all)> headers_;
  // Destroyed first: it points at the members above.
  std::unique_ptr<CURL, decltype(&::curl_easy_cleanup)> easy_;
  std::array<char, CURL_ERROR_SIZE> error_ = {};
  std::string too_much_ = {};  // why take_body() refused
  std::exception_ptr thrown_;  // thrown while the answer was received
  bool has_headers_ = false;   // The headers of the last answer are complete.
  std::size_t piece_ = 0;      // index of the body piece that is sent next
  std::size_t piece_offset_ = 0;
  std::atomic<bool> is_to_be_cancelled_ = false;
  std::promise<HttpResponse> promise_;
  std::shared_future<HttpResponse> future_;
};

}  // namespace cairn
