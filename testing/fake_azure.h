// A strict server of Azure's Blob Storage in this process. It checks every signature, token, hash,
// block list and condition, and fails as a test tells it to. It was written from Microsoft's
// documents, and shares no code with the client under test.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "testing/fake_server.h"

namespace cairn::testing {

struct FakeAzureOptions {
  std::string account = "fakeaccount";
  std::string key = "Y2FuYXJ5LWtleS1vZi10aGUtZmFrZQ==";  // Base64.
  std::int64_t skew_seconds = 0;                         // How far the server's clock is ahead.
  bool keeps_old = false;  // Answers 201 to a write over an existing name, but keeps the old bytes.
  // Every list begins with an empty page. Azure's partitions can cause this.
  bool empty_pages = false;
  int pending_copies = 0;  // A copy is done after this many requests for its status.
  double fault_rate = 0;   // The share of requests that fail.
  unsigned seed = 1;
};

class FakeAzure : public FakeServer {
 public:
  explicit FakeAzure(FakeAzureOptions options = {});
  ~FakeAzure() { stop(); }

  // The endpoint as options and variables name it: the account is in the path, as in Azurite.
  std::string endpoint() const { return url() + "/" + options_.account; }
  // A token of the account that grants `permissions` ("rwdlac") for the time `lasts`.
  std::string sas(const std::string& permissions, std::chrono::seconds lasts) const;

  // All objects of the container "container": key to bytes.
  std::map<std::string, std::string> objects();
  void put_object(const std::string& key, const std::string& bytes);
  std::size_t uncommitted_blocks();
  std::map<std::string, std::string> headers_of(const std::string& key);

  void change(const FakeAzureOptions& options);

 private:
  using Asked = ReceivedRequest;
  using Blocks = std::map<std::string, std::string>;  // Key: the block's id, in base64.

  struct Blob {
    std::string bytes;
    std::string etag;
    std::map<std::string, std::string> headers = {};  // The headers that HEAD returns.
    Blocks blocks = {};                               // The blocks that the blob was made of.
    int pending = 0;                                  // Status requests until its copy is done.
  };

  HttpReply answer(const Asked& asked);
  HttpReply dispatch(const Asked& asked);
  HttpReply check_request(const Asked& asked) const;
  HttpReply check_key(const Asked& asked) const;
  HttpReply check_sas(const Asked& asked) const;
  HttpReply check_condition(const Asked& asked, const std::string& key) const;
  HttpReply get(const Asked& asked, const std::string& key);
  HttpReply put_blob(const Asked& asked, const std::string& key);
  HttpReply put_block(const Asked& asked, const std::string& key);
  HttpReply put_block_list(const Asked& asked, const std::string& key);
  HttpReply copy(const Asked& asked, const std::string& key);
  HttpReply remove(const std::string& key);
  HttpReply list(const Asked& asked) const;
  HttpReply keep(const std::string& key, Blob blob);
  std::string next_etag();
  std::chrono::system_clock::time_point now() const;

  FakeAzureOptions options_;
  std::map<std::string, Blob> blobs_;
  std::map<std::string, Blocks> uncommitted_;  // By key.
  std::uint64_t writes_ = 0;
};

}  // namespace cairn::testing
