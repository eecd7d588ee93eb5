#include "cairn/error.h"

#include "checkpoint/source.h"

namespace cairn {

Value load(const std::string& path, const LoadOptions& options) {
  const auto source = open_source(path, {.files = options.files});
  if (source->info().format == "torchscript") {
    throw UnsupportedError(path + ": this is a TorchScript archive, not a state dict; try: " +
                           "cairn convert --weights-only " + path + " weights.pt");
  }
  const VerifyReport report = source->verify(options.verify);
  if (!report.ok()) {
    throw CorruptError(path + " is " + report.summary() + "; try an older checkpoint", path,
                       report.damage.front().begin);
  }
  Value value = source->read();
  if (!options.ignore_keys.empty()) options.ignore_keys.apply(value);
  return value;
}

}  // namespace cairn
