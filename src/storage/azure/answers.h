// Parses the XML answers of Azure's Blob Storage.
#pragma once

#include <string>
#include <vector>

#include "net/http.h"
#include "storage/remote/container.h"

namespace cairn::azure {

// Azure also sends the error's code in a header, so answers to HEAD have a code, too.
RemoteError parse_error(const HttpResponse& response);

// Throws StorageError if `body` is no list. The error is retryable() if the list is incomplete.
RemoteList parse_list(const std::string& body);

// The body that assembles a blob from its blocks.
std::string block_list(const std::vector<std::string>& ids);

}  // namespace cairn::azure
