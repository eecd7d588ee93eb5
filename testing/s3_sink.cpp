// A server that accepts all writes and keeps nothing, to measure the cost of a client. Objects
// named "zeros-N" are N zeros. With a key and a certificate it speaks TLS and, like Amazon's
// server, claims to keep the CRC-64 of every object. With --crc64 it claims this without TLS.
// Prints its process id and its address, one line each, and runs until it is killed.
//
//   s3_sink [KEY CERTIFICATE | --crc64]
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <memory>
#include <mutex>

#include "testing/http_server.h"

namespace {

using cairn::testing::HttpReply;
using cairn::testing::ReceivedRequest;

constexpr const char* kCrc64 = "x-amz-checksum-crc64nvme";

class Sink {
 public:
  explicit Sink(bool keeps_crc64) : keeps_crc64_(keeps_crc64) {}

  HttpReply answer(const ReceivedRequest& asked) {
    const std::scoped_lock lock(mutex_);
    const std::string path = asked.path();
    const auto query = asked.query();
    if (asked.method == "PUT") return put(asked, path, query.contains("partNumber"));
    if (asked.method == "POST" && query.contains("uploads")) {
      uploading_[path] = 0;
      HttpReply begun{.body =
                          "<InitiateMultipartUploadResult><UploadId>1</UploadId>"
                          "</InitiateMultipartUploadResult>"};
      const std::string checksum = asked.header("x-amz-checksum-algorithm");
      if (keeps_crc64_ && !checksum.empty()) {
        begun.headers.emplace_back("x-amz-checksum-algorithm", checksum);
      }
      return begun;
    }
    if (asked.method == "POST") {
      sizes_[path] = uploading_[path];
      crc64_[path] = asked.header(kCrc64);
      return {.body =
                  "<CompleteMultipartUploadResult><ETag>\"e\"</ETag>"
                  "</CompleteMultipartUploadResult>"};
    }
    if (asked.method == "DELETE") {
      sizes_.erase(path);
      return {.status = 204};
    }
    return query.contains("list-type") ? HttpReply{.body = "<ListBucketResult/>"}
                                       : get(asked, path);
  }

 private:
  // Over TLS, boto3 sends chunks with signatures or checksums between them.
  static std::size_t decoded_size(const ReceivedRequest& asked) {
    const std::string decoded = asked.header("x-amz-decoded-content-length");
    return decoded.empty() ? asked.body_bytes : std::stoull(decoded);
  }

  HttpReply put(const ReceivedRequest& asked, const std::string& path, bool is_part) {
    if (is_part) {
      uploading_[path] += decoded_size(asked);
    } else {
      sizes_[path] = decoded_size(asked);
      crc64_[path] = asked.header(kCrc64);
    }
    HttpReply reply{.headers = {{"ETag", "\"e\""}}};
    add_crc64(reply, asked.header(kCrc64));
    return reply;
  }

  void add_crc64(HttpReply& reply, const std::string& crc64) const {
    if (keeps_crc64_ && !crc64.empty()) reply.headers.emplace_back(kCrc64, crc64);
  }

  HttpReply get(const ReceivedRequest& asked, const std::string& path) {
    const std::size_t zeros = path.find("/zeros-");
    if (zeros == std::string::npos && !sizes_.contains(path)) return {.status = 404};
    const std::size_t size =
        zeros == std::string::npos ? sizes_[path] : std::stoull(path.substr(zeros + 7));
    HttpReply reply = {
        .headers = {{"ETag", "\"e\""}, {"Last-Modified", "Sun, 22 Nov 2026 12:00:00 GMT"}},
        .zeros = size};
    const std::string range = asked.header("range");
    if (asked.method == "HEAD") {
      reply.headers.emplace_back("Content-Length", std::to_string(size));
      if (zeros == std::string::npos) add_crc64(reply, crc64_[path]);
    } else if (range.starts_with("bytes=")) {
      const std::size_t minus = range.find('-');
      const bool is_end = minus == 6;
      const bool is_open = minus + 1 == range.size();  // "bytes=5-"
      const std::size_t last = is_open ? size - 1 : std::stoull(range.substr(minus + 1));
      const std::size_t begin = is_end ? size - std::min(size, last) : std::stoull(range.substr(6));
      const std::size_t end = is_end ? size : std::min(size, last + 1);
      reply.status = 206;
      reply.zeros = end - begin;
      reply.headers.emplace_back("Content-Range", "bytes " + std::to_string(begin) + "-" +
                                                      std::to_string(end - 1) + "/" +
                                                      std::to_string(size));
    }
    return reply;
  }

  const bool keeps_crc64_;
  std::mutex mutex_;
  std::map<std::string, std::size_t> sizes_;
  std::map<std::string, std::string> crc64_;
  std::map<std::string, std::size_t> uploading_;  // By path: one upload per path.
};

}  // namespace

int main(int argc, char** argv) {
  // OpenSSL raises SIGPIPE when it writes to a connection that the client has closed.
  signal(SIGPIPE, SIG_IGN);
  std::unique_ptr<cairn::testing::TlsServer> tls;
  if (argc == 3) tls = std::make_unique<cairn::testing::TlsServer>(argv[1], argv[2]);
  Sink sink(argc > 1);
  const cairn::testing::HttpServer server(
      [&](const ReceivedRequest& asked) { return sink.answer(asked); },
      /*keeps_bodies=*/false, tls.get());
  std::printf("pid %d\n%s\n", static_cast<int>(getpid()), server.url().c_str());
  std::fflush(stdout);
  for (;;)
    pause();
}
