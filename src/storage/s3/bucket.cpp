#include "storage/s3/bucket.h"

#include <array>
#include <charconv>
#include <random>

#include "cairn/error.h"

#include "core/crc64.h"
#include "net/digest.h"
#include "net/net_time.h"

namespace cairn::s3 {
namespace {

constexpr const char* kWriteId = "x-amz-meta-cairn-write";
constexpr const char* kCrc64 = "x-amz-checksum-crc64nvme";
constexpr std::string_view kNoEtag = "\"00000000000000000000000000000000\"";

bool is_success(const HttpResponse& response) {
  return response.status >= 200 && response.status <= 299;
}

std::uint64_t length_of(const HttpResponse& response) {
  const std::string_view text = response.header("content-length");
  std::uint64_t size = 0;
  std::from_chars(text.data(), text.data() + text.size(), size);
  return size;
}

std::string unquoted(const std::string& etag) {
  const bool is_quoted = etag.size() >= 2 && etag.starts_with('"') && etag.ends_with('"');
  return is_quoted ? etag.substr(1, etag.size() - 2) : etag;
}

// A list that ends too early is taken for all there is, and what it lacks for removed.
void check_next_page(const ListAnswer& answer, const std::string& page) {
  if (!answer.is_truncated) return;
  if (answer.next.empty()) {
    throw StorageError("the server says that there is more, and not how to go on", 0,
                       /*retryable=*/true);
  }
  if (answer.next == page) {
    throw StorageError("the page behind this one is this one again", 0, /*retryable=*/true);
  }
}

}  // namespace

// An answer to HEAD has no body that would say why it refuses: then a GET is asked. One that is not
// refused shows that what was wrong has passed.
std::optional<Head> Bucket::head(const std::string& key) {
  const Request request = {
      .method = "HEAD", .key = key, .headers = {{"x-amz-checksum-mode", "ENABLED"}}};
  Attempts attempts(connection_->config().retries);
  HttpResponse response = connection_->send(request);
  while (response.status != 404 && !is_success(response)) {
    const HttpResponse why = connection_->send({.key = key, .headers = {{"range", "bytes=0-0"}}});
    const bool has_passed = is_success(why) || why.status == 404 || why.status == 416;
    if (!has_passed || !attempts.again()) {
      connection_->refuse(has_passed ? response : why, "looking at", key);
    }
    response = connection_->send(request);
  }
  if (response.status == 404) return std::nullopt;
  return Head{.size = length_of(response),
              .etag = std::string(response.header("etag")),
              .modified = parse_http_date(response.header("last-modified")).value_or(NetTime()),
              .write_id = std::string(response.header(kWriteId)),
              .crc64 = std::string(response.header(kCrc64))};
}

ListAnswer Bucket::list(const std::string& prefix, const std::string& delimiter,
                        const std::string& page, int most) {
  Query query = {{"list-type", "2"}, {"prefix", prefix}, {"encoding-type", "url"}};
  if (!delimiter.empty()) query.emplace_back("delimiter", delimiter);
  if (!page.empty()) query.emplace_back("continuation-token", page);
  if (most > 0) query.emplace_back("max-keys", std::to_string(most));
  Attempts attempts(connection_->config().retries);
  for (;;) {
    const HttpResponse response = connection_->send({.query = query});
    connection_->check(response, "listing", prefix);
    try {
      ListAnswer answer = parse_list(response.body);
      if (most == 0) check_next_page(answer, page);
      return answer;
    } catch (StorageError& e) {
      if (e.retryable() && attempts.again()) continue;
      e.add_context("listing " + connection_->describe(prefix));
      throw;
    }
  }
}

bool Bucket::has_below(const std::string& prefix) {
  const ListAnswer answer = list(prefix, "", "", 1);
  return !answer.objects.empty();
}

void Bucket::remove(const std::string& key) {
  const HttpResponse response = connection_->send({.method = "DELETE", .key = key});
  if (response.status != 404) connection_->check(response, "removing", key);
}

std::vector<HttpHeader> Bucket::write_headers(const std::string& write_id) const {
  const S3Options& options = connection_->config().options;
  std::vector<HttpHeader> headers = {{"content-type", "application/octet-stream"},
                                     {kWriteId, write_id}};
  if (!options.canned_acl.empty()) headers.push_back({"x-amz-acl", options.canned_acl});
  if (!options.server_side_encryption.empty()) {
    headers.push_back({"x-amz-server-side-encryption", options.server_side_encryption});
  }
  if (!options.sse_kms_key_id.empty()) {
    headers.push_back({"x-amz-server-side-encryption-aws-kms-key-id", options.sse_kms_key_id});
  }
  return headers;
}

std::optional<Head> Bucket::check_condition(const std::string& key,
                                            const WriteCondition& condition) {
  auto there = head(key);
  const bool holds = condition.when == WriteCondition::If::kAlways ? true
                     : condition.when == WriteCondition::If::kAbsent
                         ? !there
                         : there && there->etag == condition.version;
  if (!holds) refuse_condition(connection_->describe(key), condition);
  return there;
}

std::vector<HttpHeader> Bucket::condition_headers(const std::string& key,
                                                  const WriteCondition& condition) {
  if (condition.when == WriteCondition::If::kAlways) return {};
  const Conditions known = conditions(key.substr(0, key.rfind('/') + 1));
  if (condition.when == WriteCondition::If::kVersion) {
    if (known.version) {
      return {{"if-match", known.bare ? unquoted(condition.version) : condition.version}};
    }
  } else if (known.absent) {
    return {{"if-none-match", "*"}};
  }
  return {};
}

std::optional<bool> Bucket::keeps_crc64() {
  const std::scoped_lock lock(mutex_);
  return keeps_crc64_;
}

void Bucket::learn_crc64(bool keeps) {
  const std::scoped_lock lock(mutex_);
  keeps_crc64_ = keeps;
}

HttpResponse Bucket::send_put(const Put& put, const std::string& write_id,
                              const std::string& crc64) {
  Request request = {.method = "PUT", .key = put.key, .headers = write_headers(write_id)};
  for (HttpHeader& header : condition_headers(put.key, put.condition)) {
    request.headers.push_back(std::move(header));
  }
  if (!crc64.empty()) request.headers.push_back({kCrc64, crc64});
  if (!put.bytes.view.empty()) request.body = {put.bytes};
  return connection_->send(std::move(request));
}

void Bucket::put(const Put& put) {
  const std::string write_id = new_write_id();
  const auto keeps = keeps_crc64();
  std::string crc64 = keeps.value_or(true) ? crc64_text(crc64_nvme(put.bytes.view)) : "";
  std::optional<Head> before;
  if (condition_headers(put.key, put.condition).empty()) {
    before = check_condition(put.key, put.condition);
  } else if (put.condition.when == WriteCondition::If::kVersion) {
    before = Head{.etag = put.condition.version, .write_id = {}, .crc64 = {}};
  }
  HttpResponse response = send_put(put, write_id, crc64);
  if (!keeps && (response.status == 400 || response.status == 501)) {
    crc64.clear();  // perhaps it takes no such header
    response = send_put(put, write_id, crc64);
    if (is_success(response)) learn_crc64(false);
  }
  if (!keeps && is_success(response) && !crc64.empty()) {
    learn_crc64(response.header(kCrc64) == crc64);
    if (response.header(kCrc64).empty()) crc64.clear();
  }
  const bool is_refused =
      response.status == 412 ||
      (response.status == 404 && put.condition.when == WriteCondition::If::kVersion);
  if (is_refused) {
    // Perhaps an attempt before had done it, and its answer was lost.
    const auto there = head(put.key);
    if (!there || there->write_id != write_id) {
      refuse_condition(connection_->describe(put.key), put.condition);
    }
  } else {
    connection_->check(response, "writing", put.key);
  }
  verify_sent(*this, {.key = put.key,
                      .size = put.bytes.view.size(),
                      .etag = is_refused ? "" : std::string(response.header("etag")),
                      .crc64 = crc64,
                      .write_id = write_id,
                      .before = before});
}

void Bucket::copy(const std::string& from, const std::string& to) {
  const HttpResponse response =
      connection_->send({.method = "PUT",
                         .key = to,
                         .headers = {{"x-amz-copy-source",
                                      "/" + percent_encoded(connection_->config().options.bucket) +
                                          "/" + percent_encoded(from, /*keep_slashes=*/true)}},
                         .is_answered_late = true});
  connection_->check(response, "copying to", to);
  if (parse_copy_etag(response.body).empty()) connection_->refuse(response, "copying to", to);
}

// With an object of its own, so that nobody's is touched. A server that checks a condition refuses
// what does not hold, and does what holds: only both together show it.
std::optional<Conditions> Bucket::probe(const std::string& folder) {
  const std::string key = folder + ".cairn-probe-" + new_write_id();
  const auto ask = [&](std::vector<HttpHeader> condition) {
    Request request = {.method = "PUT", .key = key, .headers = write_headers(new_write_id())};
    for (HttpHeader& header : condition)
      request.headers.push_back(std::move(header));
    return connection_->send(std::move(request));
  };
  const auto holds = [&](const char* name, const std::string& value) {
    return is_success(ask({{name, value}}));
  };
  const HttpResponse made = ask({});
  connection_->check(made, "writing", key);
  const std::string etag(made.header("etag"));
  Conditions found;
  found.absent = ask({{"if-none-match", "*"}}).status == 412;
  if (ask({{"if-match", std::string(kNoEtag)}}).status == 412 && !etag.empty()) {
    found.version = holds("if-match", etag);
    found.bare = !found.version && holds("if-match", unquoted(etag));
    found.version = found.version || found.bare;
  }
  remove(key);
  return found;
}

Conditions Bucket::conditions(const std::string& folder) {
  if (!connection_->config().endpoint) return {.absent = true, .version = true};  // Amazon
  {
    const std::scoped_lock lock(mutex_);
    if (conditions_) return *conditions_;
  }
  const auto found = probe(folder);
  const std::scoped_lock lock(mutex_);
  if (!conditions_) conditions_ = found;
  return *conditions_;
}

// As probe(): completes uploads that their condition forbids, and then one that it allows.
bool Bucket::probe_upload(const std::string& key) {
  const std::vector<HttpHeader> headers = write_headers(new_write_id());
  const HttpResponse made = connection_->send({.method = "PUT", .key = key, .headers = headers});
  connection_->check(made, "writing", key);
  const WriteCondition its_own = WriteCondition::of_version(std::string(made.header("etag")));
  const HttpResponse begun = connection_->send(
      {.method = "POST", .key = key, .query = {{"uploads", ""}}, .headers = headers});
  const std::string id = is_success(begun) ? parse_upload_id(begun.body) : "";
  if (id.empty()) return false;
  const auto byte = std::make_shared<const std::string>("x");
  const HttpResponse part = connection_->send({.method = "PUT",
                                               .key = key,
                                               .query = {{"partNumber", "1"}, {"uploadId", id}},
                                               .body = {{as_bytes(*byte), byte}}});
  const auto body = std::make_shared<const std::string>(
      complete_body({{.number = 1, .etag = std::string(part.header("etag"))}}));
  const auto complete = [&](std::vector<HttpHeader> condition) {
    condition.push_back({"content-type", "application/xml"});
    return connection_->send({.method = "POST",
                              .key = key,
                              .query = {{"uploadId", id}},
                              .headers = std::move(condition),
                              .body = {{as_bytes(*body), body}},
                              .is_answered_late = true});
  };
  const auto refuses = [&](const std::string& name, const std::string_view value) {
    return complete({{name, std::string(value)}}).status == 412;
  };
  bool checks = is_success(part) && refuses("if-none-match", "*") && refuses("if-match", kNoEtag);
  if (checks) checks = parse_complete(complete(condition_headers(key, its_own)).body).is_done;
  if (!checks) connection_->send({.method = "DELETE", .key = key, .query = {{"uploadId", id}}});
  return checks;
}

bool Bucket::checks_upload_conditions(const std::string& folder) {
  if (!connection_->config().endpoint) return true;  // Amazon
  {
    const std::scoped_lock lock(mutex_);
    if (checks_upload_conditions_) return *checks_upload_conditions_;
  }
  const std::string key = folder + ".cairn-probe-" + new_write_id();
  const bool checks = probe_upload(key);
  remove(key);
  const std::scoped_lock lock(mutex_);
  if (!checks_upload_conditions_) checks_upload_conditions_ = checks;
  return *checks_upload_conditions_;
}

void refuse_condition(const std::string& where, const WriteCondition& condition) {
  if (condition.when == WriteCondition::If::kAbsent) {
    throw AlreadyExistsError(where + " exists already: choose another name, or allow overwriting");
  }
  throw AlreadyExistsError(where + " is not of version " + condition.version +
                           " any more: another program replaced it");
}

void verify_sent(Bucket& bucket, const Sent& sent) {
  const std::string where = bucket.connection()->describe(sent.key);
  const auto there = bucket.head(sent.key);
  const auto damaged = [&](const std::string& what) {
    throw StorageError(
        where + ": the server does not have what was written: " + what + "; write it again", 0,
        /*retryable=*/true);
  };
  if (!there) damaged("no object of that name");
  if (there->write_id != sent.write_id) {
    // A server that answered, and kept the old one or still shows it: also of the same size.
    const bool is_as_before =
        sent.before && unquoted(there->etag) == unquoted(sent.before->etag) &&
        (sent.before->write_id.empty() || there->write_id == sent.before->write_id);
    if (is_as_before && (!there->write_id.empty() || sent.etag.empty())) {
      damaged("what had the name before, ETag " + there->etag);
    }
    // Somebody else's, who came right behind: what was written was there, and whole.
    if (!there->write_id.empty()) return;
  }
  if (there->size != sent.size) {
    damaged(std::to_string(there->size) + " bytes instead of " + std::to_string(sent.size));
  }
  if (!sent.etag.empty() && unquoted(there->etag) != unquoted(sent.etag)) {
    damaged("ETag " + there->etag + " instead of " + sent.etag);
  }
  if (!sent.crc64.empty() && !there->crc64.empty() && there->crc64 != sent.crc64) {
    damaged("CRC-64/NVME " + there->crc64 + " instead of " + sent.crc64);
  }
}

std::string new_write_id() {
  std::random_device random;
  std::array<std::byte, 16> bytes;
  for (std::byte& byte : bytes)
    byte = static_cast<std::byte>(random());
  return hex(bytes);
}

std::string crc64_text(std::uint64_t crc) {
  std::array<std::byte, 8> bytes;
  for (std::size_t i = 0; i < 8; ++i)
    bytes[i] = static_cast<std::byte>(crc >> (56 - 8 * i));
  return base64(bytes);
}

}  // namespace cairn::s3
