// The compiled part of fmt, from its own headers: Debian has no static library of it.
#include <fmt/format-inl.h>

#include <locale>

template char fmt::detail::decimal_point_impl<char>(fmt::detail::locale_ref);
template fmt::detail::thousands_sep_result<char> fmt::detail::thousands_sep_impl<char>(
    fmt::detail::locale_ref);
template std::locale fmt::detail::locale_ref::get<std::locale>() const;
