// An object in parts, as in S3 and servers that speak its XML: begun by POST ?uploads, sent by PUT
// ?partNumber, completed by a list of the parts' ETags.
#pragma once

#include <string>
#include <vector>

#include "storage/remote/container.h"
#include "storage/s3/answers.h"

namespace cairn::s3 {

class Upload : public PartedUpload {
 public:
  // For an upload that has begun and has the id `id`.
  Upload(Remote& remote, std::string key, std::string id)
      : remote_(remote), key_(std::move(key)), id_(std::move(id)) {}

  RemoteRequest part(int number, const SharedBytes& bytes) override;
  void note_sent(int number, const HttpResponse& response) override;
  // The request that lets the server copy a part from the source in these headers. copied() takes
  // the answer, and returns whether the copy succeeded.
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

// The id in the answer to POST ?uploads. Throws StorageError for an error answer, or if the id is
// missing.
std::string begun_upload(const Remote& remote, const std::string& key,
                         const HttpResponse& response);

// All uploads that a bucket lists, over all pages. Empty if the server lists none or these keys may
// not list them.
std::vector<RemoteUpload> list_uploads(Remote& remote, const std::string& prefix);

}  // namespace cairn::s3
