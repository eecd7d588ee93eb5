// The link that marks the newest checkpoint.
//
//  1. The link is a symbolic link, replaced at once (replace_link() of io/durable/atomic_file.h).
//  2. A file system without symbolic links (FAT, some network and FUSE ones) gets what Composer
//     writes to object stores: a text file NAME.symlink, which contains the target as a link would.
//     The text file is published like every file (AtomicFile).
//  3. A link of the other form may be left from a time when the folder was elsewhere. This link is
//     removed only after step 1 or 2: two links may disagree, but no link would be worse. The
//     removal is not synced; the next save repeats the removal.
//
// If only NAME.symlink exists, opening NAME opens its target (local_store.cpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "io/file.h"

namespace cairn {

// The ending of the name of a link that is a text file.
inline constexpr std::string_view kLinkFile = ".symlink";
inline constexpr std::uint64_t kLongestLink = 4096;  // of a link's text, in bytes: PATH_MAX

// The name in the text of a pointer, without the line end that an editor adds. Empty if the text
// names nothing: it is empty, longer than kLongestLink or has control characters.
std::string named_by_link(std::string_view text);

// The text that messages add to the name of a pointer that names nothing.
inline constexpr std::string_view kNamesNothing =
    " is a pointer that names nothing: its text is empty, longer than 4096 bytes or no name";

// Makes `link` point at `path`, durably. Creates missing folders of `link`. If point_link() throws
// StorageError, the old link still exists.
void point_link(FileSystem& files, const std::string& path, const FilePath& link);

// The path that `link` points at, in either form; nullopt if neither form exists.
std::optional<std::string> link_target(FileSystem& files, const std::string& link);

// The path that the text file `path`, named NAME.symlink, points at, resolved from the file's
// folder. nullopt if the file does not exist or names nothing.
std::optional<std::string> read_link_file(FileSystem& files, const std::string& path);

}  // namespace cairn
