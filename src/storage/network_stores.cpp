#include "storage/network_stores.h"

#include "io/uri.h"
#include "storage/azure/config.h"
#include "storage/kept_store.h"
#include "storage/s3/config.h"
#include "storage/sftp/config.h"

namespace cairn {
namespace {

std::shared_ptr<ObjectStore> kept_s3_store(const std::string& root) {
  return kept_store(s3::resolve_config({.bucket = split_uri(root).authority}), s3::make_s3_store);
}

std::shared_ptr<ObjectStore> kept_azure_store(const std::string& root) {
  return kept_store(azure::resolve_config({.container = split_uri(root).authority}),
                    azure::make_azure_store);
}

std::shared_ptr<ObjectStore> kept_sftp_store(const std::string& root) {
  return kept_store(sftp::resolve_config(sftp::options_of(root)), sftp::make_sftp_store);
}

}  // namespace

std::map<std::string, ObjectStoreFactory> network_stores() {
  return {{"azure", kept_azure_store}, {"s3", kept_s3_store}, {"sftp", kept_sftp_store}};
}

}  // namespace cairn
