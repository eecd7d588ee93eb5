// Says what a file is, as describe_bytes() does, for a file that need not be in memory.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cairn/byte_source.h"

namespace cairn {

// A kind of file, for messages.
struct FileFormat {
  std::string what;         // "a safetensors file"
  std::string advice = {};  // what a user can do with the file; empty if cairn reads it
};

// Advice for a zip with torch.save's records in a place where PyTorch does not find them.
inline constexpr const char* kPackAgain =
    "unpack it with \"python3 -m zipfile -e FILE OUT\", and in the folder above the one that has "
    "data.pkl pack that one: \"zip -0 -r NEW.pt FOLDER\"";

// Returns nullopt for a file without a format (empty, zeros) and for one that cairn does not know.
// Reads the first KiB of the file, and the directory if the file is a zip. Throws StorageError if
// reading fails.
std::optional<FileFormat> find_format(const std::shared_ptr<const ByteSource>& file);

// Says in words what the file is, even if it has no known format. Throws StorageError if reading
// fails.
std::string describe_file(const std::shared_ptr<const ByteSource>& file);

// Throws because the file is not `wanted` ("a checkpoint that cairn reads"). If the file has a
// known format, throws an UnsupportedError that says what it is and what to do; otherwise
// CorruptError. `where` begins the message.
[[noreturn]] void refuse_format(const std::shared_ptr<const ByteSource>& file,
                                const std::string& where, const std::string& wanted);

// Throws UnsupportedError if the file is a stand-in for the real one (an HTML page, a pointer of
// Git LFS), which a reader would call damaged. `where` begins the message. Reads the first KiB.
void check_no_stand_in(const std::shared_ptr<const ByteSource>& file, const std::string& where);

}  // namespace cairn
