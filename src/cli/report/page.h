// The page of a report: page.html with the style, the scripts and the data in it.
#pragma once

#include <string>

#include "core/text/json_fwd.h"

namespace cairn::cli {

// A whole page that loads nothing. Its Content-Security-Policy allows only the style and the script
// that this function puts in, by their hashes, so no text in the data can run or load anything.
std::string report_page(const Json& data);

// JSON that can stand in a <script> of a page.
std::string json_in_page(const Json& data);

}  // namespace cairn::cli
