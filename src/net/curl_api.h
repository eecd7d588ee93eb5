// The functions of libcurl. curl_api.cpp loads libcurl at run time, when the first request is made:
// it brings thirty other libraries, which would add 10 ms to every start of the tool. The static
// tool has curl_static.cpp instead, and a libcurl that is linked.
#pragma once

#include <curl/curl.h>

#include <string>

#include "cairn/error.h"

// libcurl's type-checking macros would call the functions by name instead of through CurlApi.
#undef curl_easy_getinfo
#undef curl_easy_setopt
#undef curl_multi_setopt

namespace cairn {

struct CurlApi {
  decltype(&::curl_global_init) global_init;
  decltype(&::curl_easy_init) easy_init;
  decltype(&::curl_easy_cleanup) easy_cleanup;
  decltype(&::curl_easy_setopt) easy_setopt;
  decltype(&::curl_easy_getinfo) easy_getinfo;
  decltype(&::curl_easy_strerror) easy_strerror;
  decltype(&::curl_multi_init) multi_init;
  decltype(&::curl_multi_cleanup) multi_cleanup;
  decltype(&::curl_multi_setopt) multi_setopt;
  decltype(&::curl_multi_add_handle) multi_add_handle;
  decltype(&::curl_multi_remove_handle) multi_remove_handle;
  decltype(&::curl_multi_perform) multi_perform;
  decltype(&::curl_multi_info_read) multi_info_read;
  decltype(&::curl_multi_poll) multi_poll;
  decltype(&::curl_multi_wakeup) multi_wakeup;
  decltype(&::curl_slist_append) slist_append;
  decltype(&::curl_slist_free_all) slist_free_all;

  // Trusted certificates, for requests that name none. Both are empty if libcurl has a default.
  std::string ca_file = {};
  std::string ca_folder = {};
  // Advice for an error of a certificate, if the machine has none to trust.
  std::string certificate_advice = {};
};

// Starts the libcurl of these functions. Throws UnsupportedError.
inline CurlApi started(CurlApi api) {
  if (const CURLcode code = api.global_init(CURL_GLOBAL_DEFAULT); code != CURLE_OK) {
    throw UnsupportedError(std::string("libcurl does not start: ") + api.easy_strerror(code));
  }
  return api;
}

// Throws UnsupportedError if libcurl 4 is not installed, or does not start. The next call tries
// again then.
const CurlApi& curl_api();

}  // namespace cairn
