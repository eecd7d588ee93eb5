// Parses the XML answers of Azure's Blob Storage.
#pragma once

#include <string>
#include <vector>

#include "net/http.h"
#include "storage/remote/container.h"

namespace cairn::azure {

// The code is also in a header, so that answers to HEAD have one.
RemoteError parse_error(const HttpResponse& response);

// Throws StorageError if `body` is no list; retryable() if the list is not whole.
RemoteList parse_list(const std::string& body);

// The body that assembles a blob from its blocks.
std::string block_list(const std::vector<std::string>& ids);

}  // namespace cairn::azure
