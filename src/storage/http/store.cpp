// A web server as a store that can only be read:
//
//  1. A file is opened and read in ranges, as an object is (remote/source.h). Its version is a
//     strong ETag, or else the time of its last change.
//  2. A server that does not support ranges sends the whole file, which is kept in memory.
//  3. The query is sent unchanged and appears in no message: it may be the key to the file.
#include "storage/http/store.h"

#include <algorithm>
#include <charconv>

#include "cairn/error.h"

#include "net/digest.h"
#include "storage/remote/config.h"
#include "storage/remote/source.h"

namespace cairn::web {
namespace {

constexpr std::uint64_t kMaxBytesWithoutRanges = std::uint64_t{1} << 30;
constexpr int kRedirects = 10;
constexpr std::string_view kOfUrls = "-._~:/?[]@!$&'()*+,;=%";

// Encodes the bytes that a URL must not contain, as a browser does. Encoded parts stay.
std::string sendable(std::string_view name) {
  std::string text;
  for (const char c : name.substr(0, name.find('#'))) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || kOfUrls.find(c) != std::string_view::npos;
    text += is_plain ? std::string(1, c) : percent_encoded({&c, 1});
  }
  return text;
}

class WebServer final : public Remote {
 public:
  explicit WebServer(Config config)
      : Remote(config.settings), url_(config.server.origin()), user_(std::move(config.user)) {
    keep_secret({user_});
  }

  std::string describe(const std::string& key) const override {
    const std::size_t mark = std::min(key.find_first_of("?#"), key.size());
    return url_ + "/" + key.substr(0, mark) +
           (key.compare(mark, 1, "?") == 0 ? "?..." : std::string());
  }

  std::optional<HttpHeader> same_version(const HttpResponse& response) const override {
    const std::string etag(response.header("etag"));
    if (!etag.empty() && !etag.starts_with("W/")) return HttpHeader{"if-match", etag};
    const std::string changed(response.header("last-modified"));
    if (changed.empty()) return std::nullopt;
    return HttpHeader{"if-unmodified-since", changed};
  }

 protected:
  SignedRequest sign(const RemoteRequest& request) override {
    SignedRequest made = {.http = {.method = request.method,
                                   .url = url_ + "/" + sendable(request.key),
                                   .headers = request.headers,
                                   .redirects = kRedirects}};
    if (!user_.empty()) {
      made.http.headers.push_back({"authorization", "Basic " + base64(as_bytes(user_))});
    }
    return made;
  }
  // The body of a web server's error is a page for people.
  RemoteError error_in(const HttpResponse& /*response*/) const override { return {}; }
  std::string advice_for(int status, const std::string& /*code*/) const override {
    if (status == 401) return "; the server requires a user: https://user:password@host/...";
    if (status == 403) return "; a signed URL may have expired";
    return "";
  }

 private:
  const std::string url_;
  const std::string user_;
};

ObjectInfo info_in(const HttpResponse& response, std::uint64_t size) {
  const std::string etag(response.header("etag"));
  const std::string changed(response.header("last-modified"));
  return {.size = size,
          .modified = parse_http_date(changed).value_or(NetTime()),
          .version = etag.empty() ? changed : etag};
}

// The size in the answer: 10 for "bytes 0-0/10".
std::uint64_t size_in(const HttpResponse& response) {
  const std::string range(response.header("content-range"));
  std::uint64_t size = 0;
  std::from_chars(range.data() + std::min(range.rfind('/'), range.size() - 1) + 1,
                  range.data() + range.size(), size);
  return size;
}

// A store that can only be read: every function except stat(), open() and read_pointer() throws
// UnsupportedError.
class WebStore final : public ObjectStore {
 public:
  explicit WebStore(Config config) : server_(std::make_shared<WebServer>(std::move(config))) {}

  std::string describe(const std::string& name) const override { return server_->describe(name); }

  std::optional<ObjectInfo> stat(const std::string& name, bool /*follow*/) override {
    const HttpResponse head = server_->send({.method = "HEAD", .key = name});
    if (head.status == 404 || head.status == 410) return std::nullopt;
    if (is_success(head) && !head.header("content-length").empty()) {
      return info_in(head, content_length(head));
    }
    // A URL that is signed for GET does not allow HEAD.
    const HttpResponse byte =
        server_->send({.key = name, .headers = {{"range", "bytes=0-0"}}, .returns_too_long = true});
    if (byte.status == 404 || byte.status == 410) return std::nullopt;
    if (byte.status == 416) return info_in(byte, 0);  // An empty file has no first byte.
    server_->check(byte, "looking at", name);
    return info_in(byte, byte.status == 206 ? size_in(byte) : content_length(byte));
  }

  std::shared_ptr<const ByteSource> open(const std::string& name) override {
    auto source = open_object(server_, name);
    if (source == nullptr) throw NotFoundError("there is no file " + describe(name));
    return source;
  }

  std::optional<Pointer> read_pointer(const std::string& /*name*/) override { return std::nullopt; }

  ListPage list(const std::string& folder, const std::string& /*page*/) override {
    refuse(folder, "listed");
  }
  std::unique_ptr<ObjectWrite> begin(const std::string& name,
                                     const BeginOptions& /*options*/) override {
    refuse(name, "written");
  }
  bool remove(const std::string& name) override { refuse(name, "removed"); }
  bool remove_folder(const std::string& name) override { refuse(name, "removed"); }
  void rename(const std::string& from, const std::string& /*to*/) override {
    refuse(from, "renamed");
  }
  void move_pointer(const std::string& name, const std::string& /*target*/,
                    const std::optional<std::string>& /*expected*/) override {
    refuse(name, "written");
  }
  void prepare(const std::string& folder) override { refuse(folder, "written"); }

 private:
  [[noreturn]] void refuse(const std::string& name, const std::string& what) const {
    throw UnsupportedError(describe(name) + " cannot be " + what +
                           ": files of a web server can only be loaded; give a bucket (s3://, " +
                           "gs://) or a path");
  }

  std::shared_ptr<WebServer> server_;
};

}  // namespace

Config resolve_config(const std::string& root) {
  Config config;
  const std::size_t begin = std::min(root.find("://"), root.size() - 1) + 3;
  const std::size_t at = root.rfind('@');
  std::string text = root;
  if (at != std::string::npos && at >= begin) {
    config.user = percent_decoded(root.substr(begin, at - begin));
    text.erase(begin, at + 1 - begin);
  }
  config.server = parse_http_url(text, "a place on a web server");
  config.settings = remote_settings();
  config.settings.most_without_ranges = kMaxBytesWithoutRanges;
  return config;
}

std::shared_ptr<ObjectStore> make_web_store(Config config) {
  return std::make_shared<WebStore>(std::move(config));
}

}  // namespace cairn::web
