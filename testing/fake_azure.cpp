#include "testing/fake_azure.h"

#include <algorithm>

#include "net/digest.h"
#include "net/net_time.h"
#include "net/url.h"

namespace cairn::testing {
namespace {

using AzureClock = std::chrono::system_clock;

constexpr int kListed = 1000;
constexpr std::chrono::minutes kSkewAllowed{15};
constexpr std::size_t kLongestId = 64;
// Since this version of the protocol, tokens have been signed as in this file.
constexpr const char* kOldestVersion = "2020-12-06";

HttpReply failure(int status, const std::string& code) {
  return {.status = status,
          .headers = {{"Content-Type", "application/xml"}, {"x-ms-error-code", code}},
          .body = "\xEF\xBB\xBF<?xml version=\"1.0\" encoding=\"utf-8\"?><Error>" +
                  tag("Code", code) + tag("Message", "of the fake: " + code) + "</Error>"};
}

std::string md5_of(const std::string& bytes) {
  const ByteView view = as_bytes(bytes);
  return base64(md5({&view, 1}));
}

std::string of_query(const ReceivedRequest& asked, const std::string& name) {
  const auto query = asked.query();
  const auto found = query.find(name);
  return found == query.end() ? "" : found->second;
}

std::string escaped_name(const std::string& name) {
  const bool is_text =
      std::none_of(name.begin(), name.end(), [](unsigned char c) { return c < 0x20; });
  std::string text;
  for (const char c : name) {
    const std::byte byte = static_cast<std::byte>(c);
    const bool is_plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '/' || c == '.';
    if (!is_text) {
      text += is_plain ? std::string(1, c) : "%" + hex({&byte, 1});
    } else {
      text += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
    }
  }
  return is_text ? tag("Name", text) : "<Name Encoded=\"true\">" + text + "</Name>";
}

std::string signed_with(const std::string& key, const std::string& text) {
  const std::string bytes = base64_decoded(key).value();
  return base64(hmac_sha256(as_bytes(bytes), text));
}

// "2026-11-22T16:00:00Z".
std::string sas_time(AzureClock::time_point time) {
  std::string text = basic_iso_time(time);
  for (const std::size_t at : {4, 7})
    text.insert(at, "-");
  for (const std::size_t at : {13, 16})
    text.insert(at, ":");
  return text;
}

// The permission that a token needs for a request: the letter of "sp".
std::string permission_for(const ReceivedRequest& asked) {
  if (asked.method == "DELETE") return "d";
  if (asked.method == "PUT") return "w";
  return of_query(asked, "comp") == "list" ? "l" : "r";
}

std::string text_of_sas(const std::string& account, const ReceivedRequest& asked) {
  std::string text = account + "\n";
  for (const char* name : {"sp", "ss", "srt", "st", "se", "sip", "spr", "sv", "ses"}) {
    text += of_query(asked, name) + "\n";
  }
  return text;
}

std::map<std::string, std::string> kept_with_blob(const ReceivedRequest& asked) {
  std::map<std::string, std::string> kept;
  for (const auto& [name, value] : asked.headers) {
    if (name.starts_with("x-ms-meta-")) kept[name] = value;
  }
  return kept;
}

}  // namespace

FakeAzure::FakeAzure(FakeAzureOptions options)
    : FakeServer(options.seed, {failure(500, "InternalError"), failure(503, "ServerBusy"),
                                failure(500, "OperationTimedOut")}),
      options_(std::move(options)) {
  fault_rate_ = options_.fault_rate;
  start([this](const ReceivedRequest& asked) { return answer(asked); });
}

std::string FakeAzure::sas(const std::string& permissions, std::chrono::seconds lasts) const {
  const std::string until = sas_time(AzureClock::now() + lasts);
  ReceivedRequest asked;
  asked.target = "/?sp=" + permissions + "&ss=b&srt=co&se=" + until + "&sv=2021-12-02";
  std::string signature = signed_with(options_.key, text_of_sas(options_.account, asked));
  for (std::size_t at; (at = signature.find_first_of("+/=")) != std::string::npos;) {
    const std::byte byte = static_cast<std::byte>(signature[at]);
    signature.replace(at, 1, "%" + hex({&byte, 1}));
  }
  return asked.raw_query() + "&sig=" + signature;
}

std::map<std::string, std::string> FakeAzure::objects() {
  const std::scoped_lock lock(mutex_);
  std::map<std::string, std::string> all;
  for (const auto& [key, blob] : blobs_)
    all[key] = blob.bytes;
  return all;
}

void FakeAzure::put_object(const std::string& key, const std::string& bytes) {
  const std::scoped_lock lock(mutex_);
  blobs_[key] = {.bytes = bytes, .etag = next_etag()};
}

std::size_t FakeAzure::uncommitted_blocks() {
  const std::scoped_lock lock(mutex_);
  std::size_t count = 0;
  for (const auto& [key, blocks] : uncommitted_)
    count += blocks.size();
  return count;
}

std::map<std::string, std::string> FakeAzure::headers_of(const std::string& key) {
  const std::scoped_lock lock(mutex_);
  return blobs_[key].headers;
}

void FakeAzure::change(const FakeAzureOptions& options) {
  const std::scoped_lock lock(mutex_);
  options_ = options;
  fault_rate_ = options.fault_rate;
}

AzureClock::time_point FakeAzure::now() const {
  return AzureClock::now() + std::chrono::seconds(options_.skew_seconds);
}

std::string FakeAzure::next_etag() {
  const std::string number = std::to_string(++writes_);
  return "\"0x8DC" + std::string(12 - number.size(), '0') + number + "\"";
}

// --- Requests ------------------------------------------------------------------------------------

HttpReply FakeAzure::answer(const Asked& asked) {
  HttpReply reply = check_request(asked);
  if (reply.status == 0) reply = dispatch(asked);
  reply.headers.emplace_back("Date", http_date(now()));
  reply.headers.emplace_back("x-ms-request-id", "1");
  reply.headers.emplace_back("x-ms-version", asked.header("x-ms-version"));
  if (asked.method == "HEAD" && reply.status >= 300) reply.body.clear();
  return reply;
}

HttpReply FakeAzure::check_request(const Asked& asked) const {
  const std::string version = asked.header("x-ms-version");  // Versions of the protocol are dates.
  if (version.size() != 10 || version < kOldestVersion) return failure(400, "InvalidHeaderValue");
  const HttpReply refused = of_query(asked, "sig").empty() ? check_key(asked) : check_sas(asked);
  if (refused.status != 0) return refused;
  const std::string md5 = asked.header("content-md5");
  if (!md5.empty() && md5 != md5_of(asked.body)) return failure(400, "Md5Mismatch");
  return kNoAnswerYet;
}

HttpReply FakeAzure::check_key(const Asked& asked) const {
  const auto sent = parse_http_date(asked.header("x-ms-date"));
  if (!sent || now() - *sent > kSkewAllowed || *sent - now() > kSkewAllowed) {
    return failure(403, "AuthenticationFailed");
  }
  std::string text = asked.method;
  for (const char* name :
       {"content-encoding", "content-language", "content-length", "content-md5", "content-type",
        "date", "if-modified-since", "if-match", "if-none-match", "if-unmodified-since", "range"}) {
    const std::string value = asked.header(name);
    text += "\n" + (std::string(name) == "content-length" && value == "0" ? "" : value);
  }
  text += "\n";
  for (const auto& [name, value] : asked.headers) {
    if (name.starts_with("x-ms-")) text += name + ":" + value + "\n";
  }
  text += "/" + options_.account + asked.path();
  for (const auto& [name, value] : asked.query())
    text += "\n" + name + ":" + value;
  const std::string expected =
      "SharedKey " + options_.account + ":" + signed_with(options_.key, text);
  return asked.header("authorization") == expected ? kNoAnswerYet
                                                   : failure(403, "AuthenticationFailed");
}

HttpReply FakeAzure::check_sas(const Asked& asked) const {
  const auto end = parse_iso_time(of_query(asked, "se"));
  if (!asked.header("authorization").empty() || !end || *end < now() ||
      of_query(asked, "sig") != signed_with(options_.key, text_of_sas(options_.account, asked)) ||
      of_query(asked, "ss").find('b') == std::string::npos) {
    return failure(403, "AuthenticationFailed");
  }
  const bool is_allowed =
      of_query(asked, "sp").find(permission_for(asked)) != std::string::npos &&
      of_query(asked, "srt").find(permission_for(asked) == "l" ? 'c' : 'o') != std::string::npos;
  return is_allowed ? kNoAnswerYet : failure(403, "AuthorizationPermissionMismatch");
}

HttpReply FakeAzure::dispatch(const Asked& asked) {
  const std::string path = percent_decoded(asked.path());
  const std::string container = "/" + options_.account + "/container";
  if (!path.starts_with(container)) return failure(404, "ContainerNotFound");
  if (path == container) {
    const bool is_list = asked.method == "GET" && of_query(asked, "comp") == "list" &&
                         of_query(asked, "restype") == "container";
    return is_list ? list(asked) : failure(400, "InvalidUri");
  }
  if (path[container.size()] != '/') return failure(404, "ContainerNotFound");
  const std::string key = path.substr(container.size() + 1);
  if (asked.method == "GET" || asked.method == "HEAD") return get(asked, key);
  if (asked.method == "DELETE") return remove(key);
  if (asked.method != "PUT") return failure(405, "UnsupportedHttpVerb");
  const std::string comp = of_query(asked, "comp");
  if (comp == "block") return put_block(asked, key);
  if (comp == "blocklist") return put_block_list(asked, key);
  if (!comp.empty()) return failure(400, "InvalidQueryParameterValue");
  return asked.header("x-ms-copy-source").empty() ? put_blob(asked, key) : copy(asked, key);
}

HttpReply FakeAzure::check_condition(const Asked& asked, const std::string& key) const {
  const std::string match = asked.header("if-match");
  const std::string none = asked.header("if-none-match");
  const auto found = blobs_.find(key);
  if (!none.empty() && none != "*") return failure(400, "InvalidHeaderValue");
  if (!none.empty() && found != blobs_.end()) return failure(409, "BlobAlreadyExists");
  const bool holds = match.empty() || (found != blobs_.end() && found->second.etag == match);
  return holds ? kNoAnswerYet : failure(412, "ConditionNotMet");
}

HttpReply FakeAzure::get(const Asked& asked, const std::string& key) {
  const auto found = blobs_.find(key);
  if (found == blobs_.end()) return failure(404, "BlobNotFound");
  const HttpReply refused = check_condition(asked, key);
  if (refused.status != 0) return refused;
  Blob& blob = found->second;
  std::string range = asked.header("x-ms-range");  // Wins if both headers are sent.
  if (range.empty()) range = asked.header("range");
  // Azure has no suffix ranges.
  if (range.starts_with("bytes=-")) return failure(400, "InvalidHeaderValue");
  HttpReply reply = {.headers = {{"ETag", blob.etag},
                                 {"Last-Modified", http_date(now())},
                                 {"x-ms-blob-type", "BlockBlob"}},
                     .body = blob.bytes};
  for (const auto& [name, value] : blob.headers)
    reply.headers.emplace_back(name, value);
  if (blob.headers.contains("x-ms-copy-status")) {
    if (blob.pending > 0) --blob.pending;
    blob.headers["x-ms-copy-status"] = blob.pending == 0 ? "success" : "pending";
  }
  if (!cut_to_range(range, reply)) return failure(416, "InvalidRange");
  if (asked.method == "HEAD") {
    reply.headers.emplace_back("Content-Length", std::to_string(blob.bytes.size()));
  }
  return reply;
}

// Stores the blob under its name, and forgets the blocks that were uploaded for it but not listed.
HttpReply FakeAzure::keep(const std::string& key, Blob blob) {
  HttpReply reply = {.status = 201,
                     .headers = {{"ETag", blob.etag}, {"Last-Modified", http_date(now())}}};
  uncommitted_.erase(key);
  if (!options_.keeps_old || !blobs_.contains(key)) blobs_[key] = std::move(blob);
  return reply;
}

HttpReply FakeAzure::put_blob(const Asked& asked, const std::string& key) {
  if (asked.header("x-ms-blob-type") != "BlockBlob") return failure(400, "InvalidHeaderValue");
  const HttpReply refused = check_condition(asked, key);
  if (refused.status != 0) return refused;
  Blob blob = {.bytes = asked.body, .etag = next_etag(), .headers = kept_with_blob(asked)};
  const std::string md5 = md5_of(asked.body);
  blob.headers["Content-MD5"] = md5;
  HttpReply reply = keep(key, std::move(blob));
  reply.headers.emplace_back("Content-MD5", md5);
  return reply;
}

HttpReply FakeAzure::put_block(const Asked& asked, const std::string& key) {
  const std::string id = of_query(asked, "blockid");
  const auto decoded = base64_decoded(id);
  if (!decoded || decoded->empty() || decoded->size() > kLongestId) {
    return failure(400, "InvalidQueryParameterValue");
  }
  Blocks& blocks = uncommitted_[key];
  const bool is_as_long = blocks.empty() || blocks.begin()->first.size() == id.size();
  if (!is_as_long) return failure(400, "InvalidBlobOrBlock");
  if (asked.body.empty()) return failure(400, "InvalidHeaderValue");
  blocks[id] = asked.body;
  return {.status = 201, .headers = {{"Content-MD5", md5_of(asked.body)}}};
}

HttpReply FakeAzure::put_block_list(const Asked& asked, const std::string& key) {
  const HttpReply refused = check_condition(asked, key);
  if (refused.status != 0) return refused;
  Blocks known = uncommitted_[key];
  known.insert(blobs_[key].blocks.begin(), blobs_[key].blocks.end());
  if (blobs_[key].etag.empty()) blobs_.erase(key);
  Blob blob = {.bytes = {}, .etag = next_etag(), .headers = kept_with_blob(asked)};
  for (std::size_t at = 0; (at = asked.body.find("<Latest>", at)) != std::string::npos; ++at) {
    const std::string id = between(asked.body, "<Latest>", "<", at);
    const auto block = known.find(id);
    if (block == known.end()) return failure(400, "InvalidBlockList");
    blob.bytes += block->second;
    blob.blocks[id] = block->second;
  }
  if (blob.blocks.empty()) return failure(400, "InvalidXmlDocument");
  return keep(key, std::move(blob));
}

HttpReply FakeAzure::copy(const Asked& asked, const std::string& key) {
  const std::string source = asked.header("x-ms-copy-source");
  const std::string own = endpoint() + "/container/";
  const auto from = blobs_.find(percent_decoded(source.substr(0, source.find('?')))
                                    .substr(std::min(own.size(), source.size())));
  if (!source.starts_with(own) || from == blobs_.end()) {
    return failure(404, "CannotVerifyCopySource");
  }
  // A key also gives access to the source. A token gives access only if it is in the source's URL.
  const bool lets_in = asked.header("authorization").starts_with("SharedKey ") ||
                       source.find("sig=") != std::string::npos;
  if (!lets_in) return failure(403, "CannotVerifyCopySource");
  const std::string wanted = asked.header("x-ms-source-if-match");
  const bool is_wanted = wanted.empty() || wanted == from->second.etag;
  if (!is_wanted) return failure(412, "SourceConditionNotMet");
  const HttpReply refused = check_condition(asked, key);
  if (refused.status != 0) return refused;
  Blob blob = from->second;
  blob.etag = next_etag();
  blob.pending = options_.pending_copies;
  const std::string status = blob.pending > 0 ? "pending" : "success";
  blob.headers["x-ms-copy-status"] = status;
  HttpReply reply = keep(key, std::move(blob));
  reply.status = 202;
  reply.headers.emplace_back("x-ms-copy-status", status);
  reply.headers.emplace_back("x-ms-copy-id", "copy-" + std::to_string(writes_));
  return reply;
}

HttpReply FakeAzure::remove(const std::string& key) {
  return blobs_.erase(key) > 0 ? HttpReply{.status = 202} : failure(404, "BlobNotFound");
}

HttpReply FakeAzure::list(const Asked& asked) const {
  const std::string prefix = of_query(asked, "prefix");
  const std::string delimiter = of_query(asked, "delimiter");
  const std::string given = of_query(asked, "maxresults");
  const int most = given.empty() ? kListed : std::min(kListed, std::stoi(given));
  const std::string marker = of_query(asked, "marker");
  if (!marker.empty() && !marker.starts_with("after:")) return failure(400, "OutOfRangeInput");
  std::string after = marker.empty() ? "" : base64_decoded(marker.substr(6)).value_or("");
  std::string body;
  std::string last_prefix;
  int count = options_.empty_pages && marker.empty() ? most : 0;
  std::string next = count == most ? "after:" : "";
  for (auto at = blobs_.lower_bound(prefix); count < most || !body.empty(); ++at) {
    if (at == blobs_.end() || !at->first.starts_with(prefix)) break;
    const std::size_t end =
        delimiter.empty() ? std::string::npos : at->first.find(delimiter, prefix.size());
    const std::string name =
        at->first.substr(0, end == std::string::npos ? end : end + delimiter.size());
    if ((!after.empty() && name <= after) || name == last_prefix) continue;
    if (count == most) {
      next = "after:" + base64(as_bytes(after));  // Names may hold characters that XML cannot.
      break;
    }
    ++count;
    if (end == std::string::npos) {
      const std::string etag = between(at->second.etag, "\"", "\"");
      body += tag("Blob",
                  escaped_name(name) +
                      tag("Properties",
                          tag("Last-Modified", http_date(AzureClock::now())) + tag("Etag", etag) +
                              tag("Content-Length", std::to_string(at->second.bytes.size())) +
                              tag("BlobType", "BlockBlob")));
    } else {
      last_prefix = name;
      body += tag("BlobPrefix", escaped_name(name));
    }
    if (count == most) after = name;
  }
  HttpReply reply = xml(tag("EnumerationResults", tag("Blobs", body) + tag("NextMarker", next)));
  reply.body.insert(0, "\xEF\xBB\xBF");  // Azure begins its lists with this byte order mark.
  return reply;
}

}  // namespace cairn::testing
