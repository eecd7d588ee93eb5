#include "storage/remote/container.h"

#include <array>
#include <chrono>
#include <random>
#include <utility>

#include "cairn/error.h"

#include "core/existing.h"
#include "core/text/printable.h"
#include "io/threads/time_limit.h"
#include "net/digest.h"
#include "storage/pages.h"

namespace cairn {
namespace {

constexpr std::size_t kMaxEmptyPages = 1000;  // in succession

// If a list ended too early, it would be taken as complete, and objects that the list lacks would
// be removed.
void check_next_page(const RemoteList& answer, const std::string& page) {
  if (!answer.is_truncated) return;
  if (answer.next.empty()) {
    throw StorageError("the server says that the list goes on, but not how to ask for more", 0,
                       /*retryable=*/true);
  }
  if (answer.next == page) {
    throw StorageError("the server names this page as the next page", 0, /*retryable=*/true);
  }
}

// A server that ignores the prefix lists other objects, too. remove_folder() would remove them, as
// it removes all objects in the list.
void check_prefix(const RemoteList& answer, const ListQuery& query) {
  const auto refuse = [&](const std::string& name) {
    throw StorageError("the server listed \"" + printable_line(name) +
                           "\", which is not below the requested prefix \"" +
                           printable_line(query.prefix) + "\"",
                       0);
  };
  for (const RemoteList::Object& object : answer.objects) {
    if (!object.key.starts_with(query.prefix)) refuse(object.key);
  }
  for (const std::string& below : answer.prefixes) {
    const bool is_below = below.size() > query.prefix.size() && below.starts_with(query.prefix) &&
                          below.ends_with(query.delimiter);
    if (!is_below) refuse(below);
  }
}

}  // namespace

// The answer to HEAD has no body that says why the server refuses. So a GET asks for the reason. If
// the GET succeeds, the fault was temporary.
std::optional<RemoteHead> RemoteContainer::head(const std::string& key) {
  const RemoteRequest request = {.method = "HEAD", .key = key, .headers = head_headers()};
  Attempts attempts(remote_->settings().retries);
  HttpResponse response = remote_->send(request);
  const bool tells_why = remote_->settings().has_plain_404;
  while (!is_success(response) && (response.status != 404 || !tells_why)) {
    const HttpResponse why = remote_->send({.key = key, .headers = {{"range", "bytes=0-0"}}});
    if (response.status == 404 && remote_->is_missing(why)) return std::nullopt;
    const bool may_be_missing = why.status == 404 && tells_why;
    const bool has_passed = is_success(why) || may_be_missing || why.status == 416;
    if (!has_passed || !attempts.wait_for_next()) {
      remote_->refuse(has_passed ? response : why, "looking at", key);
    }
    response = remote_->send(request);
  }
  if (response.status == 404) return std::nullopt;
  return head_in(response);
}

// Some servers send empty pages before pages that contain names.
RemoteList RemoteContainer::list(const ListQuery& query) {
  ListQuery asked = query;
  Pages pages(remote_->describe(query.prefix));
  for (;;) {
    RemoteList answer = list_page(asked);
    const bool is_empty = answer.objects.empty() && answer.prefixes.empty();
    if (!is_empty || !pages.advance(answer.next)) return answer;
    if (pages.count() > kMaxEmptyPages) refuse_endless(remote_->describe(query.prefix));
    asked.page = answer.next;
  }
}

RemoteList RemoteContainer::list_page(const ListQuery& query) {
  Attempts attempts(remote_->settings().retries);
  for (;;) {
    const HttpResponse response = remote_->send(list_request(query));
    remote_->check(response, "listing", query.prefix);
    try {
      RemoteList answer = list_in(response.body);
      check_prefix(answer, query);
      if (query.most == 0) check_next_page(answer, query.page);
      return answer;
    } catch (StorageError& e) {
      if (e.retryable() && attempts.wait_for_next()) continue;
      e.add_context("listing " + remote_->describe(query.prefix));
      throw;
    }
  }
}

bool RemoteContainer::has_below(const std::string& prefix) {
  return !list({.prefix = prefix, .most = 1}).objects.empty();
}

void RemoteContainer::remove(const std::string& key) {
  const HttpResponse response = remote_->send({.method = "DELETE", .key = key});
  if (!remote_->is_missing(response)) remote_->check(response, "removing", key);
}

RemoteRequest RemoteContainer::abort_request(const RemoteUpload& upload) const {
  return {.method = "DELETE", .key = upload.key, .query = {{"uploadId", upload.id}}};
}

std::optional<RemoteHead> RemoteContainer::check_condition(const std::string& key,
                                                           const WriteCondition& condition) {
  auto there = head(key);
  const bool holds = condition.when == WriteCondition::If::kAlways ? true
                     : condition.when == WriteCondition::If::kAbsent
                         ? !there
                         : there && there->version == condition.version;
  if (!holds) refuse_condition(remote_->describe(key), condition);
  return there;
}

bool RemoteContainer::is_refused(const HttpResponse& response,
                                 const WriteCondition& condition) const {
  return response.status == 412 ||
         (response.status == 404 && condition.when == WriteCondition::If::kVersion);
}

RemoteHead RemoteContainer::put(const RemotePut& put) {
  const std::string write_id = new_write_id();
  std::optional<RemoteHead> before;
  const bool is_checked = !condition_headers(put.key, put.condition).empty();
  if (!is_checked) {
    before = check_condition(put.key, put.condition);
  } else if (put.condition.when == WriteCondition::If::kVersion) {
    before = RemoteHead{.version = put.condition.version};
  }
  const PutAnswer answer = send_put(put, write_id);
  const bool is_refused = this->is_refused(answer.response, put.condition);
  if (is_refused) {
    // Perhaps an earlier attempt succeeded, and its answer was lost.
    const auto there = head(put.key);
    if (!there || there->write_id != write_id) {
      refuse_condition(remote_->describe(put.key), put.condition);
    }
  } else {
    remote_->check(answer.response, "writing", put.key);
  }
  RemoteHead written = is_refused ? RemoteHead() : head_in(answer.response);
  // If the name was free, there is no old object that the server could have kept.
  const bool is_new = is_checked && put.condition.when == WriteCondition::If::kAbsent;
  if (is_new && !written.version.empty() && !written.checksum.empty() &&
      written.checksum == answer.checksum) {
    written.size = put.bytes.view.size();
    return written;
  }
  return verify({.key = put.key,
                 .size = put.bytes.view.size(),
                 .version = written.version,
                 .checksum = answer.checksum,
                 .write_id = write_id,
                 .before = before});
}

bool RemoteContainer::copy(const RemoteCopy& copy) {
  const auto before = check_condition(copy.to, copy.condition);
  const auto answer = send_copy(copy);
  if (!answer) return false;
  const int status = answer->response.status;
  if (status == 404 || status == 412 || is_refused(answer->response, copy.condition)) {
    check_refused_copy(copy, *answer);
  } else {
    remote_->check(answer->response, "copying to", copy.to);
  }
  verify({.key = copy.to,
          .size = copy.source.size,
          .checksum = copy.source.checksum,
          .write_id = answer->write_id,
          .before = before});
  return true;
}

// The copy may be done although it is refused: an earlier attempt succeeded, and its answer was
// lost.
void RemoteContainer::check_refused_copy(const RemoteCopy& copy, const CopyAnswer& answer) {
  const auto there = head(copy.to);
  const bool is_done = there && there->size == copy.source.size &&
                       there->write_id == answer.write_id &&
                       there->checksum == copy.source.checksum;
  if (is_done && !(there->write_id.empty() && there->checksum.empty())) return;
  const auto source = head(copy.from);
  const bool is_conditional = copy.condition.when != WriteCondition::If::kAlways;
  const bool is_other = !source || source->version != copy.source.version;
  if (is_other || (!is_conditional && answer.response.status == 412)) {
    throw StorageError(remote_->describe(copy.from) +
                           " was replaced while it was copied; nothing was written. Try again",
                       answer.response.status, /*retryable=*/false);
  }
  if (is_conditional && is_refused(answer.response, copy.condition)) {
    refuse_condition(remote_->describe(copy.to), copy.condition);
  }
  remote_->refuse(answer.response, "copying to", copy.to);
}

// Also called for an upload that was given up. The caller may have no time left, so the limit is
// short. The limit includes the time of a program that supplies keys.
void RemoteContainer::abort(const PartedUpload& upload) noexcept {
  constexpr std::chrono::milliseconds kTimeToAbort{4000};  // the request, and keys for it
  try {
    const TimeLimit limit("giving up an upload took too long", kTimeToAbort);
    auto request = upload.abort();
    if (!request) return;
    request->is_cleanup = true;
    remote_->send(std::move(*request));
  } catch (...) {
    // remove_leftovers() will find the upload.
  }
}

RemoteHead RemoteContainer::verify(const SentObject& sent) {
  const std::string where = remote_->describe(sent.key);
  const auto there = head(sent.key);
  const auto damaged = [&](const std::string& what) {
    throw StorageError(
        where + ": the server does not have what was written: " + what + "; write it again", 0,
        /*retryable=*/true);
  };
  if (!there) damaged("no object of that name");
  if (there->write_id != sent.write_id) {
    // The server confirmed the write, but kept the old object or still shows it. The old object may
    // have the same size.
    const bool is_as_before =
        sent.before && unquoted(there->version) == unquoted(sent.before->version) &&
        (sent.before->write_id.empty() || there->write_id == sent.before->write_id);
    if (is_as_before && (!there->write_id.empty() || sent.version.empty())) {
      damaged(std::string("it has the previous object, ") + version_title() + " " + there->version);
    }
    // Another write replaced the object right after ours. So ours was complete.
    if (!there->write_id.empty()) return {.size = sent.size, .version = ""};
  }
  if (there->size != sent.size) {
    damaged(std::to_string(there->size) + " bytes instead of " + std::to_string(sent.size));
  }
  if (!sent.version.empty() && unquoted(there->version) != unquoted(sent.version)) {
    damaged(std::string(version_title()) + " " + there->version + " instead of " + sent.version);
  }
  if (!sent.checksum.empty() && !there->checksum.empty() && there->checksum != sent.checksum) {
    damaged(std::string(checksum_title()) + " " + there->checksum + " instead of " + sent.checksum);
  }
  return *there;
}

ObjectInfo info_of_object(const RemoteHead& head) {
  return {.size = head.size, .modified = head.modified, .version = head.version};
}

std::vector<HttpHeader> etag_condition(const WriteCondition& condition) {
  if (condition.when == WriteCondition::If::kAlways) return {};
  if (condition.when == WriteCondition::If::kAbsent) return {{"if-none-match", "*"}};
  return {{"if-match", condition.version}};
}

void refuse_condition(const std::string& where, const WriteCondition& condition) {
  if (condition.when == WriteCondition::If::kAbsent) {
    refuse_existing(where);
  }
  throw AlreadyExistsError(where + " no longer has version " + condition.version +
                           ": another program replaced it");
}

std::string unquoted(const std::string& etag) {
  const bool is_quoted = etag.size() >= 2 && etag.starts_with('"') && etag.ends_with('"');
  return is_quoted ? etag.substr(1, etag.size() - 2) : etag;
}

std::string new_write_id() {
  std::random_device random;
  std::array<std::byte, 16> bytes;
  for (std::byte& byte : bytes)
    byte = static_cast<std::byte>(random());
  return hex(bytes);
}

}  // namespace cairn
