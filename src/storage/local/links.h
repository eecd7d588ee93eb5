// The link that marks the newest checkpoint.
//
//  1. It is a symbolic link, replaced at once (replace_link() of io/durable/atomic_file.h).
//  2. On a file system that has none (FAT, some network and FUSE ones) it is what Composer keeps in
//     object stores: a text file NAME.symlink, which holds the target as a link would, published as
//     every file is (AtomicFile).
//  3. Only then the other form, left from a time when the folder lay elsewhere, is removed: two
//     marks may disagree, none would be worse. The removal is not synced; the next save repeats it.
//
// Whoever opens NAME where there is only NAME.symlink gets what it names (local_store.cpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "io/file.h"

namespace cairn {

// What the name of a link that is a text file ends in.
inline constexpr std::string_view kLinkFile = ".symlink";
inline constexpr std::uint64_t kLongestLink = 4096;  // its text, in bytes: PATH_MAX

// The name that is the text of a pointer, without the line end that a person's editor adds. Empty
// if the text names nothing: it is empty, longer than kLongestLink or has control characters.
std::string named_by_link(std::string_view text);

// Follows the name of such a pointer in messages.
inline constexpr std::string_view kNamesNothing =
    " is a pointer that names nothing: its text is empty, longer than 4096 bytes or no name";

// Makes `link` point at `path`, durably; missing folders of `link` are created. StorageError, and
// the link of before is still there.
void point_link(FileSystem& files, const std::string& path, const FilePath& link);

// Path of what `link` points at, in whichever form it is there; nullopt when it is in neither.
std::optional<std::string> link_target(FileSystem& files, const std::string& link);

// What the text file `path`, named NAME.symlink, points at, seen from where `path` is; nullopt when
// it is not there, or names nothing.
std::optional<std::string> read_link_file(FileSystem& files, const std::string& path);

}  // namespace cairn
