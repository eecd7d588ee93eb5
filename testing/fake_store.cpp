// A program that runs a fake server of an object store, for clients that are not cairn's.
//
//   fake_store s3|azure|gcs|oci|wandb LOG
//
// Prints one line of JSON: the server's address and the credentials that it accepts. Writes every
// request as a line of JSON to the file LOG before it is answered: method, target, headers, the
// answer's status, and a short text body. Runs until its standard input ends.
#include <cstdio>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <string>

#include "core/text/json.h"
#include "testing/fake_azure.h"
#include "testing/fake_gcs.h"
#include "testing/fake_oci.h"
#include "testing/fake_s3.h"
#include "testing/fake_trackers.h"
#include "testing/rsa_key.h"

namespace {

using cairn::Json;
using cairn::testing::FakeServer;
using cairn::testing::HttpReply;
using cairn::testing::ReceivedRequest;

constexpr std::size_t kLongestText = 16'384;

Json line_of(const ReceivedRequest& asked, const HttpReply& reply) {
  Json line = {{"method", asked.method}, {"target", asked.target}, {"status", reply.status}};
  for (const auto& [name, value] : asked.headers)
    line["headers"][name] = value;
  const std::string type = asked.header("content-type");
  const bool is_text = type.starts_with("application/json") ||
                       type.starts_with("application/xml") ||
                       type.starts_with("application/x-www-form-urlencoded");
  if (is_text && asked.body.size() <= kLongestText) line["body"] = asked.body;
  if (reply.status >= 400) line["answer"] = reply.body;
  return line;
}

void serve(FakeServer& server, const std::string& log, Json said) {
  std::ofstream lines(log);
  server.watch([&](const ReceivedRequest& asked, const HttpReply& reply) {
    lines << line_of(asked, reply).dump(-1, ' ', false, Json::error_handler_t::replace)
          << std::endl;  // Flushed: the client reads the answer, and then this file.
  });
  said["url"] = server.url();
  std::cout << said.dump() << std::endl;
  while (std::getchar() != EOF) {
  }
  server.watch(nullptr);
}

void serve_s3(const std::string& log) {
  const cairn::testing::FakeS3Options options;
  cairn::testing::FakeS3 server(options);
  serve(server, log,
        {{"key", options.access_key}, {"secret", options.secret_key}, {"region", options.region}});
}

void serve_azure(const std::string& log) {
  const cairn::testing::FakeAzureOptions options;
  cairn::testing::FakeAzure server(options);
  serve(server, log,
        {{"endpoint", server.endpoint()},
         {"account", options.account},
         {"key", options.key},
         {"sas", server.sas("rwdl", std::chrono::hours(1))}});
}

void serve_gcs(const std::string& log) {
  const cairn::testing::FakeGcsOptions options = {.private_key =
                                                      cairn::testing::rsa_key_of_tests()};
  cairn::testing::FakeGcs server(options);
  serve(server, log,
        {{"key", options.key},
         {"secret", options.secret},
         {"account", options.account},
         {"private_key", options.private_key},
         {"refresh_token", options.refresh_token},
         {"client_secret", options.client_secret}});
}

void serve_oci(const std::string& log) {
  const cairn::testing::FakeOciOptions options;
  cairn::testing::FakeOci server(options);
  serve(server, log,
        {{"key_id", options.key_id},
         {"private_key", cairn::testing::rsa_key_of_tests()},
         {"namespace", options.name_space}});
}

void serve_wandb(const std::string& log) {
  const cairn::testing::FakeTrackersOptions options;
  cairn::testing::FakeTrackers server(options);
  serve(server, log, {{"key", options.token}});
}

const std::map<std::string, std::function<void(const std::string&)>> kKinds = {
    {"s3", serve_s3},   {"azure", serve_azure}, {"gcs", serve_gcs},
    {"oci", serve_oci}, {"wandb", serve_wandb},
};

}  // namespace

int main(int argc, char** argv) {
  const auto kind = kKinds.find(argc == 3 ? argv[1] : "");
  if (kind == kKinds.end()) {
    std::cerr << "usage: fake_store s3|azure|gcs|oci|wandb LOG\n";
    return 2;
  }
  kind->second(argv[2]);
  return 0;
}
