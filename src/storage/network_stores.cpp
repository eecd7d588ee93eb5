#include "storage/network_stores.h"

#include "io/uri.h"
#include "storage/azure/config.h"
#include "storage/gcs/config.h"
#include "storage/http/store.h"
#include "storage/kept_store.h"
#include "storage/oci/config.h"
#include "storage/s3/config.h"
#include "storage/sftp/config.h"
#include "storage/trackers/dbfs/store.h"
#include "storage/trackers/wandb/store.h"

namespace cairn {
namespace {

std::shared_ptr<ObjectStore> azure_store_of(const std::string& root) {
  return kept_azure_store({.container = split_uri(root).authority});
}

std::shared_ptr<ObjectStore> kept_sftp_store(const std::string& root) {
  return kept_store(sftp::resolve_config(sftp::options_of(root)), sftp::make_sftp_store);
}

std::shared_ptr<ObjectStore> s3_store_of(const std::string& root) {
  return kept_s3_store({.bucket = split_uri(root).authority});
}

std::shared_ptr<ObjectStore> gcs_store_of(const std::string& root) {
  return kept_gcs_store({.bucket = split_uri(root).authority});
}

std::shared_ptr<ObjectStore> kept_oci_store(const std::string& root) {
  return kept_store(oci::resolve_config({.bucket = split_uri(root).authority}),
                    oci::make_oci_store);
}

// A web server's store learns nothing worth keeping: a new store each time.
std::shared_ptr<ObjectStore> web_store_of(const std::string& root) {
  return web::make_web_store(web::resolve_config(root));
}

}  // namespace

std::shared_ptr<ObjectStore> kept_s3_store(const S3Options& options) {
  return kept_store(s3::resolve_config(options), s3::make_s3_store);
}

std::shared_ptr<ObjectStore> kept_gcs_store(const GcsOptions& options) {
  return kept_store(gcs::resolve_config(options), gcs::make_gcs_store);
}

std::shared_ptr<ObjectStore> kept_azure_store(const AzureOptions& options) {
  return kept_store(azure::resolve_config(options), azure::make_azure_store);
}

std::map<std::string, ObjectStoreFactory> network_stores() {
  return {{"azure", azure_store_of}, {"dbfs", dbfs::kept_dbfs_store},
          {"gs", gcs_store_of},      {"http", web_store_of},
          {"https", web_store_of},   {"libcloud", kept_libcloud_store},
          {"oci", kept_oci_store},   {"s3", s3_store_of},
          {"sftp", kept_sftp_store}, {"wandb", wandb::wandb_store_of}};
}

}  // namespace cairn
