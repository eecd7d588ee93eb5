#include "checkpoint/folder/inspect_file.h"

#include "checkpoint/open/source.h"
#include "checkpoint/open/training_info.h"
#include "io/read_fault.h"

namespace cairn {

FileFindings inspect_file(const std::shared_ptr<ObjectStore>& store, const std::string& path,
                          Verify how) {
  try {
    const auto source = open_source(path, {.store = store});
    const VerifyReport report = source->verify(how);
    if (!report.ok()) return {std::nullopt, report.summary()};
    return {training_info(*source), ""};
  } catch (const std::exception& e) {
    const ReadFault fault = read_fault_of(e);
    if (fault == ReadFault::kNow) throw;
    return {std::nullopt, without_path(read_problem(e), path),
            fault == ReadFault::kBytes ? std::current_exception() : nullptr};
  }
}

}  // namespace cairn
