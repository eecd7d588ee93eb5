// The libcurl that the static tool contains (-DCAIRN_STATIC_TOOL=ON), and the certificates of the
// machine that it runs on. Nothing of the machine that built it is asked.
#include <array>
#include <string>

#include "cairn/error.h"

#include "core/environment.h"
#include "io/file.h"
#include "net/curl_api.h"

namespace cairn {
namespace {

// Debian and Alpine; Fedora and Red Hat; openSUSE; newer Red Hat; Arch and the BSDs.
constexpr std::array kCertificateFiles = {
    "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem", "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem"};

bool can_be_read(const char* file) {
  try {
    posix_file_system().open(file);
    return true;
  } catch (const Error&) {  // Whatever the cause, another file may be there.
    return false;
  }
}

void find_certificates(CurlApi& api) {
  api.ca_file = environment("CURL_CA_BUNDLE");
  api.ca_folder = environment("SSL_CERT_DIR");
  if (!api.ca_file.empty() || !api.ca_folder.empty()) return;
  for (const char* file : kCertificateFiles) {
    if (can_be_read(file)) {
      api.ca_file = file;
      return;
    }
  }
  api.certificate_advice =
      "; this machine has no trusted certificates where they usually are: install the package "
      "ca-certificates, or name a file of certificates in SSL_CERT_FILE";
}

CurlApi linked_curl() {
  CurlApi api = {.global_init = ::curl_global_init,
                 .easy_init = ::curl_easy_init,
                 .easy_cleanup = ::curl_easy_cleanup,
                 .easy_setopt = ::curl_easy_setopt,
                 .easy_getinfo = ::curl_easy_getinfo,
                 .easy_strerror = ::curl_easy_strerror,
                 .multi_init = ::curl_multi_init,
                 .multi_cleanup = ::curl_multi_cleanup,
                 .multi_setopt = ::curl_multi_setopt,
                 .multi_add_handle = ::curl_multi_add_handle,
                 .multi_remove_handle = ::curl_multi_remove_handle,
                 .multi_perform = ::curl_multi_perform,
                 .multi_info_read = ::curl_multi_info_read,
                 .multi_poll = ::curl_multi_poll,
                 .multi_wakeup = ::curl_multi_wakeup,
                 .slist_append = ::curl_slist_append,
                 .slist_free_all = ::curl_slist_free_all};
  find_certificates(api);
  return api;
}

}  // namespace

const CurlApi& curl_api() {
  static const CurlApi api = started(linked_curl());
  return api;
}

}  // namespace cairn
