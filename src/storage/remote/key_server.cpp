#include "storage/remote/key_server.h"

#include "cairn/error.h"

#include "core/text/printable.h"
#include "io/threads/cancellation.h"

namespace cairn {
namespace {

constexpr int kFetchAttempts = 3;

}  // namespace

void refuse_keys(const std::string& what, const std::string& why, int status) {
  throw StorageError(what + " could not be fetched: " + why, status,
                     /*retryable=*/status == 0 || status >= 500 || status == 429);
}

HttpResponse ask_for_keys(HttpClient& client, const NetRetries& retries,
                          const HttpRequest& request) {
  Attempts attempts(retries, kFetchAttempts);
  for (;;) {
    const auto call = client.start(request);
    HttpResponse response;
    {
      const CancelHook hook([&] { call->cancel(); });
      response = call->wait();
    }
    if (response.cancelled) check_cancelled_here();
    const bool is_temporary =
        !response.failure.empty() || response.status >= 500 || response.status == 429;
    if (!is_temporary || !attempts.wait_for_next()) return response;
  }
}

std::string keys_answer(const HttpResponse& response, const std::string& what) {
  if (!response.failure.empty()) refuse_keys(what, printable_line(response.failure));
  if (response.status != 200) {
    refuse_keys(what, "the answer was " + std::to_string(response.status), response.status);
  }
  return response.body;
}

}  // namespace cairn
