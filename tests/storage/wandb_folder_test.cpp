// Folders in W&B. The server has none: a folder is whatever begins with its name at one moment.
#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "cairn/error.h"

#include "net/http.h"
#include "storage/listing.h"
#include "storage/trackers/wandb/store.h"
#include "trackers_fixture.h"

namespace cairn {
namespace {

// Calls a function before each request for the list of artifacts.
class ListWatcher final : public HttpClient {
 public:
  explicit ListWatcher(std::function<void(int)> before) : before_(std::move(before)) {}
  std::unique_ptr<HttpCall> start(HttpRequest request) override {
    std::string body;
    for (const SharedBytes& bytes : request.body) {
      body += as_text(bytes.view);
    }
    if (body.find("CairnCollections") != std::string::npos) before_(++lists_);
    return under_->start(std::move(request));
  }

 private:
  const std::shared_ptr<HttpClient> under_ = shared_http_client();
  const std::function<void(int)> before_;
  int lists_ = 0;
};

TEST(WandbFolderTest, WhatAnotherProgramMakesMeanwhileIsNotRemovedUnjudged) {
  for (int moment = 1; moment <= 4; ++moment) {
    TrackersServed served;
    served.environment.set("WANDB_API_KEY", served.keys.token);
    served.environment.set("WANDB_BASE_URL", served.fake.url());
    served.environment.set("NETRC", "/nonexistent/netrc");
    const auto put = [&](const std::string& name) {
      served.fake.put_file("wandb/me/proj/run.ck." + name + ":latest/" + name, "bytes");
    };
    put(".metadata");
    put("__0_0.distcp");
    RemoteSettings settings;
    settings.client = std::make_shared<ListWatcher>([&](int list) {
      if (list == moment) put("notes.pt");
    });
    settings.retries.clock = served.clock;
    const auto store = wandb::make_wandb_store({.entity = "me"}, settings);
    try {
      EXPECT_TRUE(store->remove_folder("proj/run/ck"));
    } catch (const UnsupportedError&) {
      // The artifact was there early enough to be noticed, so the folder was not removed.
    }
    EXPECT_TRUE(store->stat("proj/run/ck/notes.pt") || moment == 4) << moment;
  }
}

}  // namespace
}  // namespace cairn
