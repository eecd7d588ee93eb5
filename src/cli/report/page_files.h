// The files of this folder, and the charts of assets/, that a page is made of. embed.cmake writes
// the definitions.
#pragma once

#include <string_view>

namespace cairn::cli {

std::string_view page_html();
std::string_view page_style();      // uPlot's and page.css
std::string_view page_script();     // uPlot's and ours, in the order of their use
std::string_view report_script();   // the last script of a report
std::string_view live_script();     // the last scripts of the page that a server gives
std::string_view charts_licence();  // a copy of uPlot must have it

}  // namespace cairn::cli
