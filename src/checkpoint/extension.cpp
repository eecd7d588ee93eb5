#include "checkpoint/extension.h"

#include <algorithm>
#include <array>

#include "cairn/error.h"

#include "base/file.h"
#include "base/program.h"

namespace cairn {
namespace {

// Composer's. Its ".tar.lzma" is xz, but its ".pt.lzma" is not: it is read back by `lzma -dc`,
// which takes nothing but LZMA alone.
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

// A dot at the front, of ".hidden", begins no extension.
bool has_extension(std::string_view name, std::string_view extension) {
  if (extension.empty()) return name.find('.', 1) == name.npos;
  return name.size() > extension.size() && name.ends_with(extension);
}

[[noreturn]] void refuse(const std::string& name) {
  std::string known;
  for (const Extension& extension : kExtensions) {
    if (!extension.text.empty()) known.append(extension.text).append(", ");
  }
  throw UsageError("a checkpoint named " + name + ": \"" + name.substr(name.find('.', 1)) +
                   "\" is no extension of a checkpoint; there are " + known + "or none");
}

}  // namespace

bool is_written_extension(std::string_view name) {
  return std::any_of(kExtensions.begin(), kExtensions.end(), [&](const Extension& extension) {
    return !extension.text.empty() && has_extension(name, extension.text);
  });
}

const Extension& find_extension(const std::string& path) {
  const std::string name = base_name(path);
  const auto* found =
      std::find_if(kExtensions.begin(), kExtensions.end(),
                   [&](const Extension& extension) { return has_extension(name, extension.text); });
  if (found == kExtensions.end()) refuse(name);
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
