// fmt's compiled part, from its headers: Debian has no static library of fmt.
#include <fmt/format-inl.h>

// Templates that fmt's library has and other files use. They are not in every file.
template std::locale fmt::detail::locale_ref::get<std::locale>() const;
template fmt::detail::thousands_sep_result<char> fmt::detail::thousands_sep_impl(
    fmt::detail::locale_ref);
template char fmt::detail::decimal_point_impl(fmt::detail::locale_ref);
