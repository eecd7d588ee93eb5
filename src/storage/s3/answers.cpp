#include "storage/s3/answers.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <pugixml.hpp>

#include "cairn/error.h"

#include "net/url.h"

namespace cairn::s3 {
namespace {

// AWS encodes a space as a plus in the names of lists.
std::string decoded(std::string text) {
  std::replace(text.begin(), text.end(), '+', ' ');
  return percent_decoded(text);
}

// The parser neither expands custom entities nor reads other files.
pugi::xml_document document_of(const std::string& body) {
  pugi::xml_document document;
  document.load_buffer(body.data(), body.size(), pugi::parse_default, pugi::encoding_utf8);
  return document;
}

// Like document_of(), but throws if the document is not whole: a shortened list would pass as a
// complete one.
pugi::xml_document whole_document_of(const std::string& body) {
  pugi::xml_document document;
  const pugi::xml_parse_result parsed =
      document.load_buffer(body.data(), body.size(), pugi::parse_default, pugi::encoding_utf8);
  if (!parsed) {
    throw StorageError("the server's list of objects is broken at byte " +
                           std::to_string(parsed.offset) + " of " + std::to_string(body.size()) +
                           ": " + parsed.description(),
                       0, /*retryable=*/true);
  }
  return document;
}

std::string text_of(const pugi::xml_node& node, const char* name) {
  return node.child(name).text().get();
}

std::uint64_t number_of(const std::string& text) {
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

std::string escaped(std::string_view text) {
  std::string xml;
  for (const char c : text) {
    xml += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
  }
  return xml;
}

}  // namespace

ErrorAnswer parse_error(const std::string& body) {
  const pugi::xml_document document = document_of(body);
  const pugi::xml_node error = document.child("Error");
  return {.code = text_of(error, "Code"),
          .message = text_of(error, "Message"),
          .region = text_of(error, "Region"),
          .endpoint = text_of(error, "Endpoint")};
}

bool is_temporary_code(const std::string& code) {
  constexpr std::array kPassing = {"RequestTimeout",
                                   "RequestTimeoutException",
                                   "SlowDown",
                                   "InternalError",
                                   "ServiceUnavailable",
                                   "Throttling",
                                   "ThrottlingException",
                                   "RequestLimitExceeded",
                                   "BandwidthLimitExceeded",
                                   "IncompleteBody",
                                   "BadDigest",
                                   "XAmzContentSHA256Mismatch",
                                   "OperationAborted",
                                   "ConditionalRequestConflict"};
  return std::find(kPassing.begin(), kPassing.end(), code) != kPassing.end();
}

bool refuses_conditions(int status, const std::string& body) {
  const ErrorAnswer error = parse_error(body);
  if (status == 501 || error.code == "NotImplemented") return true;
  if (error.code != "InvalidArgument") return false;
  std::string text = body;
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  return text.find("if-none-match") != std::string::npos ||
         text.find("if-match") != std::string::npos;
}

RemoteList parse_list(const std::string& body, const char* version) {
  const pugi::xml_document document = whole_document_of(body);
  const pugi::xml_node list = document.child("ListBucketResult");
  if (!list) throw StorageError("the server's list of objects has no ListBucketResult", 0);
  const bool is_encoded = text_of(list, "EncodingType") == "url";
  const auto name = [&](const std::string& text) { return is_encoded ? decoded(text) : text; };
  RemoteList answer;
  for (const pugi::xml_node object : list.children("Contents")) {
    answer.objects.push_back(
        {.key = name(text_of(object, "Key")),
         .size = number_of(text_of(object, "Size")),
         .version = text_of(object, version),
         .modified = parse_iso_time(text_of(object, "LastModified")).value_or(NetTime())});
  }
  for (const pugi::xml_node prefix : list.children("CommonPrefixes")) {
    answer.prefixes.push_back(name(text_of(prefix, "Prefix")));
  }
  answer.is_truncated = text_of(list, "IsTruncated") == "true";
  if (answer.is_truncated) answer.next = text_of(list, "NextContinuationToken");
  return answer;
}

std::string parse_upload_id(const std::string& body) {
  return text_of(document_of(body).child("InitiateMultipartUploadResult"), "UploadId");
}

CompleteAnswer parse_complete(const std::string& body) {
  const pugi::xml_document document = document_of(body);
  const pugi::xml_node result = document.child("CompleteMultipartUploadResult");
  return {.is_done = !result.empty(),
          .etag = text_of(result, "ETag"),
          .crc64 = text_of(result, "ChecksumCRC64NVME")};
}

std::string parse_copy_etag(const std::string& body) {
  const pugi::xml_document document = document_of(body);
  const pugi::xml_node whole = document.child("CopyObjectResult");
  return text_of(whole ? whole : document.child("CopyPartResult"), "ETag");
}

UploadsAnswer parse_uploads(const std::string& body) {
  const pugi::xml_document document = document_of(body);
  const pugi::xml_node list = document.child("ListMultipartUploadsResult");
  UploadsAnswer answer;
  for (const pugi::xml_node upload : list.children("Upload")) {
    answer.uploads.push_back({.key = text_of(upload, "Key"),
                              .id = text_of(upload, "UploadId"),
                              .begun = parse_iso_time(text_of(upload, "Initiated"))});
  }
  if (text_of(list, "IsTruncated") == "true") {
    answer.next_key = text_of(list, "NextKeyMarker");
    answer.next_id = text_of(list, "NextUploadIdMarker");
  }
  return answer;
}

std::string complete_body(const std::vector<SentPart>& parts) {
  std::string xml = "<CompleteMultipartUpload>";
  for (const SentPart& part : parts) {
    xml += "<Part><PartNumber>" + std::to_string(part.number) + "</PartNumber><ETag>" +
           escaped(part.etag) + "</ETag>";
    if (!part.crc64.empty()) {
      xml += "<ChecksumCRC64NVME>" + part.crc64 + "</ChecksumCRC64NVME>";
    }
    xml += "</Part>";
  }
  return xml + "</CompleteMultipartUpload>";
}

}  // namespace cairn::s3
