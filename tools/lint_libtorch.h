// Included before everything else when clang reads a file that uses libtorch; never compiled into
// anything. libtorch 1.13's ATen/core/List.h destroys a std::vector of a type that is complete only
// later. In C++20 libstdc++'s vector is constexpr, which makes clang look into it at once and
// refuse; without constexpr it looks at the end of the file, as GCC always does.
#pragma once
#include <bits/allocator.h>
#include <bits/range_access.h>
#include <bits/refwrap.h>
#include <bits/stl_algobase.h>
#include <bits/stl_construct.h>
#include <bits/stl_uninitialized.h>

#include <memory>
#include <string>
#pragma push_macro("_GLIBCXX20_CONSTEXPR")
#undef _GLIBCXX20_CONSTEXPR
#define _GLIBCXX20_CONSTEXPR
#define __fill_a1 __fill_a1_of_bits  // an overload of a function that is constexpr elsewhere
#include <vector>
#undef __fill_a1
#pragma pop_macro("_GLIBCXX20_CONSTEXPR")
