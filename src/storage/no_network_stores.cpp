#include "cairn/error.h"
#include "cairn/storage/azure.h"
#include "cairn/storage/dbfs.h"
#include "cairn/storage/gcs.h"
#include "cairn/storage/oci.h"
#include "cairn/storage/s3.h"
#include "cairn/storage/wandb.h"

#include "storage/kept_store.h"
#include "storage/network_stores.h"
#include "storage/sftp/config.h"
#include "storage/trackers/mlflow/tracking.h"
#include "storage/trackers/slack/slack.h"
#include "storage/trackers/wandb/run_sender.h"

namespace cairn {
namespace {

[[noreturn]] void refuse_network(const std::string& place) {
  throw UnsupportedError(place +
                         ": this build of cairn has no network stores; build it with "
                         "-DCAIRN_BUILD_NET=ON, which needs libcurl, OpenSSL and pugixml");
}

}  // namespace

std::shared_ptr<ObjectStore> gcs_store(const GcsOptions& options) {
  refuse_network("gs://" + options.bucket);
}

std::shared_ptr<ObjectStore> oci_store(const OciOptions& options) {
  refuse_network("oci://" + options.bucket);
}

std::shared_ptr<ObjectStore> s3_store(const S3Options& options) {
  refuse_network("s3://" + options.bucket);
}

std::shared_ptr<ObjectStore> azure_store(const AzureOptions& options) {
  refuse_network("azure://" + options.container);
}

std::shared_ptr<ObjectStore> wandb_store(const WandbOptions& options) {
  refuse_network("wandb://" + options.entity);
}

std::shared_ptr<ObjectStore> dbfs_store(const DbfsOptions& /*options*/) {
  refuse_network("dbfs:/");
}

std::shared_ptr<ObjectStore> kept_s3_store(const S3Options& options) { return s3_store(options); }

std::shared_ptr<ObjectStore> kept_gcs_store(const GcsOptions& options) {
  return gcs_store(options);
}

std::shared_ptr<ObjectStore> kept_azure_store(const AzureOptions& options) {
  return azure_store(options);
}

std::function<void(const std::string& message)> slack::sender(const Address& /*address*/) {
  refuse_network("Slack");
}

std::unique_ptr<mlflow::Tracking> mlflow::tracking_server(const std::string& tracking_uri) {
  refuse_network(tracking_uri);
}

std::function<void(const std::string& entry)> wandb::run_sender() {
  refuse_network("Weights & Biases");
}

std::map<std::string, ObjectStoreFactory> network_stores() {
  const auto refuse = [](const std::string& root) -> std::shared_ptr<ObjectStore> {
    refuse_network(root);
  };
  // SFTP needs no library, only the program ssh.
  const auto sftp = [](const std::string& root) {
    return kept_store(sftp::resolve_config(sftp::options_of(root)), sftp::make_sftp_store);
  };
  return {{"azure", refuse}, {"dbfs", refuse},     {"gs", refuse},  {"http", refuse},
          {"https", refuse}, {"libcloud", refuse}, {"oci", refuse}, {"s3", refuse},
          {"sftp", sftp},    {"wandb", refuse}};
}

}  // namespace cairn
