#include "storage/azure/answers.h"

#include <charconv>

#include <pugixml.hpp>

#include "cairn/error.h"

#include "net/url.h"

namespace cairn::azure {
namespace {

std::string text_of(const pugi::xml_node& node, const char* name) {
  return node.child(name).text().get();
}

// A name that XML cannot represent is encoded, and has an attribute that says so.
std::string name_of(const pugi::xml_node& node) {
  const pugi::xml_node name = node.child("Name");
  const std::string text = name.text().get();
  return std::string(name.attribute("Encoded").value()) == "true" ? percent_decoded(text) : text;
}

// ETags have no quotes in lists, but have them in headers.
std::string quoted(const std::string& etag) {
  return etag.empty() || etag.starts_with('"') ? etag : "\"" + etag + "\"";
}

RemoteList::Object object_of(const pugi::xml_node& blob) {
  const pugi::xml_node properties = blob.child("Properties");
  RemoteList::Object object;
  object.key = name_of(blob);
  const std::string size = text_of(properties, "Content-Length");
  const char* const end = size.data() + size.size();
  const auto [stopped, error] = std::from_chars(size.data(), end, object.size);
  if (object.key.empty() || error != std::errc() || stopped != end) {
    throw StorageError("the server's list of blobs has one without a name or a size", 0);
  }
  object.version = quoted(text_of(properties, "Etag"));
  object.modified = parse_http_date(text_of(properties, "Last-Modified")).value_or(NetTime());
  return object;
}

}  // namespace

RemoteError parse_error(const HttpResponse& response) {
  pugi::xml_document document;
  document.load_buffer(response.body.data(), response.body.size(), pugi::parse_default,
                       pugi::encoding_utf8);
  const pugi::xml_node error = document.child("Error");
  RemoteError answer{.code = std::string(response.header("x-ms-error-code")),
                     .message = text_of(error, "Message")};
  if (answer.code.empty()) answer.code = text_of(error, "Code");
  return answer;
}

RemoteList parse_list(const std::string& body) {
  pugi::xml_document document;
  const pugi::xml_parse_result parsed =
      document.load_buffer(body.data(), body.size(),
                           pugi::parse_default | pugi::parse_ws_pcdata_single, pugi::encoding_utf8);
  if (!parsed) {
    throw StorageError("the server's list of blobs is broken at byte " +
                           std::to_string(parsed.offset) + " of " + std::to_string(body.size()) +
                           ": " + parsed.description(),
                       0, /*retryable=*/true);
  }
  const pugi::xml_node list = document.child("EnumerationResults");
  // Every list has a NextMarker, even the last page.
  if (!list || !list.child("NextMarker")) {
    throw StorageError("the server's list of blobs has no EnumerationResults and NextMarker", 0);
  }
  RemoteList answer;
  for (const pugi::xml_node blob : list.child("Blobs").children("Blob")) {
    answer.objects.push_back(object_of(blob));
  }
  for (const pugi::xml_node prefix : list.child("Blobs").children("BlobPrefix")) {
    answer.prefixes.push_back(name_of(prefix));
  }
  answer.next = text_of(list, "NextMarker");
  answer.is_truncated = !answer.next.empty();
  return answer;
}

std::string block_list(const std::vector<std::string>& ids) {
  std::string xml = "<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>";
  for (const std::string& id : ids) {
    xml += "<Latest>" + id + "</Latest>";  // base64: nothing to escape
  }
  return xml + "</BlockList>";
}

}  // namespace cairn::azure
