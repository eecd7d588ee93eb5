// Requests and answers of a page server. Only WebServer knows HTTP.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace cairn::cli {

struct WebRequest {
  std::string method = "GET";
  std::string path = "/";                              // decoded, without the query
  std::multimap<std::string, std::string> query = {};  // decoded
  // Headers; empty if the request has none of the name.
  std::string host = {};
  std::string authorization = {};
  std::string cookie = {};
  std::string if_none_match = {};
  std::string fetch_site = {};  // Sec-Fetch-Site: where the page that asks is from
  std::string fetch_mode = {};  // Sec-Fetch-Mode: "navigate" for what the user opens
};

struct WebAnswer {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::shared_ptr<const std::string> body;
  std::vector<std::pair<std::string, std::string>> headers = {};
};

inline std::shared_ptr<const std::string> web_body(std::string text) {
  return std::make_shared<const std::string>(std::move(text));
}

// Called by several threads at once.
using WebHandler = std::function<WebAnswer(const WebRequest&)>;

}  // namespace cairn::cli
