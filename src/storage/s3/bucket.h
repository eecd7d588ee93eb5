// One bucket, and what was learned about its server.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "storage/remote/container.h"
#include "storage/s3/connection.h"

namespace cairn::s3 {

// Which conditions of a PUT the server checks. Some servers ignore conditions without an error.
struct Conditions {
  bool absent = false;   // If-None-Match: *
  bool version = false;  // If-Match
  bool bare = false;     // the server wants the ETag without quotes, as Ceph does
};

class Bucket final : public RemoteContainer {
 public:
  explicit Bucket(std::shared_ptr<Connection> connection)
      : RemoteContainer(connection), connection_(std::move(connection)) {
    if (!connection_->config().with_checksums) keeps_crc64_ = false;
  }

  StoreFeatures features(const std::string& folder) override;
  std::vector<HttpHeader> condition_headers(const std::string& key,
                                            const WriteCondition& condition) override;
  std::vector<HttpHeader> upload_condition_headers(const std::string& key,
                                                   const WriteCondition& condition) override;
  RemoteHead head_in(const HttpResponse& response) const override;
  std::unique_ptr<PartedUpload> begin_upload(const std::string& key,
                                             const std::string& write_id) override;
  std::vector<RemoteUpload> uploads(const std::string& prefix) override;

  // Notes that the server refused to complete an upload because of its condition.
  void learn_no_upload_conditions() { takes_upload_conditions_ = false; }

 protected:
  std::vector<HttpHeader> head_headers() const override;
  RemoteRequest list_request(const ListQuery& query) const override;
  RemoteList list_in(const std::string& body) const override;
  PutAnswer send_put(const RemotePut& put, const std::string& write_id) override;
  std::optional<CopyAnswer> send_copy(const RemoteCopy& copy) override;
  const char* checksum_title() const override { return "CRC-64/NVME"; }

 private:
  // The conditions that the server checks, probed once, below `folder` ("" or with a slash at the
  // end). Throws StorageError if nothing can be written there.
  Conditions conditions(const std::string& folder);
  // Whether the server checks both conditions when an upload is completed, probed once, too. False
  // if no upload can be begun.
  bool checks_upload_conditions(const std::string& folder);
  Conditions probe(const std::string& folder);
  bool probe_upload(const std::string& folder);
  HttpResponse ask(RemoteRequest request);
  // The headers of a write: access, encryption, write id.
  std::vector<HttpHeader> write_headers(const std::string& write_id) const;
  // The headers of a write that come from the options.
  std::vector<HttpHeader> option_headers() const;
  std::optional<CopyAnswer> copy_in_parts(const RemoteCopy& copy);
  HttpResponse put_once(const RemotePut& put, const std::string& write_id,
                        const std::string& crc64);
  // Whether the server keeps CRC-64 checksums; nullopt until an answer shows it.
  std::optional<bool> keeps_crc64();
  void learn_crc64(bool keeps);

  std::shared_ptr<Connection> connection_;
  std::mutex mutex_;
  std::optional<Conditions> conditions_;
  std::optional<bool> checks_upload_conditions_;
  std::atomic<bool> takes_upload_conditions_ = true;
  std::optional<bool> keeps_crc64_;
};

}  // namespace cairn::s3
