// What Azure's Blob Storage answers, out of XML.
#pragma once

#include <string>
#include <vector>

#include "net/http.h"
#include "storage/remote/container.h"

namespace cairn::azure {

// The code is in a header, too, so that answers to HEAD have one.
RemoteError parse_error(const HttpResponse& response);

// StorageError when it is no list; retryable() when it is not whole.
RemoteList parse_list(const std::string& body);

// The body that makes a blob of its blocks.
std::string block_list(const std::vector<std::string>& ids);

}  // namespace cairn::azure
