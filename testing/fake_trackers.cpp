#include "testing/fake_trackers.h"

#include <algorithm>
#include <chrono>

#include "net/digest.h"
#include "net/net_time.h"
#include "net/url.h"

namespace cairn::testing {
namespace {

using FakeJson = Json;

constexpr std::uint64_t kMaxPutBytes = std::uint64_t{5} << 30;

HttpReply said(const FakeJson& body, int status = 200) {
  return {.status = status, .headers = {{"Content-Type", "application/json"}}, .body = body.dump()};
}

HttpReply wrong(int status, const std::string& code) {
  return said({{"error_code", code}, {"message", "of the fake: " + code}}, status);
}

HttpReply too_many() {
  HttpReply busy = wrong(429, "REQUEST_LIMIT_EXCEEDED");
  busy.headers.emplace_back("Retry-After", "1");
  return busy;
}

// If `path` begins with `beginning`, sets `rest` to what follows it. Otherwise returns false.
bool takes(const std::string& path, const std::string& beginning, std::string& rest) {
  if (!path.starts_with(beginning)) return false;
  rest = path.substr(beginning.size());
  return true;
}

std::string date_of(std::int64_t ms) { return http_date(NetTime(std::chrono::milliseconds(ms))); }

std::string etag_of(const std::string& bytes) {
  const ByteView view = as_bytes(bytes);
  return "\"" + hex(md5({&view, 1})) + "\"";
}

}  // namespace

FakeTrackers::FakeTrackers(FakeTrackersOptions options)
    : FakeServer(options.seed,
                 {wrong(500, "INTERNAL_ERROR"), too_many(), wrong(503, "TEMPORARILY_UNAVAILABLE")}),
      options_(std::move(options)) {
  fault_rate_ = options_.fault_rate;
  start([this](const ReceivedRequest& asked) { return answer(asked); });
}

// --- What tests query and plan -------------------------------------------------------------------

std::vector<std::string> FakeTrackers::violations() {
  const std::scoped_lock lock(mutex_);
  return violations_;
}

std::map<std::string, std::string> FakeTrackers::files() {
  const std::scoped_lock lock(mutex_);
  std::map<std::string, std::string> all;
  for (const auto& [path, file] : files_)
    all[path] = file.bytes;
  return all;
}

void FakeTrackers::put_file(const std::string& path, const std::string& bytes) {
  const std::scoped_lock lock(mutex_);
  keep(path, bytes);
  for (std::size_t at = 0; (at = path.find('/', at + 1)) != std::string::npos;)
    folders_.insert(path.substr(0, at));
}

std::string FakeTrackers::add_run(const std::string& experiment, const std::string& artifact_uri) {
  const std::scoped_lock lock(mutex_);
  const std::string id = "run" + std::to_string(++next_);
  const std::string root =
      options_.serves_artifacts ? "mlflow-artifacts:/" : "dbfs:/databricks/mlflow-tracking/";
  runs_[id] = {{"run_id", id},
               {"experiment_id", experiment},
               {"artifact_uri",
                artifact_uri.empty() ? root + experiment + "/" + id + "/artifacts" : artifact_uri}};
  return id;
}

std::size_t FakeTrackers::runs() {
  const std::scoped_lock lock(mutex_);
  return runs_.size();
}

void FakeTrackers::end_urls() {
  const std::scoped_lock lock(mutex_);
  ++url_era_;
}

void FakeTrackers::end_tokens() {
  const std::scoped_lock lock(mutex_);
  ++token_era_;
}

// --- Requests ------------------------------------------------------------------------------------

HttpReply FakeTrackers::violation(const std::string& what) {
  violations_.push_back(now_ + ": " + what);
  return wrong(400, "INVALID_PARAMETER_VALUE");
}

HttpReply FakeTrackers::check_query(const Asked& asked, const std::set<std::string>& allowed) {
  const auto query = asked.query();
  for (const auto& [name, value] : query) {
    if (!allowed.contains(name) && !allowed.contains(name + "?")) {
      return violation("unknown parameter " + name);
    }
  }
  for (const std::string& name : allowed) {
    if (!name.ends_with('?') && !query.contains(name)) return violation("no parameter " + name);
  }
  return kNoAnswerYet;
}

bool FakeTrackers::is_authorized(const Asked& asked) {
  const std::string given = asked.header("authorization");
  if (!options_.user.empty()) {
    return given == "Basic " + base64(as_bytes(options_.user + ":" + options_.password));
  }
  if (!options_.client_id.empty()) {
    return given == "Bearer issued-" + std::to_string(token_era_);
  }
  return given == "Bearer " + options_.token;
}

HttpReply FakeTrackers::answer(const Asked& asked) {
  now_ = asked.method + " " + asked.target;
  const std::string path = percent_decoded(asked.path());
  std::string rest;
  if (path == "/oidc/v1/token") return token(asked);
  if (takes(path, "/storage/", rest)) return storage(asked, rest);
  if (path == "/graphql") return graphql(asked);
  if (is_logged_in(asked) && takes(path, "/files/", rest)) return file_stream(asked, rest);
  if (!is_authorized(asked)) return wrong(401, "UNAUTHENTICATED");
  if (takes(path, "/api/2.0/fs/files/", rest)) return volume_file(asked, rest);
  if (takes(path, "/api/2.0/fs/directories/", rest)) return volume_folder(asked, rest);
  if (takes(path, "/api/2.0/mlflow/", rest)) return mlflow(asked, rest);
  if (takes(path, "/api/2.0/mlflow-artifacts/artifacts", rest)) return proxy(asked, rest);
  violation("no such endpoint");
  return wrong(404, "ENDPOINT_NOT_FOUND");
}

HttpReply FakeTrackers::token(const Asked& asked) {
  const std::string wanted =
      "Basic " + base64(as_bytes(options_.client_id + ":" + options_.client_secret));
  if (asked.method != "POST") return violation("a token is asked for with POST");
  if (asked.header("content-type") != "application/x-www-form-urlencoded") {
    return violation("a form has its content-type");
  }
  Asked form;
  form.target = "/?" + asked.body;
  auto fields = form.query();
  if (fields.size() != 2 || fields["grant_type"] != "client_credentials" ||
      fields["scope"] != "all-apis") {
    return violation("the form of a token");
  }
  if (asked.header("authorization") != wanted) return said({{"error", "invalid_client"}}, 401);
  return said({{"access_token", "issued-" + std::to_string(token_era_)},
               {"token_type", "Bearer"},
               {"scope", "all-apis"},
               {"expires_in", 3600}});
}

// Serves a file. Checks ranges, If-Unmodified-Since and If-Match as far as each server supports
// them.
HttpReply FakeTrackers::serve(const Asked& asked, const File& file, bool suffix_ranges) {
  HttpReply reply = {.headers = {{"Content-Type", "application/octet-stream"},
                                 {"Last-Modified", date_of(file.modified_ms)}},
                     .body = file.bytes};
  if (suffix_ranges) reply.headers.emplace_back("ETag", etag_of(file.bytes));
  const std::string since = asked.header("if-unmodified-since");
  const auto limit = parse_http_date(since);
  if (!since.empty() && !limit) return violation("a date that is none");
  const std::int64_t second = file.modified_ms / 1000 * 1000;
  if (limit && NetTime(std::chrono::milliseconds(second)) > *limit) return wrong(412, "ABORTED");
  const std::string match = asked.header("if-match");
  if (!match.empty() && match != etag_of(file.bytes)) return {.status = 412};
  const std::string range = asked.header("range");
  if (range.empty()) return reply;
  const bool is_range = range.starts_with("bytes=") && range.find('-') != std::string::npos;
  if (!is_range) return violation("the range");
  if (range.starts_with("bytes=-") && !suffix_ranges) return violation("a range of last bytes");
  if (!cut_to_range(range, reply)) return {.status = 416};
  return reply;
}

void FakeTrackers::keep(const std::string& path, const std::string& bytes) {
  using std::chrono::system_clock;
  const auto now =
      std::chrono::duration_cast<std::chrono::milliseconds>(system_clock::now().time_since_epoch());
  // A server's clock advances from write to write.
  last_ms_ = std::max<std::int64_t>(last_ms_ + 1, now.count());
  files_[path] = {.bytes = bytes, .modified_ms = last_ms_};
}

bool FakeTrackers::is_folder(const std::string& path) const {
  const auto next = files_.lower_bound(path + "/");
  return folders_.contains(path) || (next != files_.end() && next->first.starts_with(path + "/"));
}

// The direct entries of a folder, in the form of the Files API or of MLflow.
Json FakeTrackers::entries(const std::string& root, const std::string& folder, const char* kind) {
  const std::string whole = root.empty() || folder.empty() ? root + folder : root + "/" + folder;
  const std::string beginning = whole + "/";
  const std::string before = folder.empty() ? "" : folder + "/";
  std::map<std::string, Json> found;
  const bool is_volume = std::string(kind) == "volume";
  const auto add = [&](const std::string& path, const File* file) {
    if (!path.starts_with(beginning) || path.size() == beginning.size()) return;
    const std::string name =
        path.substr(beginning.size(), path.find('/', beginning.size()) - beginning.size());
    const bool is_dir = file == nullptr || path.size() > beginning.size() + name.size();
    Json entry;
    if (is_volume) {
      entry = {{"path", "/" + beginning + name}, {"name", name}, {"is_directory", is_dir}};
      if (!is_dir) entry["file_size"] = file->bytes.size();
      if (!is_dir) entry["last_modified"] = file->modified_ms;
    } else {
      entry = {{"path", std::string(kind) == "run" ? before + name : name}, {"is_dir", is_dir}};
      // 64-bit numbers are strings in protobuf's JSON. MLflow's own servers write numbers.
      if (!is_dir) entry["file_size"] = std::to_string(file->bytes.size());
    }
    found[name] = entry;
  };
  for (const auto& [path, file] : files_)
    add(path, &file);
  for (const std::string& path : folders_) {
    if (is_volume) add(path, nullptr);
  }
  Json list = Json::array();
  for (const auto& [name, entry] : found)
    list.push_back(entry);
  return list;
}

HttpReply FakeTrackers::volume_file(const Asked& asked, const std::string& path) {
  if (!path.starts_with("Volumes/")) return violation("a path outside of the volumes");
  const auto file = files_.find(path);
  if (asked.method == "PUT") {
    const HttpReply checked = check_query(asked, {"overwrite?"});
    if (checked.status != 0) return checked;
    auto query = asked.query();
    if (query["overwrite"] != "true" && query["overwrite"] != "false" &&
        !query["overwrite"].empty()) {
      return violation("overwrite is true or false");
    }
    if (asked.header("content-type") != "application/octet-stream") {
      return violation("bytes have their content-type");
    }
    if (asked.body_bytes > kMaxPutBytes) return violation("a file over 5 GiB");
    if (!folders_.contains(path.substr(0, path.rfind('/'))) &&
        std::count(path.begin(), path.end(), '/') > 4) {
      return wrong(404, "NOT_FOUND");  // The documents do not promise that PUT makes folders.
    }
    if (is_folder(path) || (file != files_.end() && query["overwrite"] == "false")) {
      return wrong(409, "ALREADY_EXISTS");
    }
    keep(path, asked.body);
    return {.status = 204};
  }
  const HttpReply checked = check_query(asked, {});
  if (checked.status != 0) return checked;
  if (file == files_.end()) return wrong(404, "NOT_FOUND");
  if (asked.method == "DELETE") {
    files_.erase(file);
    return {.status = 204};
  }
  if (asked.method != "GET" && asked.method != "HEAD") return violation("the method");
  return serve(asked, file->second, /*suffix_ranges=*/false);
}

HttpReply FakeTrackers::volume_folder(const Asked& asked, const std::string& given) {
  std::string path = given;
  while (path.ends_with('/'))
    path.pop_back();
  const bool is_volume = std::count(path.begin(), path.end(), '/') == 3;
  const bool is_there = is_volume || is_folder(path);
  const HttpReply checked =
      check_query(asked, asked.method == "GET" ? std::set<std::string>{"page_size?", "page_token?"}
                                               : std::set<std::string>{});
  if (checked.status != 0) return checked;
  if (asked.method == "PUT") {
    if (!asked.body.empty()) return violation("a folder has no body");
    if (files_.contains(path)) return wrong(409, "ALREADY_EXISTS");
    for (std::size_t at = path.find('/'); at != std::string::npos; at = path.find('/', at + 1))
      folders_.insert(path.substr(0, at));
    folders_.insert(path);
    return {.status = 204};
  }
  if (!is_there) return wrong(404, "NOT_FOUND");
  if (asked.method == "HEAD") return {};
  if (asked.method == "DELETE") {
    if (!entries("", path, "volume").empty()) return wrong(400, "DIRECTORY_NOT_EMPTY");
    folders_.erase(path);
    return {.status = 204};
  }
  if (asked.method != "GET") return violation("the method");
  const Json all = entries("", path, "volume");
  const std::string page = asked.query()["page_token"];
  const std::size_t begin = page.empty() ? 0 : std::stoull(page.substr(5));
  Json answer = Json::object();
  for (std::size_t i = begin; i < std::min(all.size(), begin + options_.page); ++i)
    answer["contents"].push_back(all[i]);
  if (begin + options_.page < all.size()) {
    answer["next_page_token"] = "page-" + std::to_string(begin + options_.page);
  }
  return said(answer);
}

// --- MLflow --------------------------------------------------------------------------------------

HttpReply FakeTrackers::mlflow(const Asked& asked, const std::string& endpoint) {
  static const std::map<std::string, std::string> kMethods = {
      {"runs/get", "GET"},
      {"runs/create", "POST"},
      {"runs/log-batch", "POST"},
      {"runs/update", "POST"},
      {"experiments/get-by-name", "GET"},
      {"experiments/create", "POST"},
      {"artifacts/list", "GET"},
      {"artifacts/credentials-for-read", "POST"},
      {"artifacts/credentials-for-write", "POST"}};
  const auto method = kMethods.find(endpoint);
  if (method == kMethods.end() || method->second != asked.method) {
    return violation("no such endpoint");
  }
  if (endpoint == "artifacts/list") return list_artifacts(asked);
  if (endpoint == "runs/get") {
    const HttpReply checked = check_query(asked, {"run_id"});
    if (checked.status != 0) return checked;
    const auto run = runs_.find(asked.query()["run_id"]);
    if (run == runs_.end()) return wrong(404, "RESOURCE_DOES_NOT_EXIST");
    return said({{"run", {{"info", run->second}, {"data", Json::object()}}}});
  }
  if (endpoint == "experiments/get-by-name") {
    const HttpReply checked = check_query(asked, {"experiment_name"});
    if (checked.status != 0) return checked;
    const std::string name = asked.query()["experiment_name"];
    if (!experiments_.contains(name)) return wrong(404, "RESOURCE_DOES_NOT_EXIST");
    return said({{"experiment", {{"experiment_id", experiments_[name]}, {"name", name}}}});
  }
  if (asked.header("content-type") != "application/json") return violation("JSON says what it is");
  const HttpReply checked = check_query(asked, {});
  if (checked.status != 0) return checked;
  const Json body = Json::parse(asked.body, nullptr, /*allow_exceptions=*/false);
  if (!body.is_object()) return violation("the body is no JSON object");
  if (endpoint == "runs/create") return make_run(body);
  if (endpoint == "runs/log-batch") return log_batch(body);
  if (endpoint == "runs/update") return update_run(body);
  if (endpoint != "experiments/create") {
    return sign_url(body, endpoint == "artifacts/credentials-for-write");
  }
  if (body.size() != 1 || !body.contains("name") || !body["name"].is_string()) {
    return violation("an experiment has a name");
  }
  const std::string name = body["name"];
  if (experiments_.contains(name)) return wrong(400, "RESOURCE_ALREADY_EXISTS");
  experiments_[name] = "exp" + std::to_string(++next_);
  return said({{"experiment_id", experiments_[name]}});
}

HttpReply FakeTrackers::make_run(const Json& body) {
  for (const auto& [name, value] : body.items()) {
    const bool is_right = (name == "experiment_id" && value.is_string()) ||
                          (name == "start_time" && value.is_number_integer()) ||
                          (name == "run_name" && value.is_string()) ||
                          (name == "tags" && value.is_array());
    if (!is_right) return violation("the field " + name);
  }
  if (!body.contains("experiment_id")) return violation("a run has an experiment");
  const std::string experiment = body["experiment_id"];
  const std::string id = "run" + std::to_string(++next_);
  const std::string root =
      options_.serves_artifacts ? "mlflow-artifacts:/" : "dbfs:/databricks/mlflow-tracking/";
  runs_[id] = {{"run_id", id},
               {"experiment_id", experiment},
               {"artifact_uri", root + experiment + "/" + id + "/artifacts"}};
  logged_[id] = {{"name", body.value("run_name", "")},
                 {"tags", body.value("tags", Json::array())},
                 {"status", "RUNNING"},
                 {"metrics", Json::array()},
                 {"params", Json::object()}};
  return said({{"run", {{"info", runs_[id]}}}});
}

HttpReply FakeTrackers::list_artifacts(const Asked& asked) {
  const HttpReply checked = check_query(asked, {"run_id", "path?", "page_token?"});
  if (checked.status != 0) return checked;
  auto query = asked.query();
  const auto run = runs_.find(query["run_id"]);
  if (run == runs_.end()) return wrong(404, "RESOURCE_DOES_NOT_EXIST");
  const std::string root =
      std::string(run->second["experiment_id"]) + "/" + run->first + "/artifacts";
  Json all = entries(root, query["path"], "run");
  const auto itself = files_.find(root + "/" + query["path"]);
  if (itself != files_.end()) {  // As Databricks does.
    all = Json::array(
        {{{"path", query["path"]}, {"is_dir", false}, {"file_size", itself->second.bytes.size()}}});
  }
  const std::string page = query["page_token"];
  const std::size_t begin = page.empty() ? 0 : std::stoull(page.substr(5));
  Json answer = {{"root_uri", run->second["artifact_uri"]}};
  for (std::size_t i = begin; i < std::min(all.size(), begin + options_.page); ++i)
    answer["files"].push_back(all[i]);
  if (begin + options_.page < all.size()) {
    answer["next_page_token"] = "page-" + std::to_string(begin + options_.page);
  }
  return said(answer);
}

HttpReply FakeTrackers::sign_url(const Json& body, bool is_write) {
  if (options_.serves_artifacts) return violation("only Databricks signs URLs");
  const bool is_right = body.size() == 2 && body.contains("run_id") && body["run_id"].is_string() &&
                        body.contains("path") && body["path"].is_array() &&
                        body["path"].size() == 1 && body["path"][0].is_string();
  if (!is_right) return violation("the fields of a request for URLs");
  const auto run = runs_.find(body["run_id"]);
  if (run == runs_.end()) return wrong(404, "RESOURCE_DOES_NOT_EXIST");
  const std::string path = std::string(run->second["experiment_id"]) + "/" + run->first +
                           "/artifacts/" + std::string(body["path"][0]);
  std::string encoded;
  for (const char c : path)
    encoded += c == ' ' ? std::string("%20") : std::string(1, c);
  const Json info = {
      {"run_id", run->first},
      {"path", body["path"][0]},
      {"signed_uri", url() + "/storage/" + encoded + "?op=" + (is_write ? "w" : "r") +
                         "&sig=canary-signature-" + std::to_string(url_era_)},
      {"headers", Json::array({{{"name", "x-of-the-url"}, {"value", "yes"}}})},
      {"type", options_.signed_type}};
  return said({{"credential_infos", Json::array({info})}});
}

HttpReply FakeTrackers::proxy(const Asked& asked, const std::string& rest) {
  if (!options_.serves_artifacts) return wrong(503, "INVALID_STATE");
  if (rest.empty()) {
    const HttpReply checked = check_query(asked, {"path?"});
    if (checked.status != 0) return checked;
    if (asked.method != "GET") return violation("the method");
    const Json files = entries("", asked.query()["path"], "proxy");
    return said(files.empty() ? Json::object() : Json{{"files", files}});
  }
  const std::string path = rest.substr(1);
  const HttpReply checked = check_query(asked, {});
  if (checked.status != 0) return checked;
  if (!asked.header("range").empty()) return violation("no document promises ranges");
  if (asked.method == "PUT") {
    keep(path, asked.body);
    return said(Json::object());
  }
  const auto file = files_.find(path);
  if (asked.method == "DELETE") {
    // Like MLflow with S3 or Google's storage below it: removes everything with this prefix.
    std::erase_if(files_, [&](const auto& each) { return each.first.starts_with(path); });
    return said(Json::object());
  }
  if (asked.method != "GET") return violation("the method");
  if (file == files_.end()) return wrong(500, "INTERNAL_ERROR");
  return {.headers = {{"Content-Type", "application/octet-stream"},
                      {"Content-Disposition", "attachment"}},
          .body = file->second.bytes};
}

// --- Storage below Databricks --------------------------------------------------------------------

HttpReply FakeTrackers::storage(const Asked& asked, const std::string& path) {
  auto query = asked.query();
  if (!asked.header("authorization").empty()) return violation("a token was sent to the storage");
  const bool is_of_wandb = path.starts_with("wandb");
  if (!is_of_wandb && asked.header("x-of-the-url") != "yes") {
    return violation("the URL's headers");
  }
  if (query["sig"] != "canary-signature-" + std::to_string(url_era_)) {
    if (options_.signed_type != "GCP_SIGNED_URL") return {.status = 403};
    return {.status = 400, .body = "<Error><Code>ExpiredToken</Code></Error>"};
  }
  const bool is_azure = options_.signed_type == "AZURE_SAS_URI";
  if (asked.method == "PUT") {
    if (query["op"] != "w") return {.status = 403};
    return is_of_wandb ? wandb_put(asked, path) : storage_put(asked, path);
  }
  const bool is_read = asked.method == "GET" || (asked.method == "HEAD" && is_azure);
  if (!is_read || query["op"] != "r") return {.status = 403};  // Only what the URL was signed for.
  const auto file = files_.find(path);
  if (file == files_.end()) return {.status = is_azure ? 404 : 403};
  HttpReply reply = serve(asked, file->second, /*suffix_ranges=*/!is_azure);
  if (is_azure) reply.headers.emplace_back("ETag", etag_of(file->second.bytes));
  return reply;
}

HttpReply FakeTrackers::storage_put(const Asked& asked, const std::string& path) {
  auto query = asked.query();
  if (options_.signed_type != "AZURE_SAS_URI") {
    const HttpReply checked = check_query(asked, {"op", "sig"});
    if (checked.status != 0) return checked;
    keep(path, asked.body);
    return {.headers = {{"ETag", etag_of(asked.body)}}};
  }
  if (query["comp"] == "block") {
    const HttpReply checked = check_query(asked, {"op", "sig", "comp", "blockid"});
    if (checked.status != 0) return checked;
    blocks_[path][query["blockid"]] = asked.body;
    return {.status = 201};
  }
  const HttpReply checked = check_query(asked, {"op", "sig", "comp"});
  if (checked.status != 0) return checked;
  if (query["comp"] != "blocklist") return violation("blocks, and a list of them");
  std::string bytes;
  const std::string tag = "<Latest>";
  for (std::size_t at = 0; (at = asked.body.find(tag, at)) != std::string::npos; ++at) {
    const std::size_t begin = at + tag.size();
    const std::string id = asked.body.substr(begin, asked.body.find('<', begin) - begin);
    if (!blocks_[path].contains(id)) return violation("a block that was not sent");
    bytes += blocks_[path][id];
  }
  keep(path, bytes);
  return {.status = 201};
}

}  // namespace cairn::testing
