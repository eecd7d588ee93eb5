// Compares the system calls of saves into a folder of this machine, and their order, with golden
// files. golden_trace.h says how to rewrite the golden files.
#include <gtest/gtest.h>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"

#include "storage/local/local_store.h"
#include "testing/golden_trace.h"
#include "testing/sim_file_system.h"
#include "testing/traced_runs.h"
#include "testing/tracing_files.h"

namespace cairn {
namespace {

using testing::expect_trace;
using testing::SimFileSystem;
using testing::Trace;
using testing::TracedLayout;
using testing::TracedRuns;
using testing::TracingFiles;

// Saves in the background make the same calls in the same order.
struct FilesTraceCase {
  const char* name;
  TracedLayout layout;
  bool is_async = false;
  const char* golden = name;
  bool recycles = false;
  bool has_links = true;
};

void PrintTo(const FilesTraceCase& of, std::ostream* out) { *out << of.name; }  // NOLINT: gtest's

class FilesTrace : public ::testing::TestWithParam<FilesTraceCase> {};

INSTANTIATE_TEST_SUITE_P(
    Layouts, FilesTrace,
    ::testing::Values(
        FilesTraceCase{"local", TracedLayout::kOneFile},
        FilesTraceCase{"local_async", TracedLayout::kOneFile, true, "local"},
        FilesTraceCase{
            .name = "local_recycling", .layout = TracedLayout::kOneFile, .recycles = true},
        FilesTraceCase{
            .name = "local_without_links", .layout = TracedLayout::kOneFile, .has_links = false},
        FilesTraceCase{"local_sharded", TracedLayout::kShardedFolder},
        FilesTraceCase{"local_sharded_async", TracedLayout::kShardedFolder, true, "local_sharded"},
        FilesTraceCase{"local_tars", TracedLayout::kTars},
        FilesTraceCase{"local_tars_async", TracedLayout::kTars, true, "local_tars"}),
    [](const auto& test) { return test.param.name; });

TEST_P(FilesTrace, OfARunsSavesIsAsWritten) {
  const auto& of = GetParam();
  TracedRuns runs{.folder = "/run", .layout = of.layout, .is_async = of.is_async};
  SimFileSystem disk;
  if (!of.has_links) disk.refuse_links(EPERM);
  TracingFiles files(disk, runs.trace);
  runs.store = of.recycles ? recycling_local_store(files) : local_store(files);
  runs.all();
  expect_trace(std::string("files_") + of.golden, runs.trace->lines());
}

TEST(FilesTraceOfFunctions, OfSaveIsAsWritten) {
  const auto trace = std::make_shared<Trace>();
  SimFileSystem disk;
  TracingFiles files(disk, trace);
  const auto store = local_store(files);
  const Value value = Dict{{"a", 1}};
  trace->begin("a new checkpoint");
  save(value, "/run/a.pt", {.store = store});
  trace->begin("over it");
  save(value, "/run/a.pt", {.overwrite = true, .store = store});
  trace->begin("refused");
  EXPECT_THROW(save(value, "/run/a.pt", {.overwrite = false, .store = store}), AlreadyExistsError);
  expect_trace("files_save", trace->lines());
}

}  // namespace
}  // namespace cairn
