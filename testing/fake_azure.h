// A strict server of Azure's Blob Storage in this process: it checks every signature, token, hash,
// block list and condition, and fails as it is told. Written after Microsoft's documents, and from
// nothing that the client under test is made of.
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
  std::string key = "Y2FuYXJ5LWtleS1vZi10aGUtZmFrZQ==";  // in base64
  std::int64_t skew_seconds = 0;                         // of its clock
  bool keeps_old = false;    // of a name that is there: says 201, and replaces nothing
  bool empty_pages = false;  // every list begins with a page of nothing, as partitions make it
  int pending_copies = 0;    // a copy is done when so many have asked for it
  double fault_rate = 0;     // of all requests
  unsigned seed = 1;
};

class FakeAzure : public FakeServer {
 public:
  explicit FakeAzure(FakeAzureOptions options = {});
  ~FakeAzure() { stop(); }

  // What options and variables call its endpoint: the account is in the path, as Azurite has it.
  std::string endpoint() const { return url() + "/" + options_.account; }
  // A token of the account's, which lets do `permissions` ("rwdlac") for so long.
  std::string sas(const std::string& permissions, std::chrono::seconds lasts) const;

  // All that is stored in the container "container": key to bytes.
  std::map<std::string, std::string> objects();
  void put_object(const std::string& key, const std::string& bytes);
  std::size_t uncommitted_blocks();
  std::map<std::string, std::string> headers_of(const std::string& key);

  void change(const FakeAzureOptions& options);

 private:
  using Asked = HttpAsked;
  using Blocks = std::map<std::string, std::string>;  // by their ids, in base64

  struct Blob {
    std::string bytes;
    std::string etag;
    std::map<std::string, std::string> headers = {};  // what HEAD tells
    Blocks blocks = {};                               // of what it was made
    int pending = 0;                                  // until it is copied
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
  std::map<std::string, Blocks> uncommitted_;  // by key
  std::uint64_t writes_ = 0;
};

}  // namespace cairn::testing
