// Servers that hand out keys and tokens. Nothing here repeats their answers, which may be secrets.
#pragma once

#include <string>

#include "net/http.h"
#include "net/retry.h"

namespace cairn {

// Returns the first answer that is not worth another attempt. Throws CancelledError.
HttpResponse ask_for_keys(HttpClient& client, const NetRetries& retries,
                          const HttpRequest& request);
// Returns the body of the answer. Throws StorageError, which names `what`, unless its status is
// 200.
std::string keys_answer(const HttpResponse& response, const std::string& what);
[[noreturn]] void refuse_keys(const std::string& what, const std::string& why, int status = 0);

}  // namespace cairn
