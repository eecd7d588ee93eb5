// Says what some bytes are, for messages about files that are not what was expected.
#include <algorithm>
#include <array>
#include <cctype>

#include "cairn/error.h"
#include "cairn/format/torch_file.h"

#include "format/find_format.h"
#include "format/pickle/opcodes.h"
#include "format/safetensors/header.h"
#include "format/zip/directory.h"
#include "io/bytes/source_part.h"

namespace cairn {
namespace {

struct Magic {
  std::string_view bytes;
  std::size_t offset;
  const char* what;
  const char* advice = "";
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
    Magic{"\x89HDF\r\n"sv, 0, "an HDF5 file", "read it with h5py in Python"},
    Magic{"GGUF"sv, 0, "a GGUF file", "read it with the package gguf in Python"},
    Magic{"\x93NUMPY"sv, 0, "a numpy file",
          "torch.save({'array': torch.from_numpy(numpy.load(FILE))}, 'array.pt') in Python makes a "
          "checkpoint of it"},
};

// Texts that are found in place of a file. They are recognised by their beginning (after white
// space, ignoring case).
constexpr const char* kDownloadAgain =
    "a server gave it in place of the file (a login, an error): look at it, and download the file "
    "again";
constexpr std::array kStandIns = {
    Magic{"version https://git-lfs.github.com/spec/"sv, 0, "a pointer of Git LFS",
          "the file itself was not downloaded: \"git lfs pull\" in its repository does that"},
    Magic{"<!doctype html"sv, 0, "an HTML page", kDownloadAgain},
    Magic{"<html"sv, 0, "an HTML page", kDownloadAgain},
    Magic{"<head"sv, 0, "an HTML page", kDownloadAgain},
    Magic{"<?xml"sv, 0, "an XML text", kDownloadAgain},
    Magic{"<error>"sv, 0, "an XML text", kDownloadAgain},
    Magic{"{\""sv, 0, "a JSON text", kDownloadAgain},
};

constexpr std::uint64_t kStartBytes = 1024;  // all magic numbers lie in them

std::optional<FileFormat> find_stand_in(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  const auto is_same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == b;
  };
  for (const Magic& row : kStandIns) {
    const std::string_view start = text.substr(0, row.bytes.size());
    if (std::ranges::equal(start, row.bytes, is_same)) return {{row.what, row.advice}};
  }
  return std::nullopt;
}

// A kind of zip that torch.save does not write. `name` is the end of a record's name. If `name`
// ends with a slash, it is a folder, and may be anywhere in a record's name.
struct ZipKind {
  std::string_view name;
  const char* what;
  const char* advice;
};
constexpr std::array kZipKinds = {
    ZipKind{"/data/aotinductor/", "a package of AOTInductor (.pt2): compiled code",
            "save the model's state_dict() with torch.save in Python"},
    ZipKind{"/archive_format", "a program of torch.export (.pt2)",
            "torch.save(torch.export.load(FILE).state_dict, 'weights.pt') in Python makes a "
            "checkpoint of its weights"},
    ZipKind{"serialized_exported_program.json", "a program of torch.export (.pt2)",
            "torch.save(torch.export.load(FILE).state_dict, 'weights.pt') in Python makes a "
            "checkpoint of its weights"},
    ZipKind{"/.data/extern_modules", "a package of torch.package: Python code",
            "read it with torch.package.PackageImporter(FILE).load_pickle(PACKAGE, RESOURCE) in "
            "Python, and torch.save() what you need of it"},
    ZipKind{"data.pkl", "a torch.save file whose records are not in one folder", kPackAgain},
    ZipKind{".npy", "a numpy .npz file",
            "torch.save({k: torch.from_numpy(v) for k, v in numpy.load(FILE).items()}, "
            "'arrays.pt') in Python makes a checkpoint of it"},
    ZipKind{"model.weights.h5", "a Keras file", "read it with Keras in Python"},
};

FileFormat zip_of_others(const std::vector<std::string>& names) {
  for (const ZipKind& kind : kZipKinds) {
    const bool is_folder = kind.name.ends_with('/');
    const bool is_there = std::ranges::any_of(names, [&](const std::string& name) {
      return is_folder ? name.find(kind.name) != std::string::npos : name.ends_with(kind.name);
    });
    if (is_there) return {kind.what, kind.advice};
  }
  return {"a zip file, but not of torch.save",
          "if it holds a checkpoint, unpack it with unzip, and name the file or folder in it"};
}

// Returns whether PyTorch would find the record: it expects all records in one folder.
bool has_record(const std::vector<std::string>& names, std::string_view record) {
  return std::ranges::any_of(names, [&](const std::string& name) {
    const std::size_t slash = name.find('/');
    return slash != std::string::npos && name.substr(slash + 1) == record;
  });
}

FileFormat describe_zip(const std::shared_ptr<const ByteSource>& file) {
  std::vector<std::string> names;
  try {
    Windows source(file);
    names = zip::read_names(source);
  } catch (const StorageError&) {
    throw;  // such an error says nothing about the file
  } catch (const Error&) {
    return {"a zip file that is cut off or damaged"};
  }
  if (has_record(names, "constants.pkl")) return {"a TorchScript archive"};
  if (has_record(names, "data.pkl")) return {"a torch.save file"};
  return zip_of_others(names);
}

// A pickle of protocol 2 or higher starts by naming it.
std::optional<FileFormat> find_pickle(ByteView bytes) {
  if (bytes.size() < 2 || bytes[0] != static_cast<std::byte>(pickle::Op::kProto))
    return std::nullopt;
  const auto protocol = static_cast<int>(bytes[1]);
  if (protocol < 2 || protocol > pickle::kHighestProtocol) return std::nullopt;
  return {{"a plain pickle (protocol " + std::to_string(protocol) + ")"}};
}

}  // namespace

