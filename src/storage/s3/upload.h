// An object in parts, as S3 and those who speak its XML have it: begun by POST ?uploads, parts by
// PUT ?partNumber, completed by a list of their ETags.
#pragma once

#include <string>
#include <vector>

#include "storage/remote/container.h"
#include "storage/s3/answers.h"

namespace cairn::s3 {

class Upload : public PartedUpload {
 public:
  // Begun already: its id is `id`.
  Upload(Remote& remote, std::string key, std::string id)
      : remote_(remote), key_(std::move(key)), id_(std::move(id)) {}

  RemoteRequest part(int number, const SharedBytes& bytes) override;
  void sent(int number, const HttpResponse& response) override;
  // The request that has the server copy a part from what these headers say, and whether its
  // answer says that it has.
  RemoteRequest copied_part(int number, std::vector<HttpHeader> source) const;
  bool copied(int number, const HttpResponse& response);
  Completed complete(const std::vector<HttpHeader>& condition) override;
  std::optional<RemoteRequest> abort() const override;

 protected:
  HttpResponse send_complete(std::vector<HttpHeader> headers);
  static Completed completed(HttpResponse response);
  std::vector<SentPart>& parts() { return parts_; }

 private:
  Remote& remote_;
  std::string key_;
  std::string id_;
  std::vector<SentPart> parts_;
};

// The id in the answer to POST ?uploads. StorageError for an error, and when there is none in it.
std::string begun_upload(const Remote& remote, const std::string& key,
                         const HttpResponse& response);

// All that a bucket lists, page by page; none where it lists none, or does not let these keys.
std::vector<RemoteUpload> list_uploads(Remote& remote, const std::string& prefix);

}  // namespace cairn::s3
