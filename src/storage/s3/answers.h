// What S3 answers, out of XML. A body that is none of it gives empty values: what must be there is
// checked by who needs it.
#pragma once

#include <string>
#include <vector>

#include "storage/remote/container.h"

namespace cairn::s3 {

struct ErrorAnswer {
  std::string code;  // "NoSuchKey"; empty when the body is no error
  std::string message;
  std::string region;    // where the bucket is, when another one was asked
  std::string endpoint;  // likewise
};
ErrorAnswer parse_error(const std::string& body);

// Whether the server, or the way to it, may do better the next time.
bool is_passing_code(const std::string& code);

// Whether a server refuses a write because it knows no conditions of such ones, and not because of
// anything else that is wrong.
bool refuses_conditions(int status, const std::string& body);

// StorageError when it is no list; retryable() when it is not whole. `version` is the element
// that tells versions apart.
RemoteList parse_list(const std::string& body, const char* version = "ETag");

// Of a new multipart upload; empty when there is none in it.
std::string parse_upload_id(const std::string& body);

struct CompleteAnswer {
  bool is_done = false;  // false: it failed after all
  std::string etag;      // empty where the server does not say it
  std::string crc64;
};
CompleteAnswer parse_complete(const std::string& body);
// Of a copy, or of a part that was copied; empty when it failed after all.
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
  std::string crc64 = {};  // in base64; empty where the server knows none
};
std::string complete_body(const std::vector<SentPart>& parts);

}  // namespace cairn::s3
