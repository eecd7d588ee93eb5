// The pages of `cairn report` and `cairn serve`: page.html with style, scripts and data in it.
#pragma once

#include <string>

#include "core/text/json_fwd.h"

namespace cairn::cli {

// A whole page that loads nothing. Its Content-Security-Policy allows only the style and the script
// that this function puts in, by their hashes, so no text in the data can run or load anything.
std::string report_page(const Json& data);

// The page that a server gives. It fetches what it shows from there, again and again; its policy
// allows that, and nothing else that a report's does not. The server sends `policy` as a header,
// too, because a page cannot forbid by itself that others show it in a frame.
struct LivePage {
  std::string html;
  std::string policy;
};

// `settings`: `address`, of the data, relative to the page; `every`, in seconds.
LivePage live_page(const Json& settings);

// JSON that can stand in a <script> of a page.
std::string json_in_page(const Json& data);

}  // namespace cairn::cli
