#include "net/curl_api.h"

#include <dlfcn.h>

#include <mutex>
#include <optional>
#include <string>

#include "cairn/error.h"

namespace cairn {
namespace {

// The first library name stands for libcurl's ABI, which has not changed since 2006. The second
// name is Debian's build of the same library with GnuTLS.
constexpr const char* kLibraries[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};

class Library {
 public:
  Library() {
    for (const char* name : kLibraries) {
      if (handle_ == nullptr) handle_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
    if (handle_ == nullptr) {
      throw UnsupportedError(
          "object stores over the network need libcurl, which is not installed "
          "(Debian: apt-get install libcurl4)");
    }
  }

  template <class Function>
  void find(Function& function, const char* name) const {
    function = reinterpret_cast<Function>(dlsym(handle_, name));
    if (function == nullptr) {
      throw UnsupportedError(std::string("libcurl is too old: it has no ") + name +
                             "(); version 7.68 or newer is needed");
    }
  }

 private:
  void* handle_ = nullptr;  // Never closed: libcurl's threads and exit handlers may still run.
};

CurlApi load_curl() {
  const Library library;
  CurlApi api = {};
  library.find(api.global_init, "curl_global_init");
  library.find(api.easy_init, "curl_easy_init");
  library.find(api.easy_cleanup, "curl_easy_cleanup");
  library.find(api.easy_setopt, "curl_easy_setopt");
  library.find(api.easy_getinfo, "curl_easy_getinfo");
  library.find(api.easy_strerror, "curl_easy_strerror");
  library.find(api.multi_init, "curl_multi_init");
  library.find(api.multi_cleanup, "curl_multi_cleanup");
  library.find(api.multi_setopt, "curl_multi_setopt");
  library.find(api.multi_add_handle, "curl_multi_add_handle");
  library.find(api.multi_remove_handle, "curl_multi_remove_handle");
  library.find(api.multi_perform, "curl_multi_perform");
  library.find(api.multi_info_read, "curl_multi_info_read");
  library.find(api.multi_poll, "curl_multi_poll");
  library.find(api.multi_wakeup, "curl_multi_wakeup");
  library.find(api.slist_append, "curl_slist_append");
  library.find(api.slist_free_all, "curl_slist_free_all");
  return api;
}

}  // namespace

const CurlApi& curl_api() {
  static const CurlApi api = started(load_curl());
  return api;
}

}  // namespace cairn
