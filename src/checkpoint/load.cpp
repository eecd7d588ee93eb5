#include "cairn/error.h"

#include "checkpoint/open_checkpoint.h"

namespace cairn {

Value load(const std::string& path, const LoadOptions& options) {
  const OpenCheckpoint checkpoint = open_checkpoint(files_or_default(options.files), path);
  const VerifyReport report = verify_opened(checkpoint, options.verify);
  if (!report.ok()) {
    throw CorruptError(path + " is " + report.summary() + "; try an older checkpoint", path,
                       report.damage.front().begin);
  }
  Value value = checkpoint.file.read();
  if (!options.ignore_keys.empty()) options.ignore_keys.apply(value);
  return value;
}

}  // namespace cairn
