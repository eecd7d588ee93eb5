// The texts of the first two tests are examples from Microsoft's "Authorize with Shared Key",
// written down from memory. Python computed the signature of the third test, with Azurite's
// well-known key.
#include "storage/azure/shared_key.h"

#include <gtest/gtest.h>

#include "net/digest.h"

namespace cairn::azure {
namespace {

TEST(SharedKeyTest, WritesARequestAsInMicrosoftsDocument) {
  const ToSign request = {
      .method = "GET",
      .path = "/mycontainer",
      .query = {{"restype", "container"}, {"comp", "metadata"}, {"timeout", "20"}},
      .headers = {{"x-ms-version", "2015-02-21"}, {"x-ms-date", "Fri, 26 Jun 2015 23:39:12 GMT"}}};
  EXPECT_EQ(text_to_sign(request, "myaccount"),
            "GET\n\n\n\n\n\n\n\n\n\n\n\n"
            "x-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\n"
            "x-ms-version:2015-02-21\n"
            "/myaccount/mycontainer\ncomp:metadata\nrestype:container\ntimeout:20");
}

TEST(SharedKeyTest, ValuesOfOneNameStandTogetherAsInMicrosoftsDocument) {
  const ToSign request = {.method = "GET",
                          .path = "/mycontainer",
                          .query = {{"restype", "container"},
                                    {"Comp", "list"},
                                    {"include", "snapshots"},
                                    {"include", "metadata"},
                                    {"include", "uncommittedblobs"}}};
  EXPECT_TRUE(text_to_sign(request, "myaccount")
                  .ends_with("\n/myaccount/mycontainer\ncomp:list\n"
                             "include:metadata,snapshots,uncommittedblobs\nrestype:container"));
}

TEST(SharedKeyTest, SignsWithTheKeysBytes) {
  const ToSign request = {.method = "PUT",
                          .path = "/devstoreaccount1/mycontainer/a%20b.txt",
                          .headers = {{"content-type", "text/plain; charset=UTF-8"},
                                      {"content-md5", "sQqNsWTgdUEFt6mb5y4/5Q=="},
                                      {"if-none-match", "*"},
                                      {"x-ms-meta-m1", "v1"},
                                      {"x-ms-blob-type", "BlockBlob"},
                                      {"x-ms-version", "2021-12-02"},
                                      {"x-ms-date", "Sun, 20 Sep 2009 20:36:40 GMT"}},
                          .body_bytes = 11};
  const auto key = base64_decoded(
      "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/"
      "K1SZFPTOtr/KBHBeksoGMGw==");
  EXPECT_EQ(authorization(request, {.account = "devstoreaccount1", .key = key.value()}),
            "SharedKey devstoreaccount1:wGAZORCNDxuBi55jDO71NJLF7UdqZXsUDXYtfTey580=");
}

}  // namespace
}  // namespace cairn::azure
