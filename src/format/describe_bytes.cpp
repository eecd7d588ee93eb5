// Says what some bytes are, for messages about files that are not what was expected.
#include <algorithm>
#include <array>

#include "cairn/error.h"
#include "cairn/format/torch_file.h"

#include "format/find_format.h"
#include "format/pickle/opcodes.h"
#include "format/safetensors/header.h"
#include "format/zip/directory.h"
#include "io/source_part.h"

namespace cairn {
namespace {

struct Magic {
  std::string_view bytes;
  std::size_t offset;
  const char* what;
};

using namespace std::string_view_literals;

constexpr std::array kMagics = {
    // The first of the five pickles of torch.save before 1.6: a number.
    Magic{"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e"sv, 0,
          "a torch.save file in the legacy format (before PyTorch 1.6)"},
    Magic{"\x1f\x8b"sv, 0, "a gzip file"},
    Magic{"\x28\xb5\x2f\xfd"sv, 0, "a zstd file"},
    Magic{"\xfd\x37zXZ\0"sv, 0, "an xz file"},
    Magic{"BZh"sv, 0, "a bzip2 file"},
    Magic{"\x04\x22\x4d\x18"sv, 0, "an lz4 file"},
    Magic{"\x89LZO"sv, 0, "an lzop file"},
    Magic{"\x5d\0\0"sv, 0, "an lzma file"},
    Magic{"ustar"sv, 257, "a tar file"},
    Magic{"\x89HDF\r\n"sv, 0, "an HDF5 file"},
    Magic{"GGUF"sv, 0, "a GGUF file"},
    Magic{"\x93NUMPY"sv, 0, "a numpy file"},
};

constexpr std::uint64_t kStartBytes = 1024;  // all magic numbers lie there

std::string describe_zip(const std::shared_ptr<const ByteSource>& file) {
  zip::Directory directory;
  try {
    Windows source(file);
    directory = zip::read_directory(source);
  } catch (const StorageError&) {
    throw;  // which says nothing about the file
  } catch (const Error&) {
    return "a zip file that is cut off or damaged";
  }
  const auto has = [&](std::string_view name) {
    return std::any_of(directory.entries.begin(), directory.entries.end(),
                       [&](const zip::Entry& entry) { return entry.record.name == name; });
  };
  if (has("constants.pkl")) return "a TorchScript archive";
  return has("data.pkl") ? "a torch.save file" : "a zip file, but not of torch.save";
}

// A pickle of protocol 2 or higher starts by naming it.
std::optional<std::string> find_pickle(ByteView bytes) {
  if (bytes.size() < 2 || bytes[0] != static_cast<std::byte>(pickle::Op::kProto))
    return std::nullopt;
  const auto protocol = static_cast<int>(bytes[1]);
  if (protocol < 2 || protocol > pickle::kHighestProtocol) return std::nullopt;
  return "a plain pickle (protocol " + std::to_string(protocol) + ")";
}

}  // namespace

std::optional<std::string> find_format(const std::shared_ptr<const ByteSource>& file) {
  const SharedBytes start = read_start(*file, kStartBytes);
  const ByteView bytes = start.view;
  const std::string_view text = as_text(bytes);
  if (text.starts_with("PK\x03\x04")) return describe_zip(file);
  for (const Magic& magic : kMagics) {
    if (text.size() > magic.offset && text.substr(magic.offset).starts_with(magic.bytes)) {
      return magic.what;
    }
  }
  if (safetensors::has_header(bytes)) return "a safetensors file";
  return find_pickle(bytes);
}

std::string describe_file(const std::shared_ptr<const ByteSource>& file) {
  if (const auto format = find_format(file)) return *format;
  if (file->size() == 0) return "an empty file";
  constexpr std::uint64_t kEnough = std::uint64_t{1} << 20;  // a sparse file may be of any size
  const SharedBytes start = read_start(*file, kEnough);
  const std::string_view text = as_text(start.view);
  if (std::all_of(text.begin(), text.end(), [](char c) { return c == '\0'; })) {
    return file->size() <= kEnough ? "nothing but zero bytes"
                                   : "a file that begins with zero bytes";
  }
  return "no kind of file that cairn knows";
}

std::string describe_bytes(ByteView bytes) {
  return describe_file(source_of({bytes, nullptr}, "the file"));
}

}  // namespace cairn
