#include "storage/trackers/wandb/run_sender.h"

#include <memory>

#include "cairn/error.h"

#include "core/text/printable.h"
#include "net/url.h"
#include "storage/trackers/wandb/graphql.h"

namespace cairn::wandb {
namespace {

constexpr const char* kViewer = "query Viewer { viewer { id entity } }";

class RunSender {
 public:
  RunSender() { server_.api(); }

  void send(const std::string& text) {
    const Json entry = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    const bool is_description = entry.is_object() && entry.contains("fields");
    const std::string project = text_of(entry, "project");
    const std::string run = text_of(entry, "run");
    if (project.empty() || run.empty() || (!is_description && !entry.contains("stream"))) {
      throw CorruptError("an entry for W&B is damaged");
    }
    const std::string shown = "the run " + printable_line(run) + " by";
    const std::string entity = entity_of(text_of(entry, "entity"));
    if (is_description) {
      Json variables = object_of(entry, "fields");
      variables.update({{"name", run}, {"project", project}, {"entity", entity}});
      server_.ask(kUpsertRun, variables, "upsertBucket", "making " + shown);
      return;
    }
    const std::string path = percent_encoded(entity + "/" + project + "/" + run, true);
    server_.api().post("files/" + path + "/file_stream", object_of(entry, "stream"),
                       "logging to " + shown);
  }

 private:
  std::string entity_of(const std::string& given) {
    if (!given.empty()) return given;
    if (owner_.empty()) {
      owner_ = text_of(server_.ask(kViewer, Json::object(), "viewer", "looking for your name by"),
                       "entity");
    }
    return owner_;
  }

  GraphQl server_ = {{}, {}};
  std::string owner_;  // of the key; "" until it is asked for
};

}  // namespace

std::function<void(const std::string& entry)> run_sender() {
  const auto sender = std::make_shared<RunSender>();
  return [sender](const std::string& entry) { sender->send(entry); };
}

}  // namespace cairn::wandb
