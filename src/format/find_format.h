// What describe_bytes() knows, of a file that need not be in memory.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cairn/byte_source.h"

namespace cairn {

// A kind of file, for messages.
struct FileFormat {
  std::string what;         // "a safetensors file"
  std::string advice = {};  // what a user does with such a file; empty if cairn reads it
};

// Advice for a zip of torch.save's records that PyTorch would not find in it.
inline constexpr const char* kPackAgain =
    "unpack it with \"python3 -m zipfile -e FILE OUT\", and in the folder above the one that has "
    "data.pkl pack that one: \"zip -0 -r NEW.pt FOLDER\"";

// nullopt for what is no format (empty, zeros) or none that cairn knows. Looks at the first KiB of
// the file, and at the directory of a zip. StorageError.
std::optional<FileFormat> find_format(const std::shared_ptr<const ByteSource>& file);

// Says in words what the file is, also where it has no format. StorageError.
std::string describe_file(const std::shared_ptr<const ByteSource>& file);

// Throws for a file that is not `wanted` ("a checkpoint that cairn reads"). UnsupportedError that
// says what it is and what to do, if it has a format; otherwise CorruptError. `where` begins the
// message.
[[noreturn]] void refuse_format(const std::shared_ptr<const ByteSource>& file,
                                const std::string& where, const std::string& wanted);

// UnsupportedError if something stands in place of the file, which a reader that expects its format
// takes for damage. `where` begins the message. Looks at the first KiB.
void check_no_stand_in(const std::shared_ptr<const ByteSource>& file, const std::string& where);

}  // namespace cairn
