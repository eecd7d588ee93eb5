// Parses S3's XML answers. Values that an answer lacks are empty: the caller checks what it needs.
#pragma once

#include <string>
#include <vector>

#include "storage/remote/container.h"

namespace cairn::s3 {

struct ErrorAnswer {
  std::string code;  // "NoSuchKey"; empty if the body is no error
  std::string message;
  std::string region;    // the bucket's region, if the request went to another one
  std::string endpoint;  // the bucket's endpoint, if the request went to another one
};
ErrorAnswer parse_error(const std::string& body);

// Whether the error is a fault, of the server or of the network, that may be temporary.
bool is_temporary_code(const std::string& code);

// Whether a server refuses a write only because it does not support the write's condition.
bool refuses_conditions(int status, const std::string& body);

// Throws StorageError if `body` is no list. The error is retryable() if the list is incomplete.
// `version` is the XML element that distinguishes versions.
RemoteList parse_list(const std::string& body, const char* version = "ETag");

// The id of a new multipart upload; empty if the body has none.
std::string parse_upload_id(const std::string& body);

struct CompleteAnswer {
  bool is_done = false;  // false: it failed although the status is 200
  std::string etag;      // empty if the server does not report it
  std::string crc64;
};
CompleteAnswer parse_complete(const std::string& body);
// The ETag of a copy, or of a copied part; empty if the copy failed although the status is 200.
std::string parse_copy_etag(const std::string& body);

struct UploadsAnswer {
  std::vector<RemoteUpload> uploads;
  std::string next_key;  // both empty: there is no next page
  std::string next_id;
};
UploadsAnswer parse_uploads(const std::string& body);

// The body that completes an upload.
struct SentPart {
  int number = 0;
  std::string etag;
  std::string crc64 = {};  // in base64; empty if the server supports none
};
std::string complete_body(const std::vector<SentPart>& parts);

}  // namespace cairn::s3
