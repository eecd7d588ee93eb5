#include "checkpoint/names/extension.h"

#include <algorithm>
#include <array>

#include "cairn/error.h"

#include "io/file.h"
#include "io/process/program.h"
#include "storage/listing.h"

namespace cairn {
namespace {

// Composer's extensions. Composer's ".tar.lzma" is xz, but its ".pt.lzma" is not: Composer reads
// the latter with `lzma -dc`, which accepts only LZMA alone.
constexpr std::array kExtensions = {
    Extension{""},
    Extension{".pt"},
    Extension{".tar", nullptr, true},
    Extension{".tar.gz", &kGzip, true},
    Extension{".tgz", &kGzip, true},
    Extension{".tar.bz2", &kBzip2, true},
    Extension{".tar.lzma", &kXz, true},
    Extension{".pt.gz", &kGzip},
    Extension{".pt.bz2", &kBzip2},
    Extension{".pt.xz", &kXz},
    Extension{".pt.lzma", &kLzma},
    Extension{".pt.lz4", &kLz4},
    Extension{".pt.zst", &kZstd},
    Extension{".pt.lzo", &kLzop},
};

// Words after the last dot that mean a container, a compression or another kind of file that would
// not be written. ".pth", ".ckpt" and ".bin" are not in the list, because PyTorch's own files have
// these extensions.
constexpr std::array<std::string_view, 26> kMeantWords = {
    "pt",    "tar", "tgz",  "tbz2", "txz", "tzst", "gz",     "gzip",       "bz2",
    "bzip2", "xz",  "lz",   "lzma", "lz4", "zst",  "zstd",   "lzo",        "zip",
    "rar",   "br",  "json", "npz",  "h5",  "onnx", "distcp", "safetensors"};
// Words that have their own meaning in cairn or Composer: a link, a pin against pruning, a file
// that was put aside.
constexpr std::array<std::string_view, 5> kOwnWords = {"symlink", "pin", kAsideDamaged,
                                                       kAsideUnreadable, kAsideInTheWay};

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return result;
}

bool has_extension(std::string_view name, std::string_view extension) {
  return !extension.empty() && name.size() > extension.size() && name.ends_with(extension);
}

// True for "foo_2", false for "1-ep3": letters, digits and "_", beginning with a letter.
bool is_word(std::string_view text) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  return !text.empty() && is_letter(text.front()) &&
         std::all_of(text.begin(), text.end(),
                     [&](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '_'; });
}

// Whether the text after the last dot was meant to choose how the file is written. `name` ends in
// none of kExtensions. The dots of "lr0.1-ep3", "v1.2" and "resnet.adam" were not meant to choose
// anything. A dot at the front, as in ".hidden", begins no extension.
bool is_meant_as_extension(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot == 0) return false;
  const std::string last = lower(name.substr(dot + 1));
  const auto is_last = [&](std::string_view word) { return last == word; };
  if (std::any_of(kMeantWords.begin(), kMeantWords.end(), is_last)) return true;
  if (std::any_of(kOwnWords.begin(), kOwnWords.end(), is_last)) return true;
  const std::string before = lower(name.substr(0, dot));
  return is_word(last) && (has_extension(before, ".pt") || has_extension(before, ".tar"));
}

// The extension of a name for which is_meant_as_extension() is true: ".zip", ".pt.foo".
std::string_view unknown_extension(std::string_view name) {
  std::size_t begin = name.rfind('.');
  for (const std::string_view inner : {".pt", ".tar"}) {
    if (has_extension(lower(name.substr(0, begin)), inner)) begin -= inner.size();
  }
  return name.substr(begin);
}

const Extension* written_extension(std::string_view name) {
  const auto* found =
      std::find_if(kExtensions.begin(), kExtensions.end(),
                   [&](const Extension& extension) { return has_extension(name, extension.text); });
  return found == kExtensions.end() ? nullptr : found;
}

[[noreturn]] void refuse(const std::string& name) {
  std::string known;
  for (const Extension& extension : kExtensions) {
    if (!extension.text.empty()) known.append(extension.text).append(", ");
  }
  throw UsageError("a checkpoint named " + name + ": \"" + std::string(unknown_extension(name)) +
                   "\" is not an extension of checkpoints; expected one of " + known + "or none");
}

}  // namespace

bool is_written_extension(std::string_view name) { return written_extension(name) != nullptr; }

std::string_view meant_extension(std::string_view name) {
  if (const Extension* written = written_extension(name)) return written->text;
  return is_meant_as_extension(name) ? unknown_extension(name) : std::string_view();
}

const Extension& find_extension(const std::string& path) {
  const std::string name = base_name(path);
  const Extension* found = written_extension(name);
  if (found == nullptr) {
    if (is_meant_as_extension(name)) refuse(name);
    return kExtensions.front();
  }
  if (found->codec != nullptr && found->codec->program != nullptr) {
    const std::string program = found->codec->program;
    if (!find_program(program)) {
      throw UsageError("a checkpoint named " + name + " is written by the program " + program +
                       ", which is not in the PATH: install it, or choose another extension");
    }
  }
  return *found;
}

}  // namespace cairn