std::optional<FileFormat> find_format(const std::shared_ptr<const ByteSource>& file) {
  const SharedBytes start = read_start(*file, kStartBytes);
  const ByteView bytes = start.view;
  const std::string_view text = as_text(bytes);
  if (text.starts_with("PK\x03\x04")) return describe_zip(file);
  for (const Magic& magic : kMagics) {
    if (text.size() > magic.offset && text.substr(magic.offset).starts_with(magic.bytes)) {
      return {{magic.what, magic.advice}};
    }
  }
  if (safetensors::has_header(bytes)) return {{"a safetensors file"}};
  if (auto pickle = find_pickle(bytes)) return pickle;
  return find_stand_in(text);
}

std::string describe_file(const std::shared_ptr<const ByteSource>& file) {
  if (const auto format = find_format(file)) return format->what;
  if (file->size() == 0) return "an empty file";
  constexpr std::uint64_t kEnough = std::uint64_t{1} << 20;  // a sparse file may be of any size
  const SharedBytes start = read_start(*file, kEnough);
  const std::string_view text = as_text(start.view);
  if (std::all_of(text.begin(), text.end(), [](char c) { return c == '\0'; })) {
    return file->size() <= kEnough ? "only zero bytes" : "a file that begins with zero bytes";
  }
  return "no kind of file that cairn knows";
}

void refuse_format(const std::shared_ptr<const ByteSource>& file, const std::string& where,
                   const std::string& wanted) {
  const auto format = find_format(file);
  if (!format) {
    throw CorruptError(where + ": this is " + describe_file(file) + ", not " + wanted, file->name(),
                       0);
  }
  const std::string advice = format->advice.empty() ? "" : "; " + format->advice;
  throw UnsupportedError(where + ": this is " + format->what + ", not " + wanted + advice);
}

void check_no_stand_in(const std::shared_ptr<const ByteSource>& file, const std::string& where) {
  const auto format = find_stand_in(as_text(read_start(*file, kStartBytes).view));
  if (!format) return;
  throw UnsupportedError(where + ": this is " + format->what + ", not the file itself; " +
                         format->advice);
}

std::string describe_bytes(ByteView bytes) {
  return describe_file(source_of({bytes, nullptr}, "the file"));
}

}  // namespace cairn
