#include "storage/trackers/wandb/run_sender.h"

#include <memory>

#include "cairn/error.h"

#include "core/text/printable.h"
#include "storage/remote/config.h"
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
    const auto describe = [&](Json variables) {
      variables.update({{"name", run}, {"project", project}, {"entity", entity}});
      server_.ask(kUpsertRun, variables, "upsertBucket", "making " + shown);
    };
    if (is_description) {
      describe(object_of(entry, "fields"));
      return;
    }
    const std::string path = "files/" + entity + "/" + project + "/" + run + "/file_stream";
    const auto stream = [&] {
      server_.api().post(path, object_of(entry, "stream"), "logging to " + shown);
    };
    try {
      stream();
    } catch (const NotFoundError&) {  // The run was removed, or its description was lost.
      describe(Json::object());
      stream();
    }
  }

 private:
  std::string entity_of(const std::string& given) {
    if (!given.empty()) return given;
    if (!owner_.empty()) return owner_;
    constexpr const char* kDoing = "looking for your name by";
    owner_ = text_of(server_.ask(kViewer, Json::object(), "viewer", kDoing), "entity");
    if (owner_.empty()) {
      throw StorageError(
          std::string(kDoing) + " W&B: the key has no entity; give one as \"entity\"", 200,
          /*retryable=*/true);
    }
    return owner_;
  }

  GraphQl server_ = {{}, remote_settings()};
  std::string owner_;  // of the key; "" until it is asked for
};

}  // namespace

std::function<void(const std::string& entry)> run_sender() {
  const auto sender = std::make_shared<RunSender>();
  return [sender](const std::string& entry) { sender->send(entry); };
}

}  // namespace cairn::wandb
