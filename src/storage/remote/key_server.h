// Servers that give keys and tokens. Nothing here repeats what they said: it may be a secret.
#pragma once

#include <string>

#include "net/http.h"
#include "net/retry.h"

namespace cairn {

// The answer: the first that is not worth another attempt. CancelledError.
HttpResponse ask_for_keys(HttpClient& client, const NetRetries& retries,
                          const HttpRequest& request);
// Its body. StorageError, which says that `what` cannot be had, unless its status is 200.
std::string keys_answer(const HttpResponse& response, const std::string& what);
[[noreturn]] void refuse_keys(const std::string& what, const std::string& why, int status = 0);

}  // namespace cairn
